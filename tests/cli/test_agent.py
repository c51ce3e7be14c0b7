"""`hubbub agent` with a scripted model and real servers."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.completed_process import ECHO, GALLERY, WEATHER, assert_refused
from tests.cli.conftest import clean_environment
from tests.cli.model_endpoint import serve_model

Run = Callable[..., subprocess.CompletedProcess[str]]
DEADLINE_S = 60.0
BURN = "mcp_gallery__burn"


def test_the_model_calls_a_tool_and_each_call_is_shown(hubbub: Run) -> None:
    with serve_model([("mcp_weather__forecast", {"city": "Lima", "days": 1})], "Take| a coat.") as model:
        done = hubbub("agent", "--model-url", model.url, "--server", WEATHER, "--yes", "What to pack?")
    assert (done.returncode, done.stdout) == (0, "Take a coat.\n"), done.stderr
    call, result = done.stderr.splitlines()
    assert call == '  -> mcp_weather__forecast {"city":"Lima","days":1}'
    assert re.fullmatch(r"  <- mcp_weather__forecast \d+ bytes, \d+\.\d\d s", result)
    assert model.requests[0]["model"] == "scripted"
    assert model.requests[0]["messages"][-1] == {"role": "user", "content": "What to pack?"}
    assert model.results()[0]["ok"] is True


def test_calls_of_one_answer_run_at_the_same_time(hubbub: Run, tmp_path: Path) -> None:
    server = tmp_path / "meeting.py"
    server.write_text(
        "import asyncio\nfrom hubbub import Server\nserver = Server('meeting')\nbarrier = asyncio.Barrier(2)\n"
        "@server.tool\nasync def meet() -> str:\n    await barrier.wait()\n    return 'met'\n"
    )
    with serve_model([("mcp_meeting__meet", {}), ("mcp_meeting__meet", {})], "Done.") as model:
        done = hubbub("agent", "--model-url", model.url, "--server", str(server), "--yes", "Meet!")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert [result["data"]["text"] for result in model.results()] == ["met", "met"]


def test_a_busy_model_endpoint_is_retried(hubbub: Run) -> None:
    with serve_model(429, "Yes.") as model:
        done = hubbub("agent", "--model-url", model.url, "--server", ECHO, "Are you there?")
    assert (done.returncode, done.stdout) == (0, "Yes.\n"), done.stderr
    assert re.fullmatch(r"  the model's endpoint is busy; retrying in 0\.\d s\n", done.stderr)


@pytest.mark.parametrize("flags", [(), ("--images",)])
def test_images_are_described_to_the_model_or_shown_on_request(hubbub: Run, flags: tuple[str, ...]) -> None:
    with serve_model([("mcp_gallery__paint", {})], "Nice.") as model:
        done = hubbub("agent", "--model-url", model.url, "--server", GALLERY, "--yes", *flags, "Show me!")
    assert (done.returncode, done.stdout) == (0, "Nice.\n"), done.stderr
    messages = model.requests[-1]["messages"]
    shown = [message for message in messages if message["role"] == "user" and isinstance(message["content"], list)]
    assert len(shown) == len(flags)
    (result,) = model.results()
    assert "[image: image/png" in result["data"]["text"]
    assert [warning["code"] for warning in result["warnings"]] == ["BINARY_TRUNCATED"]  # also for audio
    for message in shown:
        assert [part["type"] for part in message["content"]] == ["text", "image_url", "image_url"]


def test_the_prompt_is_read_from_stdin_and_answers_without_streaming(hubbub: Run) -> None:
    with serve_model("Yes.") as model:
        done = hubbub("agent", "--model-url", model.url, "--server", ECHO, "--no-stream", stdin="Are you there?\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Yes.\n", "")
    assert "stream" not in model.requests[0]
    assert model.requests[0]["messages"][-1]["content"] == "Are you there?"


def test_json_output_is_one_object_per_line(hubbub: Run) -> None:
    with serve_model([("mcp_weather__forecast", {"city": "Atlantis"})], "No| idea.") as model:
        done = hubbub("agent", "--json", "--model-url", model.url, "--server", WEATHER, "--yes", "Weather?")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [line["type"] for line in lines]
    assert kinds.index("call") < kinds.index("result") < kinds.index("text") < kinds.index("answer")
    result = next(line for line in lines if line["type"] == "result")
    assert result["result"]["ok"] is False
    assert lines[-1]["text"] == "No idea."
    assert "".join(line["text"] for line in lines if line["type"] == "text") == "No idea."


def test_several_servers_work_together_and_one_that_is_down_is_left_out(hubbub: Run, demo_url: str) -> None:
    calls = [("mcp_server__echo", {"text": "one"}), ("mcp_echo__echo", {"text": "two"})]
    with serve_model(calls, "Done.") as model:
        servers = ("--server", demo_url, "--server", ECHO, "--server", "http://127.0.0.1:1/mcp")
        done = hubbub("agent", "--model-url", model.url, *servers, "--yes", "Echo!")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert "server2 is skipped" in done.stderr
    assert [result["ok"] for result in model.results()] == [True, True]


def test_patterns_narrow_what_the_model_sees(hubbub: Run) -> None:
    with serve_model("Fine.") as model:
        narrow = ("--allow", "*__p*", "--allow", BURN, "--deny", BURN)
        done = hubbub("agent", "--model-url", model.url, "--server", GALLERY, *narrow, "Hello")
    assert (done.returncode, model.listed_tools) == (0, ["mcp_gallery__paint"])


def test_destructive_calls_are_denied_without_a_terminal(hubbub: Run) -> None:
    with serve_model([(BURN, {"what": "letters"})], "I could not.") as model:
        done = hubbub("agent", "--model-url", model.url, "--server", GALLERY, "Burn them")
    assert (done.returncode, done.stdout) == (0, "I could not.\n")
    assert "it needs confirmation in a terminal, or --yes" in done.stderr
    assert "was not called" in done.stderr
    assert "->" not in done.stderr
    assert model.results()[0]["errors"][0]["code"] == "TOOL_POLICY_DENIED"


def test_read_only_tools_need_no_confirmation(hubbub: Run) -> None:
    with serve_model([("mcp_gallery__trip", {})], "Oh.") as model:
        done = hubbub("agent", "--model-url", model.url, "--server", GALLERY, "Walk")
    assert done.stdout == "Oh.\n"
    assert "<- mcp_gallery__trip failed" in done.stderr
    assert "\x1b[2J" not in done.stderr


def test_the_loop_stops_after_max_turns(hubbub: Run) -> None:
    calls = [("mcp_echo__echo", {"text": "x"})]
    with serve_model(*[calls] * 3) as model:
        done = hubbub("agent", "--model-url", model.url, "--server", ECHO, "--yes", "--max-turns", "2", "Go")
    assert (done.returncode, done.stdout) == (1, "")
    assert "within 2 turns (`max_turns`); allow more with --max-turns" in done.stderr


def test_the_key_is_sent_and_never_shown(hubbub: Run) -> None:
    words = ("--server", ECHO, "--model", "m", "--key-env", "KEY", "-vv", "Hello")
    with serve_model("Hi.", 401) as model:
        done = hubbub("agent", "--model-url", model.url, *words, KEY="hunter2hunter2")
        wrong = hubbub("agent", "--model-url", model.url, *words, KEY="hunter2hunter2")
    assert (done.returncode, model.keys[0]) == (0, "Bearer hunter2hunter2")
    assert wrong.returncode == 3
    assert "status 401" in wrong.stderr
    assert "--key-env" in wrong.stderr
    assert "hunter2" not in done.stderr + wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("Hello",), 2, ("--model-url",)),
        (("--model-url", "URL", "Hello"), 2, ("no server; give --server",)),
        (("--model-url", "URL", "--server", ECHO), 2, ("no prompt; give PROMPT",)),
        (("--model-url", "URL", "--server", ECHO, "Hello"), 2, ("choose one with --model: one, two",)),
        (("--model-url", "URL", "--key-env", "NOWHERE", "--server", ECHO, "Hello"), 2, ("NOWHERE is not set",)),
        (("--model-url", "gopher://x", "--model", "m", "--server", ECHO, "Hello"), 2, ("https://",)),
        (
            ("--model-url", "URL", "--server", ECHO, "--server", "http://a/mcp", "--header", "A=b", "Hello"),
            2,
            ("need a single server", "hubbub.toml"),
        ),
        (("--model-url", "URL", "--server", "http://127.0.0.1:1/mcp", "Hello"), 3, ("cannot be reached",)),
        (("--model-url", "http://127.0.0.1:1/v1", "--model", "m", "--server", ECHO, "Hello"), 3, ("reached",)),
        (("--model-url", "http://127.0.0.1:1/v1", "--server", ECHO, "Hello"), 3, ("reached",)),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_an_exit_code(
    hubbub: Run, arguments: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    with serve_model(models=["one", "two"]) as model:
        assert_refused(hubbub("agent", *(model.url if word == "URL" else word for word in arguments)), code, *words)


def test_ctrl_c_cancels_the_call_of_a_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with serve_model([("mcp_gallery__stuck", {"mark": str(mark)})]) as model:
        process = subprocess.Popen(
            [sys.executable, "-m", "hubbub", "agent", "--model-url", model.url, "--server", GALLERY, "Wait"],
            cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + DEADLINE_S
            while not mark.exists():
                assert time.monotonic() < deadline
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
    assert (process.returncode, b"Traceback" in err) == (130, False)
    assert mark.read_text() == "cancelled"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_destructive_calls_need_confirmation_at_a_terminal(tmp_path: Path) -> None:
    from tests.cli.pseudo_terminal import Terminal

    with serve_model(
        [(BURN, {"what": "letters"}), (BURN, {"what": "books"})], "One of two.", [(BURN, {"what": "maps"})], "Gone."
    ) as model:
        with Terminal("agent", "--model-url", model.url, "--server", GALLERY, folder=tmp_path) as terminal:
            terminal.expect("> ")
            terminal.type("Burn letters and books\n")
            terminal.expect('?  mcp_gallery__burn {"what":"letters"}')
            terminal.expect("[N]o ")
            terminal.type("\n")
            terminal.expect('?  mcp_gallery__burn {"what":"books"}')
            terminal.expect("[N]o ")
            terminal.type("a\n")
            terminal.expect("One of two.")
            terminal.expect("> ")
            terminal.type("And the maps\n")
            terminal.expect("Gone.")
            terminal.expect("> ")
            terminal.type("\x04")
            code, shown = terminal.end()
        assert code == 0, shown
    outcomes = [result["ok"] for result in model.results()]
    assert outcomes == [False, True, True]
    assert model.requests[-1]["messages"][1]["content"] == "Burn letters and books"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_turn_that_fails_does_not_end_the_conversation(tmp_path: Path) -> None:
    from tests.cli.pseudo_terminal import Terminal

    options = ("--yes", "--max-turns", "1", "--server", GALLERY)
    with serve_model("Hello.", 400, [(BURN, {"what": "toast"})], "Still here.") as model:
        with Terminal("agent", "--model-url", model.url, *options, folder=tmp_path) as terminal:
            for typed, expected in (
                ("First", "Hello."),
                ("Second", "hubbub: "),
                ("Third", "--max-turns"),
                ("Fourth", "Still here."),
            ):
                terminal.expect("> ")
                terminal.type(f"{typed}\n")
                terminal.expect(expected)
            terminal.expect("> ")
            terminal.type("\x04")
            code, shown = terminal.end()
        assert code == 0, shown
    user_texts = [each["content"] for each in model.requests[-1]["messages"] if each["role"] == "user"]
    assert (user_texts[0], user_texts[-1]) == ("First", "Fourth")
