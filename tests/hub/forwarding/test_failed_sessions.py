"""Sessions that fail while they start, end or are closed leave no process, folder or entry."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.client.test_rpc import FakeTransport
from tests.clock import advance_clock, wait_until, yield_to_loop
from tests.hub.forwarding.test_session_lifetimes import ACME, IDLE_S, OTHER, find_pid, member, tenant_upstream
from tests.hub.upstream_callers import call_tool, make_call, make_caller, result_text
from tests.hub.upstreams import asking_config, open_upstream
from tests.processes import is_running

from hubbub import (
    Client,
    ConnectionClosed,
    DeadlineExceeded,
    HubbubError,
    Overloaded,
    ServerConfig,
    TransportError,
    bounds,
)
from hubbub.hub.admission import CallLimiter
from hubbub.hub.forwarding.forwarded_call import ForwardedCall
from hubbub.hub.forwarding.session_pool import SessionPool
from hubbub.hub.forwarding.session_profile import SessionProfile
from hubbub.hub.forwarding.upstream_session import UpstreamSession
from hubbub.hub.upstream import UpstreamOptions

PROGRAM = """
import json, os, sys
from pathlib import Path

mode, folder = sys.argv[1], Path(sys.argv[2])
is_first = not list(folder.glob("start-*"))
(folder / f"start-{os.getpid()}").touch()
if mode == "exits" and not is_first:
    sys.exit(3)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        info = {"serverInfo": {"name": "odd", "version": "1"}, "capabilities": {"resources": {"subscribe": True}}}
        result = {"protocolVersion": "2025-11-25", **info}
    elif message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": str(os.getpid())}]}
    elif message["method"] == "resources/subscribe" and (mode == "silent" or not is_first):
        (folder / f"subscribe-{os.getpid()}").touch()
        continue
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
URI = "page://mine"


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the program records what it did; folders of processes are beside it."""
    for name in ("records", "temporary"):
        (tmp_path / name).mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return tmp_path / "records"


def program(records: Path, mode: str) -> ServerConfig:
    args = [str(records.parent / "program.py"), mode, str(records)]
    return ServerConfig(id="odd", command=sys.executable, args=args, protocol_version="2025-11-25")


def process_folders(records: Path) -> list[Path]:
    return list((records.parent / "temporary").iterdir())


def pids(records: Path, what: str) -> set[int]:
    return {int(file.name.removeprefix(f"{what}-")) for file in records.glob(f"{what}-*")}


async def test_a_program_that_exits_at_its_second_start_leaves_no_folder(records: Path) -> None:
    async with open_upstream(program(records, "exits")) as upstream:
        await upstream.refresh()
        for _ in range(3):
            with pytest.raises(HubbubError):
                await find_pid(upstream, member("acme", "ann"))
        await wait_until(lambda: not process_folders(records))
        assert upstream.sessions() == []


@pytest.mark.requirement("I3")
async def test_a_session_that_cannot_watch_its_resources_leaves_no_process(records: Path) -> None:
    ann = member("acme", "ann")
    async with open_upstream(program(records, "second"), timeout_s=100) as upstream:
        await upstream.subscribe(URI, ann.principal.name)
        (default,) = pids(records, "start")
        for number in range(1, 4):
            calling = asyncio.create_task(find_pid(upstream, ann))
            await wait_until(lambda number=number: len(pids(records, "subscribe")) == number)  # type: ignore[misc]
            advance_clock(bounds.REQUEST_TIMEOUT_S)
            with pytest.raises(HubbubError):
                await calling
        started = pids(records, "start") - {default}
        assert len(started) == 3
        await wait_until(lambda: not any(map(is_running, started)) and not process_folders(records))
        assert is_running(default)


@pytest.mark.parametrize("ending", ["deadline", "lost"])
async def test_a_subscription_that_fails_does_not_affect_later_sessions(records: Path, ending: str) -> None:
    ann = member("acme", "ann")
    async with open_upstream(program(records, "silent"), timeout_s=8) as upstream:
        await upstream.refresh()
        subscribing = asyncio.create_task(upstream.subscribe(URI, ann.principal.name))
        await wait_until(lambda: pids(records, "subscribe"))
        if ending == "deadline":
            advance_clock(8)
        else:
            await upstream.reconnect()
        with pytest.raises(DeadlineExceeded if ending == "deadline" else ConnectionClosed):
            await subscribing
        assert await find_pid(upstream, ann)
        assert len(pids(records, "subscribe")) == 1  # the session of the call watches nothing


async def test_the_resources_that_principals_watch_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "UPSTREAM_WATCHED_RESOURCES", 8)
    async with open_upstream(asking_config()) as upstream:
        name = member("acme", "ann").principal.name
        for number in range(6):
            await upstream.subscribe(f"{URI}/{number}", name)
        with pytest.raises(Overloaded, match="resources that are watched"):
            await upstream.subscribe(f"{URI}/6", name)
        await upstream.subscribe(f"{URI}/0", name)
        await upstream.subscribe(f"{URI}/6", member("beta", "ann").principal.name)
        for number in range(2):
            await upstream.unsubscribe(f"{URI}/{number}")
        await upstream.subscribe(f"{URI}/7", name)


class _FailingCloseTransport(FakeTransport):
    async def start(self, receiver: Any) -> None:
        raise TransportError("there is nothing")

    async def close(self) -> None:
        raise ValueError("cannot be closed")


@pytest.mark.requirement("L5")
async def test_a_session_that_cannot_be_closed_is_ended_anyway() -> None:
    ended: list[UpstreamSession] = []

    async def started(session: object) -> None:
        raise AssertionError

    pool = SessionPool(
        UpstreamOptions(),
        "odd",
        lambda session, capabilities: Client(asking_config(), link=lambda config: _FailingCloseTransport()),
        are_processes=True,
        make_room=lambda matches: False,
        on_start=started,
        on_end=ended.append,
    )
    call = make_call("tools/call", {"name": "x", "arguments": {}}, make_caller())
    forwarded = ForwardedCall(call, CallLimiter("calls", 1, 1))
    with pytest.raises((TransportError, ValueError)):
        await pool.acquire(forwarded, SessionProfile(), None, asyncio.get_running_loop().time() + 60)
    await wait_until(lambda: ended)
    assert len(pool) == 0
    await pool.close()


@pytest.mark.requirement("L5")
async def test_sessions_end_in_time_although_that_cannot_be_recorded(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(event: str, *_: object) -> None:
        if event != "session.open":
            raise ValueError("the journal is full")

    async with tenant_upstream(ACME, OTHER) as upstream:
        upstream.on_event = refuse
        first = [await find_pid(upstream, member("acme", user)) for user in ("ann", "bob")]
        advance_clock(IDLE_S)
        await wait_until(lambda: not any(map(is_running, first)))
        assert upstream.sessions() == []
        again = await find_pid(upstream, member("acme", "ann"))
        advance_clock(IDLE_S)
        await wait_until(lambda: not is_running(again))
    assert [record.getMessage() for record in caplog.records].count("session_end_not_recorded") == 3


async def test_a_session_that_cannot_be_recorded_is_not_used() -> None:
    def refuse(event: str, *_: object) -> None:
        raise ValueError(event)

    async with tenant_upstream(ACME) as upstream:
        upstream.on_event = refuse
        with pytest.raises(ValueError, match=r"session\.open"):
            await find_pid(upstream, member("acme", "ann"))
        assert upstream.sessions() == []
        upstream.on_event = None
        assert result_text(await call_tool(upstream, "pid", {}, member("acme", "ann")))
        await yield_to_loop()
