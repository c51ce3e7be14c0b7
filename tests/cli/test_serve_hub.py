"""`hubbub serve` as a hub: servers of an mcp.json and of hubbub.toml, packs and programs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import clean_environment, served, trust
from tests.http.eras import modern_request, open_session
from tests.http.raw_http import Site

Run = Callable[..., subprocess.CompletedProcess[str]]

PROGRAM = """
from hubbub import Server

server = Server("{name}")


@server.tool
async def who(text: str = "") -> str:
    return "{name} " + text


@server.tool
async def {name}_only() -> dict[str, str]:
    return {{"server": "{name}"}}
"""


def program(folder: Path, name: str) -> str:
    path = folder / f"{name}.py"
    path.write_text(PROGRAM.format(name=name))
    return str(path)


def child_config(folder: Path, name: str, **more: Any) -> dict[str, Any]:
    """An entry of an mcpServers file for a Hubbub server on stdio."""
    args = ["-m", "hubbub", "serve", program(folder, name), "--transport", "stdio"]
    env = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    return {"command": sys.executable, "args": args, "env": env, **more}


def mcp_json(folder: Path, **servers: dict[str, Any]) -> str:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


def requests(*calls: tuple[str, dict[str, Any]]) -> str:
    """Requests in plain JSON-RPC, one per line."""
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(calls, 1)
    ]
    return "".join(f"{line}\n" for line in lines)


LIST = requests(("tools/list", {}))


def answers(done: subprocess.CompletedProcess[str]) -> list[Any]:
    assert done.returncode == 0, done.stderr
    found = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda answer: answer["id"])
    return [answer.get("result", answer.get("error")) for answer in found]


def tools(done: subprocess.CompletedProcess[str]) -> list[str]:
    return names(answers(done)[0])


def names(listed: dict[str, Any]) -> list[str]:
    """The names of the tools without those of the hub itself."""
    return [tool["name"] for tool in listed["tools"] if not tool["name"].startswith("hub.")]


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert all(word in line for word in words), line


def test_the_servers_of_an_mcp_json_are_one_server_on_stdio(hubbub: Run, tmp_path: Path) -> None:
    path = mcp_json(tmp_path, red=child_config(tmp_path, "red"), blue=child_config(tmp_path, "blue"))
    calls = requests(
        ("tools/list", {}),
        ("tools/call", {"name": "blue__who", "arguments": {"text": "x"}}),
        ("red_only", {}),
    )
    done = hubbub("serve", "--mcp-json", path, "--transport", "stdio", stdin=calls)
    listed, called, bare = answers(done)
    assert names(listed) == [
        "red__who",
        "red_only",
        "blue__who",
        "blue_only",
    ]
    assert called == {"content": [{"type": "text", "text": "blue x"}]}
    assert bare == {"server": "red"}


async def test_two_programs_and_an_address_are_one_server_over_http_for_every_era(tmp_path: Path) -> None:
    with served(program(tmp_path, "green"), folder=tmp_path) as green:
        path = mcp_json(
            tmp_path, red=child_config(tmp_path, "red"), blue=child_config(tmp_path, "blue"), green={"url": green}
        )
        with served("--mcp-json", path, folder=tmp_path) as url:
            site = Site(int(url.split(":")[2].split("/")[0]))
            expected_names = ["red__who", "red_only", "blue__who", "blue_only", "green__who", "green_only"]
            plain = await site.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
            assert names(plain.json["result"]) == expected_names
            session = await open_session(site)
            for name in ("red", "blue", "green"):
                params = {"name": f"{name}__who", "arguments": {"text": "hi"}}
                call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
                assert (await session.post(call)).json["result"]["content"][0]["text"] == f"{name} hi"
                body, headers = modern_request("tools/call", {"name": f"{name}_only", "arguments": {}})
                result = (await site.post(body, headers)).json["result"]
                assert result["structuredContent"] == {"server": name}
                assert result["resultType"] == "complete"
            body, headers = modern_request("tools/list")
            assert names((await site.post(body, headers)).json["result"]) == expected_names


def test_servers_packs_and_programs_of_the_settings_file_are_served_together(hubbub: Run, tmp_path: Path) -> None:
    red = child_config(tmp_path, "red")
    (tmp_path / "hubbub.toml").write_text(
        f"""
[servers.red]
command = {json.dumps(red["command"])}
args = {json.dumps(red["args"])}
env = {{ PYTHONPATH = {json.dumps(red["env"].get("PYTHONPATH", ""))} }}

[servers.blue]
target = {json.dumps(program(tmp_path, "blue"))}
prefix = "always"
prefix_text = "b"

[servers.demo]
pack = "demo"
include = ["echo"]

[servers.gone]
url = "http://127.0.0.1:1/mcp"
enabled = false

[servers.red.tools.red_only]
name = "only"
"""
    )
    done = hubbub("serve", "--config", "hubbub.toml", "--transport", "stdio", stdin=LIST)
    assert tools(done) == ["who", "only", "b__who", "b__blue_only", "echo"]


def test_a_named_program_and_named_packs_are_served_with_the_servers(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "hubbub.toml").write_text(f"[servers.blue]\ntarget = {json.dumps(program(tmp_path, 'blue'))}\n")
    trust(tmp_path)
    named = program(tmp_path, "red")
    done = hubbub("serve", named, "--pack", "demo", "--transport", "stdio", stdin=LIST)
    assert {"red__who", "red_only", "blue__who", "blue_only", "echo"} < set(tools(done))
    done = hubbub("serve", named, "--transport", "stdio", "--alone", stdin=LIST)
    assert tools(done) == ["who", "red_only"]
    done = hubbub("serve", named, "--transport", "stdio", stdin=LIST, HUBBUB_ALONE="true")
    assert tools(done) == ["who", "red_only"]


def test_a_hubbub_child_does_not_become_a_hub_of_the_same_file(hubbub: Run, tmp_path: Path) -> None:
    red = child_config(tmp_path, "red")
    (tmp_path / "hubbub.toml").write_text(
        f"[servers.red]\ncommand = {json.dumps(red['command'])}\nargs = {json.dumps(red['args'])}\n"
        f"env = {{ PYTHONPATH = {json.dumps(red['env'].get('PYTHONPATH', ''))} }}\n"
        f"cwd = {json.dumps(str(tmp_path))}\n"
    )
    trust(tmp_path)
    done = hubbub("serve", "--transport", "stdio", stdin=LIST)
    assert tools(done) == ["who", "red_only"]
    done = hubbub("tools", "red", "--json")
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == ["who", "red_only"]


VIEWS = """
[servers.red]
target = {red}
[servers.blue]
target = {blue}
[views.blues]
servers = ["blue"]
[views.both]
include = ["*_only"]
"""


def write_views(folder: Path) -> None:
    red, blue = (json.dumps(program(folder, name)) for name in ("red", "blue"))
    (folder / "hubbub.toml").write_text(VIEWS.format(red=red, blue=blue))
    trust(folder)


def test_a_client_on_stdio_sees_the_selected_view(hubbub: Run, tmp_path: Path) -> None:
    write_views(tmp_path)
    assert tools(hubbub("serve", "--transport", "stdio", "--view", "blues", stdin=LIST)) == [
        "blue__who",
        "blue_only",
    ]


def test_with_oauth_the_public_url_is_printed_at_start(tmp_path: Path) -> None:
    (tmp_path / "hubbub.toml").write_text(
        '[oauth]\npublic_url = "http://localhost:3999"\n[[oauth.issuers]]\nissuer = "https://login.example.com"\n'
    )
    trust(tmp_path)
    with served("--pack", "demo", folder=tmp_path) as url:
        assert url == "http://localhost:3999/mcp"


def test_servers_and_views_are_printed_at_start(tmp_path: Path) -> None:
    write_views(tmp_path)
    command = [sys.executable, "-m", "hubbub", "serve", "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=clean_environment(), stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stderr is not None
        announced = [" ".join(process.stderr.readline().removeprefix("hubbub:").split()) for _ in range(6)]
        process.terminate()
    base = announced[0].removeprefix("hubbub serves ").removesuffix("/mcp")
    assert announced[1:5] == [
        f"server red: program {tmp_path / 'red.py'}",
        f"server blue: program {tmp_path / 'blue.py'}",
        f"view blues: {base}/mcp/blues",
        f"view both: {base}/mcp/both",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--view", "blue", "--transport", "stdio"], ["--view", "'blue'", "did you mean 'blues'?"]),
        (["--view", "blues"], ["--view", "stdio", "/mcp/blues"]),
        (["--mcp-json", "none.json"], ["none.json", "cannot be read"]),
        (["--tool-profile", "none", "--transport", "stdio"], ["--tool-profile", "'none'"]),
    ],
)
def test_a_wrong_flag_is_refused_in_one_line(
    hubbub: Run, tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    write_views(tmp_path)
    assert_refused(hubbub("serve", *arguments), *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[servers.hub]\ncommand = 'x'", ["line 1: servers.hub", "is reserved"]),
        ("[servers.a]\ncommand = 'x'\nprefix = 'allways'", ["line 3: servers.a.prefix", "one of"]),
        ("[servers.a]\ncommand = 'x'\npack = 'demo'", ["servers.a", "exactly one of url, command"]),
        ("[servers.a]\npack = 'dmeo'", ["'dmeo'", "did you mean 'demo'?"]),
        ("[servers.a]\ntarget = 'none.py'", ["none.py"]),
        ("[servers.a]\ncommand = 'x'\n[servers.a.tools.t]\nhiden = true", ["line 4", "did you mean 'hidden'?"]),
        ("[hub]\nserach = 'on'", ["line 2: hub.serach", "did you mean 'search'?"]),
        ("[hub]\nsearch = 'maybe'", ["line 2: hub.search", "auto, on, only, off"]),
        ("[hub]\nname_limit = 3", ["line 2: hub.name_limit", "at least 16"]),
        ("[views.v]\nservers = ['nobody']\n[servers.a]\ncommand = 'x'", ["line 2: views.v.servers", "'nobody'"]),
        ("[views.Reader]\n", ["views.Reader", "a-z"]),
        ("[views.health]\n", ["views.health", "health"]),
        ("[views.v]\nread_onyl = true", ["line 2: views.v.read_onyl", "did you mean 'read_only'?"]),
        ("[viws.v]\n", ["viws", "did you mean 'views'?"]),
    ],
)
def test_an_invalid_file_is_reported_with_line_and_key(
    hubbub: Run, tmp_path: Path, text: str, words: list[str]
) -> None:
    (tmp_path / "hubbub.toml").write_text(text)
    assert_refused(hubbub("serve", "--config", "hubbub.toml", "--transport", "stdio"), *words)


def test_a_server_name_in_both_files_is_refused(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "hubbub.toml").write_text(f"[servers.red]\ntarget = {json.dumps(program(tmp_path, 'red'))}\n")
    path = mcp_json(tmp_path, red=child_config(tmp_path, "red"))
    assert_refused(
        hubbub("serve", "--config", "hubbub.toml", "--mcp-json", path), "mcp.json: red", "hubbub.toml line 1"
    )


def test_a_dead_server_does_not_affect_other_servers(hubbub: Run, tmp_path: Path) -> None:
    dead = {"command": sys.executable, "args": ["-c", "raise SystemExit('no way')"]}
    path = mcp_json(tmp_path, dead=dead, red=child_config(tmp_path, "red"))
    calls = requests(("tools/list", {}), ("hub.status", {}), ("who", {"text": "x"}))
    listed, status, called = answers(hubbub("serve", "--mcp-json", path, "--transport", "stdio", stdin=calls))
    assert names(listed) == ["who", "red_only"]
    assert called == "red x"
    assert "dead" in [server["id"] for server in status["servers"]]
