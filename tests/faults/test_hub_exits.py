"""However a hub ends, nothing that it started goes on: not its servers, nor what they started themselves."""

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.faults.behind_a_hub import Ward, entry, flags, is_running, text, until, ward
from tests.http.processes import HUBBUB

MANNERS = [[], ["family"], ["stubborn", "family"]]
IDS = ["alone", "family", "stubborn"]
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT]


async def started(here: Ward, manners: list[str]) -> list[int]:
    """Use each server once; the processes that there are for it."""
    for name in ("one", "two"):
        assert text(await here.call(f"{name}__echo", text="hello")) == "hello"
    found = here.processes("one") + here.processes("two")
    assert len(found) == (6 if "family" in manners else 2)
    assert all(map(is_running, found))
    return found


async def gone(processes: list[int]) -> None:
    await until(lambda: not any(map(is_running, processes)), lambda: [pid for pid in processes if is_running(pid)])


@pytest.mark.parametrize("manners", MANNERS, ids=IDS)
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
async def test_no_process_is_left_when_a_signal_ends_the_hub(
    tmp_path: Path, number: signal.Signals, manners: list[str]
) -> None:
    servers = {name: entry(tmp_path, name, *manners) for name in ("one", "two")}
    with ward(tmp_path, servers) as here:
        processes = await started(here, manners)
        here.hub.signal(number)
        assert here.hub.wait(15) == (0 if number in (signal.SIGTERM, signal.SIGINT) else -number)
        await gone(processes)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
async def test_no_process_is_left_when_the_hub_ends_in_the_middle_of_calls(
    tmp_path: Path, number: signal.Signals
) -> None:
    servers = {name: entry(tmp_path, name, "family") for name in ("one", "two")}
    with ward(tmp_path, servers) as here:
        processes = await started(here, ["family"])
        hanging = [asyncio.create_task(here.answer("tools/call", {"name": "one__hang", "arguments": {}}))]
        await until(lambda: here.calls("one")["hang"] == 1)
        here.hub.signal(number)
        here.hub.wait(20)
        await asyncio.wait(hanging, timeout=5)
        assert hanging[0].done()
        hanging[0].exception()
        await gone(processes)
        assert here.calls("one") == {"echo": 1, "hang": 1}


@pytest.mark.parametrize("manners", MANNERS, ids=IDS)
@pytest.mark.parametrize("end", ["input", "SIGTERM", "SIGKILL"])
async def test_no_process_is_left_when_a_hub_on_stdio_ends(tmp_path: Path, end: str, manners: list[str]) -> None:
    options = flags(tmp_path, {"one": entry(tmp_path, "one", *manners)})
    with subprocess.Popen(
        [HUBBUB, "serve", "--transport", "stdio", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as hub:
        try:
            answer = await asyncio.to_thread(ask, hub, "tools/call", {"name": "one__echo", "arguments": {"text": "hi"}})
            assert "hi" in json.dumps(answer["result"])
            lines = (tmp_path / "one.journal").read_text().splitlines()
            processes = [int(line.split()[1]) for line in lines if line.startswith("started ")]
            assert len(processes) == (3 if "family" in manners else 1)
            if end == "input":
                assert hub.stdin is not None
                hub.stdin.close()
            else:
                os.kill(hub.pid, getattr(signal, end))
            assert await asyncio.to_thread(hub.wait, 15) == (-signal.SIGKILL if end == "SIGKILL" else 0)
            await gone(processes)
        finally:
            hub.kill()


def ask(hub: "subprocess.Popen[bytes]", method: str, params: Any) -> Any:
    assert hub.stdin is not None
    assert hub.stdout is not None
    hub.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
    hub.stdin.flush()
    return json.loads(hub.stdout.readline())
