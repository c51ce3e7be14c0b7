"""Transfer ids and file names from peers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.packs.peers import limits
from hubbub.packs.peers.names import display_name, is_transfer_id


@pytest.mark.parametrize(
    ("given_name", "shown"),
    [
        ("report.txt", "report.txt"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Windows\\system.ini", "system.ini"),
        ("/", "file.bin"),
        ("..", "file.bin"),
        ("", "file.bin"),
        ("a\x00b\x1b[31m.txt", "ab[31m.txt"),
        ("gpj.\u202eexe", "gpj.exe"),
        ("half \ud800 pair", "half  pair"),
        ("Übersicht ✓.pdf", "Übersicht ✓.pdf"),
    ],
)
def test_display_names_have_no_path_and_no_control_characters(given_name: str, shown: str) -> None:
    assert display_name(given_name) == shown


@given(st.text(st.characters(), max_size=300))
def test_a_display_name_is_never_a_path(name: str) -> None:
    shown = display_name(name)
    assert shown
    assert shown not in (".", "..")
    assert not set(shown) & set("/\\\0\n")
    assert len(shown) <= limits.FILE_NAME_CHARACTERS
    shown.encode()


@pytest.mark.parametrize(
    ("transfer_id", "is_one"),
    [
        ("file_0a1b2c3d", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("", False),
        ("a b", False),
        ("é", False),
        ("a\n", False),
    ],
)
def test_transfer_ids_are_short_printable_ascii(transfer_id: str, is_one: bool) -> None:
    assert is_transfer_id(transfer_id) is is_one
