"""`hubbub call`: arguments by schema, results of every kind, exit codes for scripts."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.completed_process import ECHO, GALLERY, WEATHER, assert_refused, read_json, read_stdout
from tests.cli.conftest import clean_environment

Run = Callable[..., subprocess.CompletedProcess[str]]
DEADLINE_S = 60.0


def test_arguments_are_read_as_the_schema_says(hubbub: Run) -> None:
    words = ("count=3", "ratio=2", "loud=yes", "tags=a", "tags=b,c", "label=007")
    found = json.loads(read_stdout(hubbub("call", GALLERY, "kinds", *words)))
    assert found == {"count": 3, "ratio": 2, "loud": True, "tags": ["a", "b,c"], "label": "007"}
    found = json.loads(read_stdout(hubbub("call", GALLERY, "kinds", "count:=4", 'tags=["x", "y"]', "label=true")))
    assert (found["count"], found["tags"], found["label"]) == (4, ["x", "y"], "true")


def test_arguments_may_be_one_object_on_the_command_line_or_on_stdin(hubbub: Run) -> None:
    text = '{"text": "as it is"}'
    assert read_stdout(hubbub("call", ECHO, "echo", "--args", text)) == "as it is\n"
    assert read_stdout(hubbub("call", ECHO, "echo", "-", stdin=text)) == "as it is\n"
    assert read_stdout(hubbub("call", ECHO, "echo", "--args", "-", stdin=text)) == "as it is\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("no tool; give its name",)),
        (("kinds", "count=many"), ("count must be a whole number", "'many'")),
        (("kinds", "count=3", "count=4"), ("count is given twice",)),
        (("kinds", "count"), ("'count' must look like key=value", "ratio")),
        (("kinds", "count:={"), ("count is not JSON",)),
        (("kinds", "--args", "[]"), ("--args must be a JSON object",)),
        (("kinds", "--args", "{"), ("--args is not JSON",)),
        (("kinds", "-"), ("the text on stdin is not JSON",)),
        (("kinds", "count=3", "--args", "{}"), ("not both",)),
        (("kind", "count=3"), ("no tool 'kind'", "did you mean 'kinds'?")),
    ],
)
def test_wrong_arguments_are_refused_before_the_call(
    hubbub: Run, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_refused(hubbub("call", GALLERY, *arguments), 2, *words)


def test_structured_results_are_shown_once_as_indented_json(hubbub: Run) -> None:
    text = read_stdout(hubbub("call", WEATHER, "forecast", "city=Lima", "days=1"))
    assert json.loads(text)["city"] == "Lima"
    assert text.splitlines()[1] == '  "city": "Lima",'


def test_json_output_is_the_raw_result(hubbub: Run, demo_url: str) -> None:
    result = read_json(hubbub("call", demo_url, "echo", "text=hé", "--json"))
    assert result["structuredContent"] == {"echo": "hé"}
    assert result["content"][0]["type"] == "text"


def test_a_failed_tool_is_reported_on_stderr_and_by_the_exit_code(hubbub: Run) -> None:
    done = hubbub("call", WEATHER, "forecast", "city=Atlantis")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("forecast failed: No forecast for 'Atlantis'")
    done = hubbub("call", WEATHER, "forecast", "--json", "--args", "{}")
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["isError"] is True


def test_images_and_audio_are_saved_and_their_files_are_named(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "paint.png").symlink_to("elsewhere")
    (tmp_path / "out").mkdir()
    lines = read_stdout(hubbub("call", GALLERY, "paint")).splitlines()
    assert lines == [
        "a picture",
        "image saved: paint-2.png (image/png, 19 bytes)",
        "image saved: paint.jpg (image/jpeg, 19 bytes)",
        "audio saved: paint.wav (audio/wav, 4 bytes)",
        "embedded words",
        "resource saved: raw.bin (x/unheard-of, 2 bytes)",
        "link: more gallery://more",
    ]
    assert not (tmp_path / "elsewhere").exists()
    assert (tmp_path / "paint.wav").read_bytes() == b"RIFF"
    assert "out/paint.png" in read_stdout(hubbub("call", GALLERY, "paint", "--save-to", "out"))
    refused_folder = hubbub("call", GALLERY, "paint", "--save-to", "nowhere")
    assert (refused_folder.returncode, "cannot be written" in refused_folder.stderr) == (2, True)


def test_logs_and_stderr_of_the_server_are_shown_only_when_asked_for(hubbub: Run) -> None:
    assert read_stdout(hubbub("call", GALLERY, "slow", "steps=2")) == "arrived\n"
    done = hubbub("call", GALLERY, "slow", "steps=2", "-v")
    assert done.stdout == "arrived\n"
    assert "[info] stairs: at step 2" in done.stderr
    assert "gallery: note to self" in hubbub("call", GALLERY, "complain", "text=note to self", "-v").stderr


def test_without_a_terminal_questions_are_declined(hubbub: Run) -> None:
    for version in ("2026-07-28", "2025-11-25"):
        done = hubbub("call", GALLERY, "book", "flight=BA1", "--protocol-version", version)
        assert (done.returncode, done.stdout) == (0, "BA1: no seat (decline)\n"), done.stderr
        assert "Which seat would you like?" in done.stderr


def test_a_call_that_times_out_is_cancelled_at_the_server(hubbub: Run, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    assert_refused(
        hubbub("call", GALLERY, "stuck", f"mark={mark}", "--timeout", "1"), 3, "Timed out after 1 s", "--timeout"
    )
    assert mark.read_text() == "cancelled"


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_the_call_and_leaves_no_child(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    mark = tmp_path / "mark"
    process = subprocess.Popen(
        [sys.executable, "-m", "hubbub", "call", GALLERY, "stuck", f"mark={mark}"],
        cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        child = int(_wait_for(lambda: mark.exists() and mark.read_text()))
        process.send_signal(sent)
        out, err = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
    assert (process.returncode, out, err.strip()) == (code, b"", b"")
    assert mark.read_text() == "cancelled"
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_closed_stdout_causes_no_traceback(tmp_path: Path) -> None:
    command = f"{sys.executable} -m hubbub call {ECHO} echo text={'x' * 100_000} | head -c 1"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=clean_environment(), capture_output=True, timeout=60
    )
    assert done.stdout == b"x"
    assert b"Traceback" not in done.stderr


def _wait_for(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while not (value := found()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value
