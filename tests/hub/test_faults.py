"""Upstreams that crash, hang, flap, lie or say too much; nobody else pays for it."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.client.ends import nothing_left, until
from tests.client.scripted import Asked, legacy, scripted
from tests.hub.callers import ELICITATION, LEGACY, MODERN, Back, caller, message, result, text, tool
from tests.hub.ends import asker, interop_upstream, odd_upstream, opened

from hubbub import bounds
from hubbub.client import ServerConfig
from hubbub.errors import Overloaded, UpstreamUnavailable
from hubbub.protocol.model import Note
from hubbub.protocol.revisions import PLAIN
from hubbub.transports import guardian

pytestmark = pytest.mark.timeout(60)
BROKEN = ServerConfig(id="broken", command="no-such-program-here")


@pytest.fixture(scope="module", autouse=True)
def _guarded() -> None:
    """The guardian stays as long as the process, so it is no leftover of a test."""
    guardian.guard(2**22 + 1)
    guardian.release(2**22 + 1)


async def test_a_server_that_cannot_be_started_is_an_error_at_once_and_then_a_refusal() -> None:
    async with nothing_left(), opened(BROKEN, breaker_failures=2) as upstream:
        await upstream.refresh()
        assert upstream.state.phase == "down"
        assert upstream.state.is_stale
        assert "cannot be started" in str(upstream.state.reason)
        for _ in range(3):
            with pytest.raises(UpstreamUnavailable, match="cannot be started") as refused:
                await tool(upstream, "echo")
            assert refused.value.data["server"] == "broken"
            assert refused.value.data["mayHaveExecuted"] is False
        assert 0 <= refused.value.data["retryAfterMs"] <= 1000


@pytest.mark.parametrize("revision", [MODERN, LEGACY], ids=["modern", "legacy"])
async def test_the_error_is_a_failed_tool_with_reason_and_retry_time(revision: Any) -> None:
    async with opened(BROKEN, breaker_failures=1) as upstream:
        await message(upstream, "tools/call", {"name": "echo"}, caller(revision))
        found = (await message(upstream, "tools/call", {"name": "echo"}, caller(revision)))["result"]
        assert found["isError"] is True
        error = found["structuredContent"]["error"]
        assert (error["type"], error["tool"]) == ("upstream_unavailable", "echo")
        assert set(error["data"]) == {"server", "reason", "retryAfterMs", "mayHaveExecuted"}
        failed = (await message(upstream, "resources/read", {"uri": "a:b"}, caller(revision)))["error"]
        assert failed["code"] == -32603
        assert set(failed["data"]) == {"server", "reason", "retryAfterMs", "mayHaveExecuted"}
        assert (await message(upstream, "tools/call", {"name": "echo"}, caller(PLAIN)))["error"]["code"] == -32002


async def test_a_server_that_crashes_in_a_call_comes_back_and_the_call_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "calls"
    async with nothing_left(), opened(asker()) as upstream:
        for number in range(1, 4):
            with pytest.raises(UpstreamUnavailable, match="has ended with status 3") as failed:
                await tool(upstream, "count", {"file": str(file)})
            assert failed.value.data["mayHaveExecuted"] is True
            assert file.read_text().count("called") == number
        assert text(await tool(upstream, "pid"))
        assert upstream.state.failures == 3
        assert len(upstream.snapshot.tools) == 9


async def test_a_server_that_crashes_on_every_call_is_left_alone_and_its_tools_stay_listed() -> None:
    async with nothing_left(), opened(asker(), breaker_failures=3) as upstream:
        await upstream.refresh()
        states = []
        upstream.on_state = lambda one: states.append(one.state.phase)
        outcomes = []
        for _ in range(8):
            with pytest.raises(UpstreamUnavailable) as failed:
                await tool(upstream, "exit")
            outcomes.append(failed.value.data["mayHaveExecuted"])
        assert outcomes[:3] == [True, True, True]
        assert False in outcomes[3:]
        assert upstream.snapshot.tools
        await until(lambda: upstream.state.phase == "ready" or upstream.state.retry_in_s is not None)
        await until(lambda: upstream._keeper.client is not None)

        async def answers() -> bool:
            try:
                return bool(text(await tool(upstream, "pid")))
            except UpstreamUnavailable:
                return False

        async with asyncio.timeout(10):
            while not await answers():
                await asyncio.sleep(0.05)
        assert upstream.state.phase == "ready"
        assert "down" in states


async def test_a_hanging_server_costs_its_callers_their_deadline_and_nobody_else_anything() -> None:
    async with (
        nothing_left(),
        opened(asker(), timeout_s=1.0, breaker_failures=100) as hanging,
        opened(asker(), timeout_s=30) as healthy,
    ):
        await asyncio.gather(hanging.refresh(), healthy.refresh())
        stuck = [asyncio.create_task(tool(hanging, "hang")) for _ in range(20)]
        started = time.monotonic()
        done = 0
        while done < 1000:
            await asyncio.gather(*(tool(healthy, "pid") for _ in range(50)))
            done += 50
        outcomes = await asyncio.gather(*stuck, return_exceptions=True)
        assert time.monotonic() - started < 20
        assert all(isinstance(outcome, UpstreamUnavailable) for outcome in outcomes)
        assert all("did not come within" in str(outcome) for outcome in outcomes)
        assert healthy.state.calls == 1000
        assert healthy.state.failures == 0


async def test_a_server_that_does_not_answer_is_refused_at_once_after_a_while() -> None:
    async with nothing_left(), opened(asker(), timeout_s=0.3, breaker_failures=2) as upstream:
        await upstream.refresh()
        for _ in range(2):
            with pytest.raises(UpstreamUnavailable, match="did not come within"):
                await tool(upstream, "hang")
        started = time.monotonic()
        with pytest.raises(UpstreamUnavailable) as refused:
            await tool(upstream, "hang")
        assert time.monotonic() - started < 0.1
        assert refused.value.retry_in_s is not None
        assert upstream.state.phase == "down"
        await asyncio.sleep(refused.value.retry_in_s + 0.01)
        assert text(await tool(upstream, "pid"))
        assert upstream.state.phase == "ready"


async def test_only_so_many_calls_run_at_once_and_the_line_is_bounded() -> None:
    async with nothing_left(), opened(asker(), max_calls=2, max_waiting=2, timeout_s=10) as upstream:
        await upstream.refresh()
        tasks = [asyncio.create_task(tool(upstream, "nap", {"seconds": 0.3})) for _ in range(4)]
        await until(lambda: upstream.state.waiting == 2)
        assert upstream.state.in_flight == 2
        with pytest.raises(Overloaded, match="calls to asker"):
            await tool(upstream, "pid")
        assert [text(found) for found in await asyncio.gather(*tasks)] == ["slept"] * 4


@pytest.mark.parametrize("mode", ["garbage", "twice", "wrong-id"])
async def test_garbage_does_not_reach_anybody(mode: str) -> None:
    async with nothing_left(), odd_upstream(mode, timeout_s=2) as upstream:
        await upstream.refresh()
        found = await message(upstream, "tools/call", {"name": "echo", "arguments": {"a": 1}})
        assert "result" in found
        assert "not json" not in str(found["result"].get("content"))


async def test_an_answer_that_is_too_large_is_an_error_and_the_next_one_works() -> None:
    async with nothing_left(), opened(asker(), timeout_s=10) as upstream:
        with pytest.raises(UpstreamUnavailable, match="larger than"):
            await tool(upstream, "big", {"size": 17 << 20})
        assert text(await tool(upstream, "pid"))
        assert len(text(await tool(upstream, "big", {"size": 8 << 20}))) == 8 << 20


async def test_an_endless_line_does_not_fill_the_memory() -> None:
    async with nothing_left(), odd_upstream("endless", timeout_s=1, list_s=1) as upstream:
        with pytest.raises(UpstreamUnavailable):
            await tool(upstream, "echo")


async def test_an_address_that_nobody_listens_at_is_down_and_comes_back_by_itself() -> None:
    async def answer(asked: Asked) -> None:
        raise NotImplementedError

    async with scripted(legacy(answer)) as server:
        port, url = server.port, server.url
    config = ServerConfig(id="web", transport="http", url=url, protocol_version="2025-11-25")
    async with nothing_left(), opened(config) as upstream:
        await upstream.refresh()
        assert upstream.state.phase == "down"
        assert port
        with pytest.raises(UpstreamUnavailable):
            await tool(upstream, "echo")


async def test_a_secret_of_an_upstream_is_in_no_reason() -> None:
    config = ServerConfig(
        id="leaky",
        command="/bin/sh",
        args=["-c", "echo token is $API_TOKEN >&2; exit 1"],
        env={"API_TOKEN": "hunter2-and-more"},
    )
    async with nothing_left(), opened(config) as upstream:
        with pytest.raises(UpstreamUnavailable) as failed:
            await tool(upstream, "echo")
        assert "hunter2" not in str(failed.value)
        assert "hunter2" not in str(failed.value.data)
        assert "hunter2" not in str(upstream.state)


async def test_a_change_of_tools_in_the_middle_of_a_call_does_not_disturb_it() -> None:
    async with nothing_left(), odd_upstream("changes") as upstream:
        await upstream.refresh()
        found = await asyncio.gather(*(tool(upstream, "echo", {"n": number}) for number in range(20)))
        assert [text(item) for item in found] == [f'{{"n": {number}}}' for number in range(20)]


async def test_a_call_may_be_cancelled_while_it_waits_for_its_turn_or_its_session() -> None:
    async with nothing_left(), opened(asker(), max_calls=1, max_sessions=1) as upstream:
        await upstream.refresh()
        nap = asyncio.create_task(tool(upstream, "nap", {"seconds": 0.4}, caller(LEGACY, ELICITATION, scope="1")))
        await until(lambda: upstream.state.in_flight == 1)
        waiting = asyncio.create_task(tool(upstream, "pid"))
        await until(lambda: upstream.state.waiting == 1)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert text(await nap) == "slept"
        starting = asyncio.create_task(tool(upstream, "pid", {}, caller(LEGACY, {"sampling": {}}, scope="2")))
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        assert text(await tool(upstream, "pid", {}, caller(LEGACY, {"sampling": {}}, scope="2")))
        assert (upstream.state.in_flight, upstream.state.waiting) == (0, 0)


async def test_closing_lets_calls_finish_and_takes_no_more() -> None:
    async with nothing_left(), opened(asker()) as upstream:
        await upstream.refresh()
        nap = asyncio.create_task(tool(upstream, "nap", {"seconds": 0.4}))
        await until(lambda: upstream.state.in_flight == 1)
        closing = asyncio.create_task(upstream.close(10))
        await until(lambda: upstream.state.phase == "closing")
        with pytest.raises(UpstreamUnavailable, match="taken out"):
            await tool(upstream, "pid")
        assert text(await nap) == "slept"
        await closing


async def test_closing_does_not_wait_for_ever() -> None:
    async with nothing_left(), opened(asker()) as upstream:
        await upstream.refresh()
        hang = asyncio.create_task(tool(upstream, "hang"))
        await until(lambda: upstream.state.in_flight == 1)
        started = time.monotonic()
        await upstream.close(0.2)
        assert time.monotonic() - started < 8
        with pytest.raises(UpstreamUnavailable):
            await hang


async def test_a_call_brings_its_own_deadline() -> None:
    async with nothing_left(), opened(asker()) as upstream:
        await upstream.refresh()
        deadline = asyncio.get_running_loop().time() + 0.3
        with pytest.raises(UpstreamUnavailable, match="did not come within"):
            await result(upstream, "tools/call", {"name": "hang"}, deadline=deadline)


async def test_a_server_that_was_killed_is_there_again_with_its_subscriptions() -> None:
    changes = []
    async with nothing_left(), interop_upstream("stdio", "2026-07-28") as upstream:
        await upstream.refresh()
        await upstream.subscribe("memo://watched")
        upstream.on_change = lambda _, change: changes.append(change)
        link: Any = upstream._keeper.client._session.rpc.link
        os.kill(link.pid, 9)
        await until(lambda: upstream.state.phase == "down")
        assert upstream.state.is_stale
        assert "SIGKILL" in str(upstream.state.reason)
        await until(lambda: upstream.state.phase == "ready" and not upstream.state.is_stale)
        await until(lambda: any(change.uri == "memo://watched" for change in changes))
        changes.clear()
        await tool(upstream, "touch_resource")
        await until(lambda: any(change.uri == "memo://watched" for change in changes))


async def test_ten_thousand_messages_before_an_answer_reach_the_caller_in_order_and_hold_nothing_up() -> None:
    async with nothing_left(), opened(asker(), timeout_s=20) as upstream:
        back = Back()
        started = time.monotonic()
        await tool(upstream, "chatter", {"times": 10_000}, caller(LEGACY, scope="a", level="debug"), back)
        assert [params["data"] for params in back.told("notifications/message")] == list(range(10_000))
        assert time.monotonic() - started < 15


async def test_what_a_caller_does_not_read_is_dropped_and_the_newest_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "UNTOLD_BYTES", 100_000)

    class Slow(Back):
        async def notify(self, note: Note) -> None:
            await asyncio.sleep(0.001)
            await super().notify(note)

    async with nothing_left(), opened(asker(), timeout_s=20) as upstream:
        back = Slow()
        await tool(upstream, "chatter", {"times": 5_000}, caller(LEGACY, scope="a", level="debug"), back)
        heard = [params["data"] for params in back.told("notifications/message")]
        assert 100 < len(heard) < 5_000
        assert heard == sorted(heard)
        assert heard[-1] == 4_999
