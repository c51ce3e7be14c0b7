"""The clients' own programs with what `hubbub install` writes: they start the server, and two of them call a tool.

The model of those two is an endpoint of the test. Without a login, the others only say whether the server connects.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import clean_environment
from tests.cli.model_endpoint import serve_model
from tests.install.client_programs import ROOT, ClientProgram, provide_program
from tests.install.responses_endpoint import serve_responses

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are installed for Linux and macOS")
SERVER = (sys.executable, "-P", "-m", "hubbub", "serve", "--pack", "demo", "--alone", "--transport", "stdio")
Provide = Callable[[str], ClientProgram]


@pytest.fixture
def provide(tmp_path: Path) -> Provide:
    """Return a client's program in a new home in which `hubbub install` has registered the pack demo."""

    def register(name: str) -> ClientProgram:
        program = provide_program(name, tmp_path / "home")
        folders = {f"XDG_{kind}_HOME": str(program.home / f".{kind.lower()}") for kind in ("CONFIG", "DATA", "STATE")}
        done = subprocess.run(
            [sys.executable, "-m", "hubbub", "install", "--client", name, "--pack", "demo"], cwd=program.folder,
            env=clean_environment() | folders | {"HOME": str(program.home), "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": ""},
            stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return program

    return register


def add_to_json(path: Path, **values: Any) -> None:
    """Add settings of the client to the file that `hubbub install` has written."""
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")


def read_events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def configure_opencode(program: ClientProgram, url: str) -> None:
    add_to_json(
        program.home / ".config/opencode/opencode.json",
        autoupdate=False,
        share="disabled",
        enabled_providers=["scripted"],
        model="scripted/scripted",
        small_model="scripted/scripted",
        provider={
            "scripted": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": url, "apiKey": "none"},
                "models": {"scripted": {"tool_call": True}},
            }
        },
    )


def test_opencode_calls_a_tool(provide: Provide) -> None:
    program = provide("opencode")
    with serve_model([("hubbub_echo", {"text": "from opencode"})], "I have seen the echo.") as model:
        configure_opencode(program, model.url)
        done = program.run("run", "--format", "json", "--title", "test", "Call the tool echo.")
    assert done.returncode == 0, done.stderr
    assert {"hubbub_echo", "hubbub_health"} <= set(model.listed_tools)
    assert model.results() == [{"echo": "from opencode"}]
    events = read_events(done.stdout)
    (call,) = [event["part"] for event in events if event["type"] == "tool_use"]
    assert (call["tool"], call["state"]["status"]) == ("hubbub_echo", "completed")
    assert "I have seen the echo." in [event["part"]["text"] for event in events if event["type"] == "text"]


def test_opencode_connects_to_the_server(provide: Provide) -> None:
    program = provide("opencode")
    configure_opencode(program, "http://127.0.0.1:9/v1")
    done = program.run("mcp", "list")
    assert done.returncode == 0, done.stderr
    assert "hubbub" in done.stdout
    assert "connected" in done.stdout


def test_opencode_reads_the_file_of_this_repository(tmp_path: Path) -> None:
    program = provide_program("opencode", tmp_path / "home")
    shutil.copy(ROOT / "opencode.jsonc", program.folder)
    done = program.run("debug", "config")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mcp"]["hubbub-tabletop"]["command"] == ["scripts/mcp.sh"]


def test_codex_calls_a_tool(provide: Provide) -> None:
    program = provide("codex")
    path = program.home / ".codex/config.toml"
    with serve_responses("hubbub", "echo", {"text": "from codex"}, "I have seen the echo.") as model:
        settings = f"""\
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false
analytics.enabled = false

[model_providers.scripted]
name = "Scripted"
base_url = "{model.url}"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

"""
        path.write_text(settings + path.read_text(encoding="utf-8"), encoding="utf-8")
        flags = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        done = program.run("exec", *flags, "Call the tool echo.")
    assert done.returncode == 0, done.stderr
    items = [event["item"] for event in read_events(done.stdout) if event["type"] == "item.completed"]
    (call,) = [item for item in items if item["type"] == "mcp_tool_call"]
    assert (call["server"], call["tool"], call["status"]) == ("hubbub", "echo", "completed")
    assert call["result"]["structured_content"] == {"echo": "from codex"}
    assert "from codex" in model.outputs()[0]
    assert "I have seen the echo." in [item.get("text") for item in items]


def test_codex_lists_the_server(provide: Provide) -> None:
    program = provide("codex")
    done = program.run("mcp", "list", "--json")
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads(done.stdout)
    assert (entry["name"], entry["enabled"]) == ("hubbub", True)
    assert (entry["transport"]["command"], *entry["transport"]["args"]) == SERVER


def test_claude_code_connects_to_the_server(provide: Provide) -> None:
    program = provide("claude-code")
    listed = program.run("mcp", "list")
    assert listed.returncode == 0, listed.stderr
    assert "hubbub: " in listed.stdout
    assert "Connected" in listed.stdout
    shown = program.run("mcp", "get", "hubbub")
    assert shown.returncode == 0, shown.stderr
    assert "User config" in shown.stdout
    assert "serve --pack demo --alone --transport stdio" in shown.stdout


def test_gemini_connects_to_the_server(provide: Provide) -> None:
    program = provide("gemini")
    folder = program.home / ".gemini"
    add_to_json(
        folder / "settings.json",
        general={"enableAutoUpdate": False},
        privacy={"usageStatisticsEnabled": False},
        telemetry={"enabled": False},
    )
    (folder / "trustedFolders.json").write_text(json.dumps({str(program.folder): "TRUST_FOLDER"}), encoding="utf-8")
    done = program.run("mcp", "list")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if "hubbub:" in line]
    assert line.endswith("Connected")
    assert "Disconnected" not in line
