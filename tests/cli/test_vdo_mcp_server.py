"""`vdo-mcp-server`, started by clients that were registered with the VDO.Ninja contract."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import ROOT, clean_environment
from tests.cli.pseudo_terminal import Terminal

CORE = [
    "vdo_connect", "vdo_send", "vdo_receive", "vdo_status", "vdo_disconnect", "vdo_list_sessions", "vdo_capabilities",
    "vdo_sync_peers", "vdo_sync_announce",
]  # fmt: skip
FILE = [
    "vdo_file_send", "vdo_file_send_path", "vdo_file_resume", "vdo_file_transfers", "vdo_file_receive", "vdo_file_save",
]  # fmt: skip
STATE = ["vdo_state_set", "vdo_state_get", "vdo_state_sync"]
DEFAULT_BYTES = 1_048_576


def entry_point() -> str:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    entry: str = scripts["vdo-mcp-server"]
    return entry


def make_command(after: str = "") -> list[str]:
    """The console script as pip writes it: it need not be installed for the sources under test."""
    module, function = entry_point().split(":")
    return [
        sys.executable,
        "-c",
        f"import sys\nfrom {module} import {function}\ncode = {function}()\n{after}\nsys.exit(code)",
    ]


def run(*flags: str, stdin: str = "", after: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*make_command(after), *flags], input=stdin, env=clean_environment() | environ,
        capture_output=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip


def request(method: str, params: dict[str, Any] | None = None, padding: int = 0) -> str:
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}})
    return text + " " * (padding - len(text))


def ask(message: str, *flags: str, **environ: str) -> dict[str, Any]:
    """The answer to one message."""
    done = run(*flags, stdin=f"{message}\n", **environ)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def list_tools(*flags: str, **environ: str) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool for tool in ask(request("tools/list"), *flags, **environ)["result"]["tools"]}


@pytest.mark.parametrize(
    ("profile", "offered", "withheld"),
    [
        ("core", CORE, [*FILE, *STATE]),
        ("file", [*CORE, *FILE], STATE),
        ("state", [*CORE, *STATE], FILE),
        ("full", [*CORE, *FILE, *STATE], []),
        ("FULL", [*CORE, *FILE, *STATE], []),
    ],
)
def test_a_profile_offers_the_tools_of_the_contract(profile: str, offered: list[str], withheld: list[str]) -> None:
    listed = list_tools("--tool-profile", profile)
    assert set(offered) <= set(listed)
    assert not set(withheld) & set(listed)


def test_the_default_profile_is_full_and_flags_override_variables() -> None:
    assert {*CORE, *FILE, *STATE} <= set(list_tools())
    assert set(list_tools(VDON_MCP_TOOL_PROFILE="core")) == set(CORE)
    assert set(list_tools("--tool-profile", "core", VDON_MCP_TOOL_PROFILE="full")) == set(CORE)


def test_a_call_of_a_disabled_tool_is_a_validation_error() -> None:
    result = ask(request("tools/call", {"name": "vdo_state_get"}), "--tool-profile", "core")["result"]
    assert result["isError"] is True
    assert result["structuredContent"]["ok"] is False
    assert result["structuredContent"]["error"]["type"] == "validation_error"
    assert result["structuredContent"]["error"]["tool"] == "vdo_state_get"


def test_framed_input_is_answered_framed() -> None:
    message = request("ping")
    done = subprocess.run(
        make_command(), input=f"Content-Length: {len(message)}\r\n\r\n{message}".encode(),
        env=clean_environment(), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    assert head == f"Content-Length: {len(body)}".encode()
    assert json.loads(body)["result"] == {}


def test_the_largest_message_is_the_one_of_the_contract_and_can_be_set() -> None:
    assert "result" in ask(request("ping", padding=DEFAULT_BYTES))
    assert "error" in ask(request("ping", padding=DEFAULT_BYTES + 1))
    assert "result" in ask(request("ping", padding=DEFAULT_BYTES + 1), "--max-message-bytes", "2000000")
    assert "error" in ask(request("ping", padding=5000), VDON_MCP_MAX_MESSAGE_BYTES="4096")


def test_security_flags_are_the_defaults_of_every_session() -> None:
    flags = ["--join-token-secret", "sek", "--enforce-join-token", "Yes", "--require-session-mac", "true"]
    fields = list_tools(*flags, "--allow-peer-stream-ids", "ann,bob")["vdo_connect"]["inputSchema"]["properties"]
    assert fields["enforce_join_token"]["default"] is fields["require_session_mac"]["default"] is True
    assert fields["allow_peer_stream_ids"]["default"] == ["ann", "bob"]
    fields = list_tools()["vdo_connect"]["inputSchema"]["properties"]
    assert fields["enforce_join_token"]["default"] is fields["require_session_mac"]["default"] is False


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--no-such-flag", "1"], "unknown CLI argument: --no-such-flag"),
        (["--join-token-secrets=hidden"], "unknown CLI argument: --join-token-secrets"),
        (["stray"], "unknown CLI argument: stray"),
        (["--max-message-bytes"], "missing value for --max-message-bytes"),
        (["--tool-profile", "--enforce-join-token", "true"], "missing value for --tool-profile"),
        (["--max-message-bytes", "0"], "--max-message-bytes must be"),
        (["--max-message-bytes", "many"], "--max-message-bytes must be"),
        (["--tool-profile", "cores"], "unknown profile 'cores'"),
        (["--enforce-join-token", "maybe"], "--enforce-join-token must be true or false"),
        (["--enforce-join-token", "true"], "needs a secret"),
    ],
)
def test_a_wrong_flag_is_fatal(flags: list[str], said: str) -> None:
    done = run(*flags)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    reported = json.loads(line)
    assert reported["type"] == "fatal"
    assert said in reported["message"]
    assert "hidden" not in line


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_flag(flag: str) -> None:
    done = run(flag)
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("tool-profile", "max-message-bytes", "join-token-secret", "enforce-join-token"):
        assert f"--{name} <" in done.stdout
    assert "--allow-peer-stream-ids <a,b,c>" in done.stdout
    assert "--require-session-mac <true|false>" in done.stdout


def test_the_end_of_input_ends_the_server() -> None:
    done = run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_servers_in_the_users_settings_are_not_started(tmp_path: Path) -> None:
    settings = tmp_path / "hubbub" / "hubbub.toml"
    settings.parent.mkdir()
    settings.write_text('[servers.other]\ncommand = "no-such-program"\n')
    listed = list_tools(XDG_CONFIG_HOME=str(tmp_path), HUBBUB_PACK="demo")
    assert "vdo_connect" in listed
    assert not [name for name in listed if not name.startswith("vdo_")]


def test_a_start_does_not_import_the_command_line_library() -> None:
    done = run(stdin=f"{request('ping')}\n", after="assert 'click' not in sys.modules, 'click was imported'")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["result"] == {}


def test_a_person_in_a_terminal_is_told_what_it_waits_for(tmp_path: Path) -> None:
    with Terminal(folder=tmp_path, command=make_command()) as terminal:
        assert "MCP server on stdio" in terminal.expect("Press Ctrl+C")
    with Terminal(folder=tmp_path, command=make_command(), VDON_MCP_NO_STARTUP_BANNER="1") as terminal:
        terminal.type(f"{request('ping')}\n")
        assert "Press Ctrl+C" not in terminal.expect('"result":{}')
