"""A command that is interrupted while it closes its server leaves no process of that server."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import clean_environment
from tests.processes import is_running

pytestmark = pytest.mark.skipif(os.name == "nt", reason="process groups are POSIX")
DEADLINE_S = 60.0

STUBBORN = """
import json, os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
for line in sys.stdin:
    request = json.loads(line)
    info = {"name": "x", "version": "1"}
    result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if request["method"] == "tools/list":
        result = {"tools": []}
    if "id" in request and request["method"] in ("initialize", "tools/list"):
        answer = {"result": result}
    elif "id" in request:
        answer = {"error": {"code": -32601, "message": "no"}}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""


@pytest.fixture
def closing(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """`hubbub tools` while it waits for its server to end, and the processes of that server."""
    pid_file = tmp_path / "closing"
    command = [sys.executable, "-m", "hubbub", "tools", "--", sys.executable, "-c", STUBBORN, str(pid_file)]
    pids: list[int] = []
    with subprocess.Popen(
        command, cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert wait_until(pid_file.exists), process.communicate()
            pids = [int(word) for word in pid_file.read_text().split()]
            yield process, pids
        finally:
            process.kill()
            for pid in pids:
                if is_running(pid):
                    os.kill(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("numbers", [(signal.SIGINT,), (signal.SIGTERM,), (signal.SIGKILL,), (signal.SIGINT,) * 3])
def test_a_signal_while_a_server_is_closed_leaves_no_process(
    closing: tuple[subprocess.Popen[bytes], list[int]], numbers: tuple[signal.Signals, ...]
) -> None:
    process, pids = closing
    assert all(map(is_running, pids))
    for number in numbers:
        process.send_signal(number)
    assert wait_until(lambda: process.poll() is not None)
    assert wait_until(lambda: not any(map(is_running, pids)))
