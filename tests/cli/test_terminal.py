"""Output and input in a terminal: forms, progress, and control sequences in untrusted text."""

import signal
import sys
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals", allow_module_level=True)

from tests.cli.completed_process import GALLERY
from tests.cli.pseudo_terminal import Terminal

CALL = ("call", GALLERY)


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
def test_a_form_is_asked_field_by_field(tmp_path: Path, version: str) -> None:
    with Terminal(*CALL, "book", "flight=BA1", "--protocol-version", version, folder=tmp_path) as terminal:
        terminal.expect("The server asks: Which seat would you like?")
        terminal.expect("row: ")
        terminal.type("first\n")
        terminal.expect("row must be a whole number, not 'first'")
        terminal.expect("row: ")
        terminal.type("12\n")
        terminal.expect("[True] ")
        terminal.type("no\n")
        code, shown = terminal.end()
    assert (code, shown.splitlines()[-1]) == (0, "BA1: row 12, aisle")


def test_the_timeout_is_suspended_while_a_form_is_open(tmp_path: Path) -> None:
    with Terminal(*CALL, "book", "flight=BA1", "--timeout", "3", folder=tmp_path) as terminal:
        terminal.expect("row: ")
        assert terminal.is_quiet_for(3.5)
        terminal.type("1\n")
        terminal.expect("[True] ")
        terminal.type("\n")
        code, shown = terminal.end()
    assert (code, shown.splitlines()[-1]) == (0, "BA1: row 1, window")


def test_no_progress_bar_is_shown_while_a_form_is_open(tmp_path: Path) -> None:
    with Terminal(*CALL, "book", "flight=BA1", "--protocol-version", "2025-11-25", folder=tmp_path) as terminal:
        terminal.expect("row: (integer) ")
        assert terminal.is_quiet_for(1.0)
        terminal.type("1\n")
        terminal.expect("[True] ")
        terminal.type("\n")
        assert terminal.end()[0] == 0


def test_end_of_input_declines_a_form(tmp_path: Path) -> None:
    with Terminal(*CALL, "book", "flight=BA1", folder=tmp_path) as terminal:
        terminal.expect("row: ")
        terminal.type("\x04")
        code, shown = terminal.end()
    assert (code, shown.splitlines()[-1]) == (0, "BA1: no seat (decline)")


def test_ctrl_c_in_a_form_ends_the_command(tmp_path: Path) -> None:
    with Terminal(*CALL, "book", "flight=BA1", folder=tmp_path) as terminal:
        terminal.expect("row: ")
        terminal.process.send_signal(signal.SIGINT)
        code, shown = terminal.end()
    assert (code, "Traceback" in shown) == (130, False)


def test_the_progress_bar_is_removed_at_the_end(tmp_path: Path) -> None:
    with Terminal(*CALL, "slow", "steps=8", folder=tmp_path) as terminal:
        terminal.expect("step 5")
        code, shown = terminal.end()
    assert code == 0
    assert shown.splitlines()[-1].endswith("arrived")


def test_control_sequences_of_a_server_do_not_reach_the_terminal(tmp_path: Path) -> None:
    with Terminal(*CALL, "trip", folder=tmp_path) as terminal:
        code, shown = terminal.end()
    assert (code, "\x1b[2J" in shown, "tripped" in shown) == (1, False, True)
