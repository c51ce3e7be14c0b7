"""`hubbub serve` as a process: programs, packs, flags and errors."""

import http.client
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hubbub.cli.main import quick_flags

Run = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).parents[2]
ECHO = str(ROOT / "examples/echo.py")

PROGRAM = """
from hubbub import Server

{name} = Server("{name}")


@{name}.tool
async def shout(text: str) -> str:
    return text.upper()
"""


def requests(*calls: tuple[str, dict[str, Any]]) -> str:
    """Requests in plain JSON-RPC, one per line."""
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(calls, 1)
    ]
    return "".join(f"{line}\n" for line in lines)


def results(done: subprocess.CompletedProcess[str]) -> list[Any]:
    """The results in the order of the calls; stdout must contain nothing else."""
    assert done.returncode == 0, done.stderr
    answers = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda answer: answer["id"])
    return [answer["result"] for answer in answers]


def tool_names(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [tool["name"] for tool in results(done)[0]["tools"]]


LIST = requests(("tools/list", {}))


def assert_refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """Check the exit code, and that stderr is one line with these words."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("hubbub: ")
    assert all(word in line for word in words), line


# -- programs --------------------------------------------------------------------


def test_a_file_is_served(hubbub: Run) -> None:
    done = hubbub(
        "serve",
        ECHO,
        "--transport",
        "stdio",
        stdin=requests(("tools/call", {"name": "echo", "arguments": {"text": "hi"}})),
    )
    assert results(done) == [{"content": [{"type": "text", "text": "hi"}]}]
    assert done.stderr == ""


def test_a_program_can_serve_itself() -> None:
    done = subprocess.run(
        [sys.executable, ECHO], input=LIST, capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert tool_names(done) == ["echo"]


def test_the_only_server_of_a_file_is_found_under_any_name(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(PROGRAM.format(name="loud"), encoding="utf-8")
    assert tool_names(hubbub("serve", "loud.py", "--transport=stdio", stdin=LIST)) == ["shout"]


def test_one_of_several_servers_is_named(hubbub: Run, tmp_path: Path) -> None:
    text = PROGRAM.format(name="one") + PROGRAM.format(name="two").replace("def shout", "def whisper")
    (tmp_path / "both.py").write_text(text, encoding="utf-8")
    assert_refused(hubbub("serve", "both.py", "--transport", "stdio"), 2, "both.py:one or both.py:two")
    assert tool_names(hubbub("serve", "both.py:two", "--transport", "stdio", stdin=LIST)) == ["whisper"]
    assert_refused(hubbub("serve", "both.py:three", "--transport", "stdio"), 2, "no server called 'three'", "one, two")


def test_a_module_is_served_from_the_folder(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/tools.py").write_text(PROGRAM.format(name="till"), encoding="utf-8")
    assert tool_names(hubbub("serve", "--transport", "stdio", "shop.tools:till", stdin=LIST)) == ["shout"]
    assert_refused(hubbub("serve", "shop.toys:till", "--transport", "stdio"), 2, "module 'shop.toys' not found")


def test_a_file_can_import_its_neighbours(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/neighbour.py").write_text(PROGRAM.format(name="server"), encoding="utf-8")
    (tmp_path / "sub/main.py").write_text("from neighbour import server\n", encoding="utf-8")
    assert tool_names(hubbub("serve", "sub/main.py", "--transport", "stdio", stdin=LIST)) == ["shout"]


def test_a_program_that_breaks_shows_its_own_traceback(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def fail():\n    1 / 0\nfail()\n", encoding="utf-8")
    done = hubbub("serve", "broken.py", "--transport", "stdio")
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("Traceback")
    assert "broken.py" in lines[1]
    assert lines[-1].endswith("could not be loaded: ZeroDivisionError: division by zero")
    assert "hubbub/" not in "".join(lines[:-1])


def test_a_syntax_error_shows_its_place_without_our_frames(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "typo.py").write_text("x = 1\ndef f(:\n", encoding="utf-8")
    for target in ("typo.py", "typo:server"):
        done = hubbub("serve", target, "--transport", "stdio")
        assert (done.returncode, done.stdout) == (1, "")
        place, source, caret, kind, message = done.stderr.splitlines()
        assert place.endswith('typo.py", line 2')
        assert (source.strip(), caret.strip(), kind) == ("def f(:", "^", "SyntaxError: invalid syntax")
        assert message.startswith("hubbub: ")


def test_an_import_error_shows_only_frames_of_the_program(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "needs.py").write_text("from importlib import import_module\nimport_module('no_such_library')\n")
    for target in ("needs.py", "needs:server"):
        done = hubbub("serve", target, "--transport", "stdio")
        assert done.returncode == 1
        shown = [line for line in done.stderr.splitlines() if line.startswith("  File ")]
        assert len(shown) == 1
        assert "needs.py" in shown[0]


def test_a_program_that_calls_run_when_imported_gets_advice(hubbub: Run, tmp_path: Path) -> None:
    text = PROGRAM.format(name="server") + "\nfrom hubbub import run\nrun(server)\n"
    (tmp_path / "eager.py").write_text(text, encoding="utf-8")
    line = text.splitlines().index("run(server)") + 1
    for target in ("eager.py", "eager:server"):
        done = hubbub("serve", target, "--transport", "stdio", stdin=LIST)
        assert_refused(done, 1, f"eager.py line {line}: ", 'if __name__ == "__main__":')
    guarded = text.replace("run(server)\n", 'if __name__ == "__main__":\n    run(server)\n')
    (tmp_path / "eager.py").write_text(guarded, encoding="utf-8")
    assert tool_names(hubbub("serve", "eager.py", "--transport", "stdio", stdin=LIST)) == ["shout"]


def test_a_missing_library_is_not_reported_as_a_missing_program(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "needs.py").write_text("import no_such_library\n", encoding="utf-8")
    done = hubbub("serve", "needs:server", "--transport", "stdio")
    assert done.returncode == 1
    assert "No module named 'no_such_library'" in done.stderr


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (None, 2, ("file 'my.py' not found",)),
        ("x = 1\n", 2, ("my.py defines no server", "from hubbub import Server")),
        (
            "from hubbub import Server\ns = Server('s')\n@s.tool\ndef f(x: type): ...\n",
            1,
            ("my.py line 3", "parameter `x`"),
        ),
    ],
)
def test_an_invalid_target_is_reported_in_one_line(
    hubbub: Run, tmp_path: Path, text: str | None, code: int, words: tuple[str, ...]
) -> None:
    if text is not None:
        (tmp_path / "my.py").write_text(text, encoding="utf-8")
    assert_refused(hubbub("serve", "my.py", "--transport", "stdio"), code, *words)


def test_a_pack_given_as_target_gets_the_advice_to_use_pack(hubbub: Run) -> None:
    assert_refused(hubbub("serve", "demo", "--transport", "stdio"), 2, "hubbub serve --pack demo")


@pytest.mark.parametrize(
    ("target", "words"),
    [("./", ("is a folder", "weather.py")), ("a.txt", ("neither file.py nor module:server", "shop.tools:server"))],
)
def test_a_name_that_is_not_a_pack_gets_no_advice_about_packs(hubbub: Run, target: str, words: tuple[str, ...]) -> None:
    done = hubbub("serve", target, "--transport", "stdio")
    assert_refused(done, 2, repr(target), *words)
    assert "--pack" not in done.stderr


# -- packs -----------------------------------------------------------------------


def test_without_a_target_every_pack_that_can_run_is_served(hubbub: Run, third_party: str) -> None:
    names = tool_names(hubbub("serve", "--transport", "stdio", stdin=LIST, PYTHONPATH=third_party))
    # Hubbub's own packs first, by name.
    assert (names[0], names[-2:]) == ("aw.get_state", ["tide", "flood"])
    assert {"hello-world", "echo", "health", "duality_action_roll"} <= set(names)


def test_a_named_pack_is_served_alone_with_its_lifespan(hubbub: Run, third_party: str) -> None:
    stdin = requests(("tools/list", {}), ("tools/call", {"name": "tide"}))
    done = hubbub("serve", "--pack", "tides", "--transport", "stdio", stdin=stdin, PYTHONPATH=third_party)
    listed, called = results(done)
    assert [tool["name"] for tool in listed["tools"]] == ["tide", "flood"]
    assert json.loads(called["content"][0]["text"]) == {"harbour": "Brest", "metres": 4, "open": True, "key": ""}
    assert done.stderr == "gauge closed\n"


def test_packs_can_be_served_with_a_program(hubbub: Run, third_party: str) -> None:
    done = hubbub("serve", ECHO, "--pack", "tides", "--transport", "stdio", stdin=LIST, PYTHONPATH=third_party)
    assert tool_names(done) == ["echo", "tide", "flood"]
    assert_refused(
        hubbub("serve", ECHO, "--pack", "demo", "--transport", "stdio"),
        1,
        "hubbub: the pack 'demo' defines the tool 'echo'",
    )


def test_a_pack_is_configured_by_flag_variable_and_file(hubbub: Run, third_party: str, tmp_path: Path) -> None:
    (tmp_path / "hubbub.toml").write_text("transport = 'stdio'\n[packs.tides]\nmetres = 9\nharbour = 'file'\n")
    (tmp_path / "key").write_text("almanac\n")
    environ = {"PYTHONPATH": third_party, "HUBBUB_TIDES_KEY_FILE": "key"}
    stdin = requests(("tools/call", {"name": "tide"}))
    serve = ("serve", "--config", "hubbub.toml")
    values = [
        json.loads(results(done)[0]["content"][0]["text"])
        for done in (
            hubbub(*serve, stdin=stdin, **environ),
            hubbub(*serve, stdin=stdin, TIDES_HARBOUR="variable", **environ),
            hubbub(*serve, "--harbour", "flag", stdin=stdin, TIDES_HARBOUR="variable", **environ),
        )
    ]
    assert [(each["harbour"], each["metres"], each["key"]) for each in values] == [
        ("file", 9, "almanac"),
        ("variable", 9, "almanac"),
        ("flag", 9, "almanac"),
    ]


def test_a_profile_applies_to_packs_that_define_it(hubbub: Run, third_party: str) -> None:
    arguments = ("serve", "--transport", "stdio", "--tool-profile")
    stdin = LIST + requests(("tools/call", {"name": "flood"})).replace('"id": 1', '"id": 2')
    done = hubbub(*arguments, "calm", stdin=stdin, PYTHONPATH=third_party)
    listed, called = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda answer: answer["id"])
    names = [tool["name"] for tool in listed["result"]["tools"]]
    assert (names[0], names[-1]) == ("aw.get_state", "tide")
    assert {"hello-world", "echo", "health"} <= set(names)
    assert called["error"]["code"] == -32003
    assert_refused(hubbub(*arguments, "clam", PYTHONPATH=third_party), 2, "unknown profile 'clam'", "'calm'")


def test_a_pack_can_declare_variable_aliases_and_single_dash_flags(hubbub: Run, third_party: str) -> None:
    environ = {"PYTHONPATH": third_party, "TIDES_PROFILE": "calm"}
    done = hubbub("serve", "-pack=tides", "-harbour", "Brest", "--transport", "stdio", stdin=LIST, **environ)
    assert tool_names(done) == ["tide"]
    done = hubbub("serve", "--pack", "demo", "--transport", "stdio", stdin=LIST, **environ)
    assert "echo" in tool_names(done)
    assert done.stderr == ""


def test_a_pack_without_its_modules_names_what_to_install(hubbub: Run, third_party: str) -> None:
    done = hubbub("serve", "--pack", "moon", PYTHONPATH=third_party)
    assert_refused(done, 1, "needs no_such_library_of_the_moon", "install Hubbub with its extra 'moon'")
    assert_refused(hubbub("serve", "--pack", "wreck", PYTHONPATH=third_party), 1, "RuntimeError: ran aground")
    assert_refused(hubbub("serve", "--pack", "tidse", PYTHONPATH=third_party), 2, "did you mean 'tides'?")


def test_unknown_and_unused_settings_of_packs_are_refused_or_named(
    hubbub: Run, third_party: str, tmp_path: Path
) -> None:
    serve = ("serve", "--transport", "stdio")
    done = hubbub(*serve, HUBBUB_TIDES_HARBUOR="x", PYTHONPATH=third_party)
    assert (done.returncode, done.stderr.count("HUBBUB_TIDES_HARBUOR (did you mean HUBBUB_TIDES_HARBOUR?)")) == (0, 1)
    done = hubbub(
        "serve", ECHO, "--transport", "stdio", HUBBUB_PORT="tcp://10.0.0.1:3000", HUBBUB_SERVICE_HOST="10.0.0.1"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert hubbub(*serve, HUBBUB_WRECK_ANYTHING="x", PYTHONPATH=third_party).returncode == 0
    assert (
        hubbub("serve", ECHO, "--transport", "stdio", HUBBUB_TIDES_METRES="3", PYTHONPATH=third_party).returncode == 0
    )
    assert_refused(hubbub(*serve, "--pack", "demo", "--harbour", "x", PYTHONPATH=third_party), 2, "--harbour", "--pack")
    configured = (*serve, "--config", "hubbub.toml")
    (tmp_path / "hubbub.toml").write_text("\n[packs.tidse]\nmetres = 1\n")
    assert_refused(hubbub(*configured, PYTHONPATH=third_party), 2, "hubbub.toml line 2: packs.tidse", "'tides'")
    (tmp_path / "hubbub.toml").write_text("[packs.tides]\nmeters = 1\n")
    assert_refused(hubbub(*configured, PYTHONPATH=third_party), 2, "line 2: packs.tides.meters", "'metres'")
    (tmp_path / "hubbub.toml").write_text("[packs.demo]\nx = 1\n")
    assert_refused(hubbub(*configured), 2, "line 2: packs.demo.x", "has no settings")


# -- flags -----------------------------------------------------------------------


def test_authentication_settings_warn_that_they_have_no_effect_on_stdio(hubbub: Run) -> None:
    done = hubbub(
        "serve", "--pack", "demo", "--transport", "stdio", "--key-file", "none.toml", "--jwt-keys", "none.pem"
    )
    assert done.returncode == 0
    assert "--key-file has no effect with --transport stdio" in done.stderr
    assert "--jwt-keys has no effect" in done.stderr


def test_http_is_the_default_and_prints_its_address(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "hubbub", "serve", ECHO, "--port", "0"],
        cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
    ) as process:  # fmt: skip
        stop = threading.Timer(40, process.kill)
        stop.start()
        try:
            assert process.stderr is not None
            address = re.search(r"echo serves http://127\.0\.0\.1:([0-9]+)/mcp", process.stderr.readline())
            assert address is not None
            client = http.client.HTTPConnection("127.0.0.1", int(address[1]), timeout=60)
            client.request("GET", "/health")
            assert client.getresponse().status == 200
            client.close()
        finally:
            stop.cancel()
            process.terminate()
        assert process.communicate(timeout=60)[0] == ""
        assert process.returncode == 0


def test_flags_of_the_contract_can_have_a_single_dash(hubbub: Run) -> None:
    done = hubbub("serve", "-transport=stdio", "-http-addr=localhost:8081", ECHO, stdin=LIST)
    assert tool_names(done) == ["echo"]
    assert done.stderr == ""
    done = hubbub("serve", ECHO, "--transport", "stdio", "-log-level=debug")
    assert "unknown option '-log-level'; did you mean '--log-level'?" in done.stderr


def test_max_message_bytes_limits_messages(hubbub: Run) -> None:
    stdin = requests(("tools/call", {"name": "echo", "arguments": {"text": "x" * 5000}}))
    done = hubbub("serve", ECHO, "--transport", "stdio", "--max-message-bytes", "2048", stdin=stdin)
    assert "larger than the limit of 2048 bytes" in done.stdout


def test_safe_names_are_listed_for_programs_and_packs_alike(hubbub: Run, tmp_path: Path, third_party: str) -> None:
    text = PROGRAM.format(name="server").replace("@server.tool", "@server.tool(name='voice.shout')")
    (tmp_path / "my.py").write_text(text, encoding="utf-8")
    serve = ("serve", "my.py", "--transport", "stdio", "--tool-names", "safe")
    call = requests(("tools/list", {}), ("tools/call", {"name": "voice_shout", "arguments": {"text": "a"}}))
    listed, called = results(hubbub(*serve, stdin=call))
    assert [tool["name"] for tool in listed["tools"]] == ["voice_shout"]
    assert called["content"][0]["text"] == "A"
    done = hubbub(*serve, "--pack", "tides", stdin=LIST, PYTHONPATH=third_party)
    assert tool_names(done) == ["voice_shout", "tide", "flood"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("serve", "--port", "many"), ("--port must be a whole number",)),
        (("serve", "--port", "99999"), ("--port must be from 0 to 65535, not '99999'",)),
        (("serve", "--http-addr", "here"), ("--http-addr must look like HOST:PORT, not 'here'",)),
        (("serve", "--http-addr", ":99999"), ("--http-addr must have a port of at most 65535, not 99999",)),
        (("serve", "--prot", "1"), ("--prot", "hubbub serve --help")),
        (("serve", "-trnsport=x"), ("unknown option '-trnsport'", "'--transport'", "hubbub serve --help")),
        (("serve", "--insecure", "--host", "no.such.host.invalid"), ("no.such.host.invalid", "try another --host")),
        (
            ("serve", "--key-file", "no/keys.toml"),
            ("hubbub: no/keys.toml: cannot be read: No such file", "`hubbub keys create NAME --key-file no/keys.toml`"),
        ),
        (("serve", "a.py", "b.py"), ("b.py", "hubbub serve --help")),
        (("serve", "--config", "no.toml"), ("'no.toml' cannot be read",)),
        (("sevre",), ("unknown command 'sevre'", "'serve'")),
        (("--nonsense",), ("--nonsense", "hubbub --help")),
    ],
)
def test_wrong_usage_is_reported_in_one_line(hubbub: Run, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert_refused(hubbub(*arguments), 2, *words)


def test_help_shows_the_flags_of_packs_too(hubbub: Run, third_party: str) -> None:
    done = hubbub("serve", "--help", PYTHONPATH=third_party)
    assert done.returncode == 0
    assert all(flag in done.stdout for flag in ("--transport http|stdio", "--harbour", "--almanac-key", "[TARGET]"))


def test_a_pack_brings_its_own_commands(hubbub: Run, third_party: str) -> None:
    assert "Print the tides of a day (pack tides)." in hubbub("--help", PYTHONPATH=third_party).stdout
    done = hubbub("tide-table", "--today", "-x", "Brest", "--help", PYTHONPATH=third_party)
    assert (done.returncode, done.stdout) == (3, "table ['--today', '-x', 'Brest', '--help']\n")
    assert_refused(hubbub("moon-phase", PYTHONPATH=third_party), 1, "install Hubbub with its extra 'moon'")
    assert_refused(hubbub("tide-tabel", PYTHONPATH=third_party), 2, "'tide-table'")


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        (["serve", "--transport", "stdio"], {"--transport": "stdio"}),
        (["serve", "my file.py", "--transport=stdio"], {"TARGET": "my file.py", "--transport": "stdio"}),
        (["serve", "--transport", "stdio", "a.py"], {"TARGET": "a.py", "--transport": "stdio"}),
        (["serve"], None),
        (["serve", "a.py"], None),
        (["serve", "--transport", "http"], None),
        (["serve", "--transport"], None),
        (["serve", "a.py", "b.py", "--transport", "stdio"], None),
        (["serve", "--transport", "stdio", "--port", "1"], None),
        (["serve", "--", "--transport", "stdio"], None),
        (["doctor", "--transport", "stdio"], None),
        ([], None),
    ],
)
def test_only_plain_stdio_commands_take_the_fast_start(arguments: list[str], flags: dict[str, str] | None) -> None:
    assert quick_flags(arguments) == flags


def test_a_program_on_stdio_starts_without_heavy_libraries(tmp_path: Path) -> None:
    heavy = (
        *("click", "rich", "importlib.metadata", "tomllib", "difflib", "logging.config", "pathlib", "hubbub.packs"),
        *("hubbub.oauth", "authlib", "joserfc", "cryptography", "sqlalchemy"),
    )
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-S", "-c", _START, ECHO],
        input=LIST, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip
    assert tool_names(done) == ["echo"]
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "hubbub.server.server" in imported
    assert not imported & set(heavy)


# Without `site`: .pth files of editable installs import modules whose absence is checked.
_START = f"import sys; sys.path[:0] = {[path for path in sys.path if path]!r}; import hubbub.cli.main as main; " + (
    "sys.exit(main.main(['serve', sys.argv[1], '--transport', 'stdio']))"
)
