"""No stdio server outlives the process that started it, however that process ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.processes import is_running

pytestmark = pytest.mark.skipif(os.name == "nt", reason="process groups are POSIX")
SOURCE = Path(__file__).parents[2] / "src"
TIMEOUT_S = 60.0

PARENT = """
import asyncio, sys
from hubbub import Client, ServerConfig

async def main():
    clients = []
    for program in sys.argv[2:]:
        config = ServerConfig(id="x", command=sys.executable, args=["-c", program], protocol_version="2025-11-25")
        clients.append(await Client(config).start())
    if sys.argv[1] == "close":
        for client in clients:
            await client.close()
    print(*(client.server_info.version for client in clients), flush=True)
    if sys.argv[1] == "wait":
        await asyncio.sleep(600)

asyncio.run(main())
"""
SERVER = """
import json, os, signal, subprocess, sys, time
request = json.loads(sys.stdin.readline())
result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": str(os.getpid())}}
print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
POLITE = SERVER + "time.sleep(600)"
STUBBORN = SERVER + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)"
WITH_CHILD = SERVER + "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\ntime.sleep(600)"


class ParentProcess:
    def __init__(self, mode: str, *programs: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT, mode, *programs],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.servers = [int(pid) for pid in self.process.stdout.readline().split()]
        self.reapers = [
            child.pid
            for child in (psutil.Process(self.process.pid).children() if self.process.poll() is None else [])
            if child.pid not in self.servers
        ]

    def remaining_pids(self) -> list[int]:
        groups = {*self.servers, *self.reapers}
        return [
            process.pid for process in psutil.process_iter() if _group(process.pid) in groups and is_running(process)
        ]


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1


def ignored_signals(pid: int) -> set[int]:
    """Return the signals that a process ignores; a shell that has just started ignores none yet."""
    status = Path(f"/proc/{pid}/status").read_text()
    (mask,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigIgn:"))
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def all_ended(parent: ParentProcess) -> bool:
    return wait_until(lambda: not parent.remaining_pids())


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            if condition():
                return True
        except psutil.NoSuchProcess:
            continue
        time.sleep(0.05)
    return False


@pytest.fixture
def start() -> Iterator[type[ParentProcess]]:
    parent_processes: list[ParentProcess] = []

    class TrackedParent(ParentProcess):
        def __init__(self, mode: str, *programs: str) -> None:
            super().__init__(mode, *programs)
            parent_processes.append(self)

    yield TrackedParent
    for one in parent_processes:
        for pid in (one.process.pid, *one.servers, *one.reapers):
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        one.process.wait()
        assert one.process.stdout is not None
        one.process.stdout.close()


def test_after_kill_9_even_processes_that_ignore_sigterm_and_eof_are_ended(
    start: type[ParentProcess],
) -> None:
    parent = start("wait", POLITE, STUBBORN, WITH_CHILD)
    assert len(parent.servers) == 3
    assert len(parent.reapers) == 1
    assert wait_until(lambda: len(parent.remaining_pids()) == 5)
    parent.process.kill()
    assert all_ended(parent)


def test_the_reaper_ignores_sigterm_sigint_and_sighup(start: type[ParentProcess]) -> None:
    parent = start("wait", STUBBORN)
    (reaper,) = parent.reapers
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    assert wait_until(lambda: ignored_signals(reaper).issuperset(numbers)), "the reaper did not start"
    for number in numbers:
        os.kill(reaper, number)
    os.killpg(parent.process.pid, signal.SIGKILL)
    assert all_ended(parent)


def test_closed_servers_are_not_signalled_again_and_the_reaper_exits(start: type[ParentProcess]) -> None:
    parent = start("close", POLITE)
    assert parent.process.wait() == 0
    assert all_ended(parent)


def test_a_process_that_exits_without_closing_leaves_no_servers(start: type[ParentProcess]) -> None:
    parent = start("forget", STUBBORN)
    assert parent.process.wait() is not None
    assert all_ended(parent)
