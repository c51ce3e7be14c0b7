"""`hubbub tools`, `read` and `prompts` with real servers: tables and JSON."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.completed_process import ECHO, GALLERY, WEATHER, assert_refused, read_json, read_stdout
from tests.cli.conftest import served, trust

Run = Callable[..., subprocess.CompletedProcess[str]]


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


# -- tools -------------------------------------------------------------------------


def test_the_tools_of_a_program_are_a_table(hubbub: Run) -> None:
    assert rows(read_stdout(hubbub("tools", WEATHER))) == [
        ["TOOL", "ARGUMENTS", "WHAT IT DOES"],
        ["forecast", "city: string, days?: integer", "Forecast the weather of a city."],
    ]


def test_one_tool_is_described_with_its_arguments(hubbub: Run) -> None:
    lines = rows(read_stdout(hubbub("tools", WEATHER, "forecast")))
    assert lines[0] == ["forecast"]
    assert ["city", "string", "required", "One of the cities in weather://cities."] in lines
    assert ["days", "integer", "How many days to look ahead, at most 14."] in lines


def test_json_output_is_the_raw_list(hubbub: Run, demo_url: str) -> None:
    tools = read_json(hubbub("tools", demo_url, "--json"))["tools"]
    assert [tool["name"] for tool in tools] == ["hello-world", "echo", "health"]
    assert tools[1]["inputSchema"]["properties"]["text"]["type"] == "string"


def test_the_same_server_is_reached_over_websocket_and_as_a_pack(hubbub: Run, demo_url: str) -> None:
    over_websocket = read_stdout(hubbub("tools", demo_url.replace("http", "ws", 1) + "-ws"))
    assert over_websocket == read_stdout(hubbub("tools", demo_url)) == read_stdout(hubbub("tools", "demo"))


def test_a_command_after_two_dashes_is_started(hubbub: Run) -> None:
    command = ("--", sys.executable, ECHO)
    assert rows(read_stdout(hubbub("tools", *command)))[1] == ["echo", "text: string", "Return the text as it came."]
    assert read_stdout(hubbub("call", "echo", "text=--json", *command)) == "--json\n"


def test_a_pinned_protocol_version_is_used(hubbub: Run) -> None:
    done = hubbub("tools", WEATHER, "-v", "--protocol-version", "2025-03-26")
    assert "(2025-03-26)" in done.stderr
    assert_refused(hubbub("tools", WEATHER, "--protocol-version", "2025-03-62"), 2, "2025-03-26")


def test_a_table_in_a_pipe_is_not_cut(hubbub: Run, tmp_path: Path) -> None:
    text = f"One {'long' * 60} two."
    program = f"from hubbub import Server\nserver = Server('long')\n@server.tool\ndef find() -> str:\n    {text!r}\n"
    (tmp_path / "long.py").write_text(program)
    assert rows(read_stdout(hubbub("tools", "long.py")))[1] == ["find", text]


# -- names ---------------------------------------------------------------------------

SECTIONS = f"""
port = 4000

[servers.weather]
command = "hubbub"
args = ["serve", "{WEATHER}", "--transport", "stdio"]

[servers.demo-http]
url = "${{DEMO_URL}}"
headers = {{ X-Key = "${{KEY:-none}}" }}
timeout_s = 20
"""


def test_servers_of_the_settings_file_can_be_named(hubbub: Run, tmp_path: Path, demo_url: str) -> None:
    (tmp_path / "hubbub.toml").write_text(SECTIONS)
    trust(tmp_path)
    assert read_json(hubbub("tools", "demo-http", "--json", DEMO_URL=demo_url))["tools"][1]["name"] == "echo"
    assert_refused(hubbub("tools", "demo-http"), 2, "DEMO_URL", "not set")
    assert_refused(hubbub("tools", "wether"), 2, "unknown server 'wether'", "did you mean 'weather'?", "after `--`")
    checks = json.loads(hubbub("doctor", "--json").stdout)["checks"]
    assert [check["ok"] for check in checks if check["name"] == "settings"] == [True]


def test_a_command_of_the_settings_file_is_started(hubbub: Run, tmp_path: Path) -> None:
    text = SECTIONS.replace('"hubbub"', f'"{sys.executable}"').replace('["serve"', '["-m", "hubbub", "serve"')
    (tmp_path / "other.toml").write_text(text)
    assert "forecast" in read_stdout(hubbub("tools", "weather", "--config", "other.toml"))


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (
            "[servers.x]\nurl = 'http://a/mcp'\ntimout_s = 3",
            ("line 3: servers.x.timout_s", "did you mean 'timeout_s'?"),
        ),
        ("[servers.x]\nurl = 'http://a/mcp'\ntimeout_s = 'long'", ("servers.x.timeout_s", "must be a number")),
        ("[servers.x]\nurl = 'http://a/mcp'\nheaders = 'top secret'", ("servers.x.headers", "{ NAME = VALUE }")),
        ("[servers.x]\nurl = 'http://a/mcp'\nheaders = {A = 12345678}", ("servers.x.headers.A", "must be text")),
        ("[servers.x]\ntimeout_s = 3", ("servers.x", "exactly one of url, command")),
        ("[servers.x]\nurl = 'http://user:hunter2@a/mcp'", ("must not contain a user or a password",)),
        ("servers = 3", ("must be a section",)),
    ],
)
def test_a_wrong_section_is_refused_without_showing_secrets(
    hubbub: Run, tmp_path: Path, section: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "hubbub.toml").write_text(section)
    done = hubbub("tools", "x", "--config", "hubbub.toml")
    assert_refused(done, 2, *words)
    assert not any(secret in done.stderr for secret in ("top secret", "12345678", "hunter2"))


def test_serve_refuses_an_invalid_section_and_accepts_a_valid_one(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "hubbub.toml").write_text("[servers.x]\nurl = 'http://a/mcp'\n")
    serve = ("serve", ECHO, "--transport", "stdio", "--config", "hubbub.toml")
    assert hubbub(*serve, HUBBUB_SERVERS__X__TIMEOUT_S="5").returncode == 0
    misspelt = hubbub(*serve, HUBBUB_SERVERS__X__TIMEOUT="5")
    assert misspelt.returncode == 0
    assert "HUBBUB_SERVERS__X__TIMEOUT (did you mean HUBBUB_SERVERS__X__TIMEOUT_S?)" in misspelt.stderr
    (tmp_path / "hubbub.toml").write_text("[servers.x]\nurll = 'http://a/mcp'\n")
    assert_refused(hubbub(*serve), 2, "did you mean 'url'?")


def test_servers_of_an_mcp_servers_file_can_be_named(hubbub: Run, tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": [ECHO], "env": {"A": "b"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"parrot": entry}}))
    assert "echo" in read_stdout(hubbub("tools", "parrot", "--mcp-json", "mcp.json"))
    assert_refused(hubbub("tools", "parot", "--mcp-json", "mcp.json"), 2, "did you mean 'parrot'?")
    assert_refused(hubbub("tools", "parrot", "--mcp-json", "none.json"), 2, "none.json cannot be read")


NO_OBJECT = '{"jsonrpc":"2.0","id":1,"result":[]}'

# -- mistakes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, ("no server; give a URL",)),
        (("--",), 2, ("must be followed by the command",)),
        (("nosuch.py",), 2, ("file 'nosuch.py' not found",)),
        (("localhost:3000",), 2, ("http://localhost:3000",)),
        (("npx -y server",), 2, ("-- npx -y server",)),
        ((ECHO, "ecco"), 2, ("no tool 'ecco'", "did you mean 'echo'?")),
        ((ECHO, "echo", "echo"), 2, ("at most one tool",)),
        ((ECHO, "--timeout", "0"), 2, ("--timeout", "above 0")),
        ((ECHO, "--header", "A=b"), 2, ("`headers`", "stdio")),
        (("http://127.0.0.1:1/mcp",), 3, ("cannot be reached", "check that it is running")),
        (("--", "no-such-program"), 3, ("cannot be started",)),
        (("--", "sh", "-c", "echo out of paper >&2; exit 7"), 3, ("out of paper",)),
        (("--timeout", "1", "--", "sleep", "30"), 3, ("Timed out after 1 s", "--timeout")),
        (("--protocol-version", "2025-11-25", "--", "sh", "-c", f"read x; echo '{NO_OBJECT}'"), 4, ("not an object",)),
    ],
)  # fmt: skip
def test_a_failure_is_one_line_and_an_exit_code(
    hubbub: Run, arguments: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    assert_refused(hubbub("tools", *arguments), code, *words)


def test_a_metadata_address_gets_no_advice_to_allow_it(hubbub: Run) -> None:
    done = hubbub("tools", "http://169.254.169.254/")
    assert_refused(done, 3, "egress policy blocks", "are always refused")
    assert "--allow-private-network" not in done.stderr


def test_a_header_is_sent_and_never_shown(hubbub: Run, tmp_path: Path) -> None:
    key = hubbub("keys", "create", "alice", "--key-file", "keys.toml").stdout.strip()
    with served(ECHO, "--key-file", "keys.toml", folder=tmp_path) as url:
        assert_refused(hubbub("tools", url), 3, "401", "--header-env", "a key in the header X-API-Key, or ")
        done = hubbub("tools", url, "-vv", "--header-env", "Authorization=BEARER", BEARER=f"Bearer {key}")
        assert (done.returncode, "echo" in done.stdout, key in done.stderr) == (0, True, False), done.stderr
        assert hubbub("call", url, "echo", "text=hi", "--header", f"X-API-Key={key}").stdout == "hi\n"
        wrong = hubbub("tools", url, "-vv", "--header", "Authorization: Bearer hunter2hunter2")
        assert wrong.returncode == 3
        assert "hunter2hunter2" not in wrong.stderr
    assert_refused(hubbub("tools", url, "--header-env", "Authorization=NOWHERE"), 2, "the variable NOWHERE is not set")


# -- resources, prompts ----------------------------------------------------------------


def test_resources_and_templates_are_listed(hubbub: Run) -> None:
    listed = rows(read_stdout(hubbub("read", WEATHER)))
    assert [row[0] for row in listed] == ["RESOURCE", "weather://cities", "weather://{city}/range"]
    both = read_json(hubbub("read", WEATHER, "--json"))
    assert both["resources"][0]["uri"] == "weather://cities"
    assert both["resourceTemplates"][0]["uriTemplate"] == "weather://{city}/range"


def test_a_text_resource_is_written_unchanged(hubbub: Run) -> None:
    assert read_stdout(hubbub("read", WEATHER, "weather://cities")) == "Bergen\nCairo\nLima\nOsaka\n"
    contents = read_json(hubbub("read", WEATHER, "weather://Lima/range", "--json"))["contents"]
    assert json.loads(contents[0]["text"]) == {"low": 15, "high": 27}
    assert_refused(hubbub("read", WEATHER, "weather://Atlantis/range"), 4, "(error -32602)")


def test_binary_resources_are_saved_without_overwriting(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_text("mine")
    assert read_stdout(hubbub("read", GALLERY, "gallery://photo.png")).startswith(
        "resource saved: photo-2.png (image/png,"
    )
    assert (tmp_path / "photo.png").read_text() == "mine"
    assert (tmp_path / "photo-2.png").read_bytes().startswith(b"\x89PNG")


def test_prompts_are_listed_and_filled_in(hubbub: Run) -> None:
    assert rows(read_stdout(hubbub("prompts", WEATHER)))[1] == ["pack_for", "city", "Plan what to pack for a trip."]
    assert read_stdout(hubbub("prompts", WEATHER, "pack_for", "city=Lima")).startswith("user: I am going to Lima.")
    message = read_json(hubbub("prompts", WEATHER, "pack_for", "city=Lima", "--json"))["messages"][0]
    assert (message["role"], message["content"]["type"]) == ("user", "text")
    assert_refused(hubbub("prompts", WEATHER, "pack_for", "city"), 2, "key=value")
    assert_refused(hubbub("prompts", WEATHER, "pack_fro"), 4, "pack_fro")


def test_empty_lists_are_reported(hubbub: Run) -> None:
    assert read_stdout(hubbub("read", ECHO)) == "The server has no resources.\n"
    assert read_stdout(hubbub("prompts", ECHO)) == "The server has no prompts.\n"
