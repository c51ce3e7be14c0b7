"""What a hubbub.toml in the working folder, maybe of a cloned repository, can do before and after `hubbub trust`.

The programs of these files create a marker file when they run.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import clean_environment, served, trust
from tests.cli.pseudo_terminal import Terminal

pytestmark = pytest.mark.usefixtures("own_folders")
Run = Callable[..., subprocess.CompletedProcess[str]]

ECHO = str(Path(__file__).parents[2] / "examples" / "echo.py")
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "client", "version": "1"}}
MESSAGES = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)
STDIN = "".join(f"{json.dumps(message)}\n" for message in MESSAGES)
PROGRAM = """
import pathlib
pathlib.Path(__file__).with_name("ran").touch()
from hubbub import Server, run
server = Server("red")
@server.tool
async def red_tool() -> str:
    return "red"
if __name__ == "__main__":
    run(server)
"""


@pytest.fixture
def hostile_folder(tmp_path: Path) -> Path:
    """A folder whose settings start a program and allow every origin."""
    (tmp_path / "red.py").write_text(PROGRAM)
    write(tmp_path, command=sys.executable, args=["red.py"])
    return tmp_path


def write(folder: Path, **server: Any) -> None:
    section = "".join(f"{key} = {json.dumps(value)}\n" for key, value in server.items())
    (folder / "hubbub.toml").write_text(f'allowed_origins = ["*"]\n[servers.red]\n{section}')


def has_run(folder: Path) -> bool:
    is_there = (folder / "ran").exists()
    (folder / "ran").unlink(missing_ok=True)
    return is_there


def tools_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    listed = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}[2]
    return [tool["name"] for tool in listed["result"]["tools"] if not tool["name"].startswith("hub.")]


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert all(word in done.stderr for word in (*words, "hubbub trust")), done.stderr
    assert len(done.stderr.splitlines()) == 1


KEYS = ("allowed_origins", "servers.red.command", "servers.red.args")


def test_on_stdio_the_program_of_an_untrusted_folder_does_not_run(hubbub: Run, hostile_folder: Path) -> None:
    done = hubbub("serve", ECHO, "--transport", "stdio", stdin=STDIN)
    assert tools_of(done) == ["echo"]
    assert not has_run(hostile_folder)
    (line,) = done.stderr.splitlines()
    assert all(word in line for word in ("is not trusted", *KEYS, "hubbub trust"))


@pytest.mark.parametrize("way", [{"target": "red.py"}, {"target": "red:server"}, {"pack": "demo"}])
def test_targets_and_packs_of_an_untrusted_folder_are_not_loaded(
    hubbub: Run, hostile_folder: Path, way: dict[str, str]
) -> None:
    write(hostile_folder, **way)
    assert tools_of(hubbub("serve", ECHO, "--transport", "stdio", stdin=STDIN)) == ["echo"]
    assert not has_run(hostile_folder)


def test_an_unset_variable_of_an_ignored_server_is_not_an_error(hubbub: Run, hostile_folder: Path) -> None:
    done = hubbub("serve", ECHO, "--transport", "stdio", stdin=STDIN, HUBBUB_SERVERS__RED__TIMEOUT_S="5")
    assert tools_of(done) == ["echo"]
    assert not has_run(hostile_folder)


def test_target_and_mcp_json_of_an_untrusted_file_are_ignored(hubbub: Run, hostile_folder: Path) -> None:
    servers = {"mcpServers": {"red": {"command": sys.executable, "args": ["red.py"]}}}
    (hostile_folder / "mcp.json").write_text(json.dumps(servers))
    (hostile_folder / "hubbub.toml").write_text('target = "red.py"\nmcp_json = "mcp.json"\n')
    done = hubbub("serve", "--pack", "demo", "--transport", "stdio", stdin=STDIN)
    assert "echo" in tools_of(done)
    assert "target, mcp_json" in done.stderr
    assert not has_run(hostile_folder)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("host = '0.0.0.0'\ninsecure = true", "host, insecure"),
        ("key_file = 'keys.toml'", "key_file"),
        ("limits = ['off']", "limits"),
        ("max_message_bytes = 4096", "max_message_bytes"),
        ("[packs.activity]\naw_url = 'http://example.com'", "packs.activity.aw_url"),
        ("[hub]\nresult_bytes = 0", "hub.result_bytes"),
        ("[viws.x]\ny = 1", "viws"),
    ],
)
def test_over_http_nothing_is_served_in_an_untrusted_folder(hubbub: Run, tmp_path: Path, text: str, key: str) -> None:
    (tmp_path / "hubbub.toml").write_text(text)
    assert_refused(hubbub("serve", ECHO, "--port", "0"), "is not trusted", key)


def test_display_settings_need_no_trust(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "hubbub.toml").write_text(
        'view = "few"\n[hub]\nsearch = "off"\n[views.few]\ninclude = ["echo"]\ndescriptions = { echo = "Says it." }\n'
        "[views.all]\n"
    )
    done = hubbub("serve", "--pack", "demo", "--transport", "stdio", stdin=STDIN)
    assert (tools_of(done), done.stderr) == (["echo"], "")
    assert "Says it." in done.stdout
    (tmp_path / "hubbub.toml").write_text("[views.all]\n")
    with served("--pack", "demo", folder=tmp_path) as url:
        assert url
    assert hubbub("trust").stdout.endswith("which needs no trust.\n")


def test_a_view_of_an_ignored_server_is_empty(hubbub: Run, hostile_folder: Path) -> None:
    with (hostile_folder / "hubbub.toml").open("a") as file:
        file.write('[views.reds]\nservers = ["red"]\n')
    serve = ("serve", ECHO, "--transport", "stdio")
    assert tools_of(hubbub(*serve, "--view", "reds", stdin=STDIN)) == []
    assert not has_run(hostile_folder)
    trust(hostile_folder)
    assert tools_of(hubbub(*serve, "--view", "reds", stdin=STDIN)) == ["red_tool"]


def test_servers_of_the_users_own_file_are_served_in_every_folder(
    hubbub: Run, hostile_folder: Path, tmp_path: Path
) -> None:
    user_folder = Path(os.environ["XDG_CONFIG_HOME"], "hubbub")
    user_folder.mkdir()
    (user_folder / "blue.py").write_text(PROGRAM.replace("red", "blue"))
    (user_folder / "hubbub.toml").write_text('[servers.blue]\ntarget = "blue.py"\n')
    done = hubbub("serve", ECHO, "--transport", "stdio", stdin=STDIN)
    assert tools_of(done) == ["blue_tool", "echo"]
    assert "servers.red.command" in done.stderr
    assert "blue_tool" in hubbub("tools", "blue").stdout
    (hostile_folder / "hubbub.toml").unlink()
    assert "+ server blue" in hubbub("plan").stdout


def test_trust_of_a_folder_ends_when_its_file_changes(hubbub: Run, hostile_folder: Path) -> None:
    trust(hostile_folder)
    serve = ("serve", ECHO, "--transport", "stdio")
    done = hubbub(*serve, stdin=STDIN)
    assert tools_of(done) == ["red_tool", "echo"]
    assert has_run(hostile_folder)
    assert "trust" not in done.stderr
    write(hostile_folder, command=sys.executable, args=["red.py", "--more"])
    done = hubbub(*serve, stdin=STDIN)
    assert tools_of(done) == ["echo"]
    assert not has_run(hostile_folder)
    assert "is no longer trusted, because hubbub.toml changed" in done.stderr
    assert_refused(hubbub("serve", ECHO, "--port", "0"), "because hubbub.toml changed", *KEYS)
    trust(hostile_folder)
    assert tools_of(hubbub(*serve, stdin=STDIN)) == ["red_tool", "echo"]


def test_trust_ends_when_a_referenced_file_changes(hubbub: Run, hostile_folder: Path) -> None:
    trust(hostile_folder)
    (hostile_folder / "red.py").write_text(PROGRAM + "# changed\n")
    done = hubbub("serve", ECHO, "--transport", "stdio", stdin=STDIN)
    assert tools_of(done) == ["echo"]
    assert not has_run(hostile_folder)
    assert "because red.py changed" in done.stderr
    assert_refused(hubbub("serve", "--port", "0"), "because red.py changed")


def test_a_file_named_with_config_needs_no_trust(hubbub: Run, hostile_folder: Path) -> None:
    serve = ("serve", ECHO, "--transport", "stdio")
    assert tools_of(hubbub(*serve, "--config", "hubbub.toml", stdin=STDIN)) == ["red_tool", "echo"]
    assert tools_of(hubbub(*serve, stdin=STDIN, HUBBUB_CONFIG="hubbub.toml")) == ["red_tool", "echo"]


def test_config_replaces_the_file_of_the_folder(hubbub: Run, hostile_folder: Path) -> None:
    done = hubbub("serve", ECHO, "--transport", "stdio", "--config", os.devnull, stdin=STDIN)
    assert (tools_of(done), done.stderr) == (["echo"], "")


@pytest.mark.parametrize(
    "command",
    [["tools", "red"], ["call", "red", "red_tool"], ["read", "red"], ["prompts", "red"],
     ["agent", "--model-url", "http://127.0.0.1:1/v1", "--model", "m", "--server", "red", "hello"]],
    ids=lambda command: command[0],
)  # fmt: skip
def test_servers_of_an_untrusted_folder_cannot_be_named(hubbub: Run, hostile_folder: Path, command: list[str]) -> None:
    assert_refused(hubbub(*command), "servers.red.command")
    assert not has_run(hostile_folder)


def test_servers_of_a_trusted_folder_can_be_named(hubbub: Run, hostile_folder: Path) -> None:
    trust(hostile_folder)
    assert "red_tool" in hubbub("tools", "red").stdout


def test_other_servers_can_be_called_in_an_untrusted_folder(hubbub: Run, hostile_folder: Path) -> None:
    assert '"echo": "hi"' in hubbub("call", "demo", "echo", "text=hi").stdout
    assert not has_run(hostile_folder)


def test_other_commands_name_the_refused_keys(hubbub: Run, hostile_folder: Path) -> None:
    checks = json.loads(hubbub("doctor", "--json").stdout)
    (settings,) = [check for check in checks["checks"] if check["name"] == "settings"]
    assert not settings["ok"]
    assert "servers.red.command" in settings["detail"]
    assert checks["servers"] == []
    planned = hubbub("plan")
    assert (planned.returncode, planned.stdout) == (1, "")
    assert "servers.red.command" in planned.stderr
    assert "+ server red" in hubbub("plan", "--config", "hubbub.toml").stdout
    (hostile_folder / "hubbub.toml").write_text('key_file = "keys.toml"\n')
    assert_refused(hubbub("keys", "create", "eve"), "key_file")
    assert not (hostile_folder / "keys.toml").exists()


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["sidecar", "--port", "0"], "[packs.activity.privacy]\nurls = 'full'"),
        (["campaign-server", "--addr", "127.0.0.1:0"], "[packs.tabletop]\ndatabase = 'sqlite:///x.db'"),
    ],
)
def test_services_of_packs_do_not_start_in_an_untrusted_folder(
    hubbub: Run, tmp_path: Path, command: list[str], text: str
) -> None:
    (tmp_path / "hubbub.toml").write_text(text)
    assert_refused(hubbub(*command), "packs.")


def test_trusted_folders_can_be_listed_and_removed(hubbub: Run, hostile_folder: Path, tmp_path_factory: Any) -> None:
    trust(hostile_folder)
    deleted_folder = tmp_path_factory.mktemp("gone")
    write(deleted_folder, command="true")
    trust(deleted_folder)
    (deleted_folder / "hubbub.toml").unlink()
    assert sorted(hubbub("trust", "--list").stdout.splitlines()) == [
        f"gone     {deleted_folder}",
        f"trusted  {hostile_folder}",
    ]
    (hostile_folder / "red.py").write_text("# other\n")
    assert f"changed  {hostile_folder}" in hubbub("trust", "--list").stdout
    trust(hostile_folder)
    assert hubbub("trust").stdout == f"hubbub.toml in {hostile_folder} is already trusted.\n"
    assert hubbub("trust", "--remove").stdout == f"{hostile_folder} is no longer trusted.\n"
    assert hubbub("trust", "--remove", str(deleted_folder)).returncode == 0
    assert hubbub("trust", "--list").stdout == ""
    assert_refused(hubbub("trust", "--remove"), "is not a trusted folder")
    assert_refused(hubbub("serve", "--port", "0"), "is not trusted")


def test_trust_without_a_terminal_needs_yes(hubbub: Run, hostile_folder: Path) -> None:
    done = hubbub("trust", stdin="y\n")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert hubbub("trust", "--list").stdout == ""
    assert hubbub("trust", str(hostile_folder / "none")).returncode == 2


def test_trust_shows_the_settings_without_secrets(hubbub: Run, hostile_folder: Path) -> None:
    (hostile_folder / "hubbub.toml").write_text(
        '[servers.red]\ncommand = "./red.py"\nargs = ["\\u001b[2Jx"]\nenv = { TOKEN = "hunter2-hunter2" }\n'
    )
    shown = hubbub("trust", "--yes").stderr
    assert 'servers.red.command = "./red.py"' in shown
    assert str(hostile_folder / "red.py") in shown
    assert "servers.red.env: TOKEN" in shown
    assert "hunter2" not in shown
    assert "\x1b" not in shown


def test_line_breaks_in_keys_add_no_lines_to_the_review(hubbub: Run, hostile_folder: Path) -> None:
    (hostile_folder / "hubbub.toml").write_text('[servers."x\\nIt refers to no files."]\ncommand = "./red.py"\n')
    shown = hubbub("trust", "--yes").stderr
    assert not any(line.startswith("It refers to no files") for line in shown.splitlines())
    assert './red.py"' in shown


def test_trust_asks_for_confirmation_at_a_terminal(hostile_folder: Path) -> None:
    with Terminal("trust", folder=hostile_folder) as terminal:
        terminal.expect("servers.red.command")
        terminal.expect("[y/N]")
        terminal.type("n\n")
        assert terminal.end()[0] == 1
    with Terminal("serve", "--port", "0", folder=hostile_folder) as terminal:
        terminal.expect("servers.red.command")
        terminal.expect("[y/N]")
        terminal.type("\n")
        code, rest = terminal.end()
        assert code == 2
        assert "is not trusted" in rest
    assert not has_run(hostile_folder)
    with Terminal("serve", "--port", "0", folder=hostile_folder) as terminal:
        terminal.expect("[y/N]")
        terminal.type("y\n")
        terminal.expect("is trusted now")
        terminal.expect("hubbub serves http://127.0.0.1:")


def test_key_add_keeps_the_folder_trusted(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "hubbub.toml").write_text('key_file = "keys.toml"\n')
    trust(tmp_path)
    for name in ("alice", "bob"):
        assert hubbub("keys", "create", name).returncode == 0
        with served(ECHO, folder=tmp_path) as url:
            assert url
    with (tmp_path / "keys.toml").open("a") as file:
        file.write("# by somebody else\n")
    assert hubbub("keys", "create", "carol", "--key-file", "keys.toml").returncode == 0
    assert_refused(hubbub("serve", ECHO, "--port", "0"), "because keys.toml changed")


# -- a running hub ---------------------------------------------------------------


@contextmanager
def hub(folder: Path) -> Iterator[Iterator[str]]:
    """Run `hubbub serve` in a folder; yields the lines that it writes once it serves."""
    with subprocess.Popen(
        [sys.executable, "-m", "hubbub", "serve", "--port", "0"],
        cwd=folder, env=clean_environment(), stderr=subprocess.PIPE, encoding="utf-8",
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            read_until(lines, "Ctrl+C stops it")
            yield lines
        finally:
            process.terminate()


def read_until(lines: Iterator[str], words: str) -> str:
    lines_seen = []
    for line in lines:
        if words in line:
            return line
        lines_seen.append(line)
    raise AssertionError(f"{words!r} did not come: {lines_seen}")


def test_a_running_hub_applies_a_change_only_after_trust(hostile_folder: Path) -> None:
    (hostile_folder / "hubbub.toml").write_text('[servers.demo]\npack = "demo"\n')
    trust(hostile_folder)
    with hub(hostile_folder) as lines:
        with (hostile_folder / "hubbub.toml").open("a") as file:
            file.write(f"[servers.red]\ncommand = {json.dumps(sys.executable)}\nargs = ['red.py']\n")
        line = read_until(lines, "settings_not_applied")
        assert "is no longer trusted, because hubbub.toml, " in line
        assert "servers.red.command" in line
        assert "hubbub trust" in line
        assert not has_run(hostile_folder)
        trust(hostile_folder)
        read_until(lines, "applied +red")


# -- other files of the working folder ------------------------------------------------


SCRIPT = [str(Path(sys.executable).parent / "hubbub")]


@pytest.mark.parametrize("hubbub", [SCRIPT, [sys.executable, "-m", "hubbub"]], ids=["script", "module"])
def test_a_library_in_the_working_folder_is_not_imported(tmp_path: Path, hubbub: list[str]) -> None:
    (tmp_path / "msgspec.py").write_text("import pathlib; pathlib.Path('ran').touch()\n")
    done = subprocess.run(
        [*hubbub, "tools", "demo"], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=60
    )
    assert "echo" in done.stdout, done.stderr
    assert not has_run(tmp_path)


def test_installed_modules_take_precedence_over_the_working_folder(tmp_path: Path, hubbub: Run) -> None:
    here, installed = tmp_path / "shop.py", tmp_path / "installed" / "shop.py"
    installed.parent.mkdir()
    here.write_text(PROGRAM)
    installed.write_text(PROGRAM.replace("red", "blue"))
    serve = ("serve", "shop:server", "--transport", "stdio")
    assert tools_of(hubbub(*serve, stdin=STDIN, PYTHONPATH=str(installed.parent))) == ["blue_tool"]
    assert not has_run(tmp_path)
    assert tools_of(hubbub(*serve, stdin=STDIN)) == ["red_tool"]
