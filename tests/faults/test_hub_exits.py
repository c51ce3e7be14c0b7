"""A hub that ends in any way leaves no process: neither its servers nor their child processes."""

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.faults.hub_harness import HubHarness, result_text, start_hub, stdio_config, wait_until, write_config
from tests.http.server_process import HUBBUB
from tests.processes import is_running

SERVER_MODES = {"alone": [], "family": ["family"], "stubborn": ["stubborn", "family"]}
PROCESSES = 7
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT]


def servers(folder: Path) -> dict[str, Any]:
    return {name: stdio_config(folder, name, *modes) for name, modes in SERVER_MODES.items()}


async def start_servers(here: HubHarness) -> list[int]:
    """Use each server once; return its processes."""
    for name in SERVER_MODES:
        assert result_text(await here.call(f"{name}__echo", text="hello")) == "hello"
    found = [pid for name in SERVER_MODES for pid in here.processes(name)]
    assert len(found) == PROCESSES
    assert all(map(is_running, found))
    return found


async def wait_until_ended(processes: list[int]) -> None:
    await wait_until(lambda: not any(map(is_running, processes)), lambda: [pid for pid in processes if is_running(pid)])


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
async def test_no_process_is_left_when_a_signal_ends_the_hub(tmp_path: Path, number: signal.Signals) -> None:
    with start_hub(tmp_path, servers(tmp_path)) as here:
        processes = await start_servers(here)
        here.hub.signal(number)
        code = await asyncio.to_thread(here.hub.wait)
        assert code == (0 if number in (signal.SIGTERM, signal.SIGINT) else -number)
        await wait_until_ended(processes)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
async def test_no_process_is_left_when_the_hub_ends_in_the_middle_of_calls(
    tmp_path: Path, number: signal.Signals
) -> None:
    with start_hub(tmp_path, servers(tmp_path)) as here:
        processes = await start_servers(here)
        hanging = asyncio.create_task(here.request("tools/call", {"name": "family__hang", "arguments": {}}))
        await wait_until(lambda: here.calls("family")["hang"] == 1)
        here.hub.signal(number)
        await asyncio.to_thread(here.hub.wait)
        await asyncio.wait([hanging])
        hanging.exception()  # any outcome is accepted, but the call must have ended
        await wait_until_ended(processes)
        assert here.calls("family") == {"echo": 1, "hang": 1}


@pytest.mark.parametrize("end", ["input", "SIGTERM", "SIGKILL"])
async def test_no_process_is_left_when_a_hub_on_stdio_ends(tmp_path: Path, end: str) -> None:
    options = write_config(tmp_path, servers(tmp_path))
    with subprocess.Popen(
        [HUBBUB, "serve", "--transport", "stdio", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as hub:
        try:
            for name in SERVER_MODES:
                answer = await asyncio.to_thread(call, hub, f"{name}__echo", "hi")
                assert "hi" in json.dumps(answer["result"])
            processes = [pid for name in SERVER_MODES for pid in read_started_pids(tmp_path / f"{name}.journal")]
            assert len(processes) == PROCESSES
            if end == "input":
                assert hub.stdin is not None
                hub.stdin.close()
            else:
                os.kill(hub.pid, getattr(signal, end))
            assert await asyncio.to_thread(hub.wait) == (-signal.SIGKILL if end == "SIGKILL" else 0)
            await wait_until_ended(processes)
        finally:
            hub.kill()


def call(hub: "subprocess.Popen[bytes]", tool: str, text: str) -> Any:
    assert hub.stdin is not None
    assert hub.stdout is not None
    params = {"name": tool, "arguments": {"text": text}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    hub.stdin.write(json.dumps(request).encode() + b"\n")
    hub.stdin.flush()
    return json.loads(hub.stdout.readline())


def read_started_pids(journal: Path) -> list[int]:
    return [int(line.split()[1]) for line in journal.read_text().splitlines() if line.startswith("started ")]
