"""What `hubbub doctor` says about the clients of a user."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hubbub import Check
from hubbub.cli.client_checks import check_clients
from hubbub.install.clients import find_client
from hubbub.install.entries import ServerEntry
from hubbub.install.machine import Machine
from hubbub.install.registration import apply_install, plan_install

DEMO = ["-P", "-m", "hubbub", "serve", "--pack", "demo", "--transport", "stdio"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "work").mkdir()
    return Machine(system="linux", home=tmp_path, folder=tmp_path / "work", environ={})


def write(path: Path, values: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(values), encoding="utf-8")


async def test_a_hub_that_was_registered_under_any_name_is_checked(machine: Machine) -> None:
    (machine.home / ".gemini").mkdir()
    remote = ServerEntry(name="work", url="http://127.0.0.1:1/mcp")
    apply_install(plan_install(find_client("gemini"), machine, remote))
    (check,) = await check_clients(machine)
    assert check.detail.startswith("work: ")
    assert (check.ok, check.advice) == (False, "check that the hub runs at this URL")


async def test_claude_codes_entry_for_the_current_folder_is_checked(machine: Machine) -> None:
    entry = {"command": sys.executable, "args": DEMO}
    servers = {"mcpServers": {"vdo-ninja-mcp": entry}}
    write(machine.home / ".claude.json", {"projects": {str(machine.folder): servers, "/other": servers}})
    (check,) = await check_clients(machine)
    assert check.ok
    assert check.detail.startswith("vdo-ninja-mcp: registered and starts (")


async def test_servers_of_others_are_named_and_not_started(machine: Machine) -> None:
    others = {f"s{number}\x1b[2J": {"command": "never-started"} for number in range(7)}
    write(machine.home / ".cursor" / "mcp.json", {"mcpServers": others})
    (check,) = await check_clients(machine)
    assert check.detail.startswith("hubbub is not registered (7 other servers: s0")
    assert check.detail.endswith(" and 2 more)")
    assert "\x1b" not in check.detail
    own = {"hubbub": {"command": str(machine.home / "gone")}, "notes": {"command": "never-started"}}
    write(machine.home / ".cursor" / "mcp.json", {"mcpServers": own})
    broken, rest = await check_clients(machine)
    assert not broken.ok
    assert "with `hubbub install` and the same options" in broken.advice
    assert rest == Check("cursor", True, "1 other server: notes, not started")
