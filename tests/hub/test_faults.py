"""Upstreams that crash, hang, flap, or send invalid or too many messages; other callers are not affected."""

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.client.harness import INTEROP, assert_no_leaks, stdio_config
from tests.client.scripted_server import ScriptedRequest, legacy_handler, scripted_server
from tests.clock import advance_clock, wait_until, yield_to_loop
from tests.hub.upstream_callers import (
    ELICITATION,
    LEGACY,
    MODERN,
    RecordingReturnPath,
    call_tool,
    make_caller,
    request_message,
    request_result,
    result_text,
)
from tests.hub.upstreams import asking_config, interop_upstream, misbehaving_upstream, open_upstream

from hubbub import Notification, Overloaded, ServerConfig, UpstreamUnavailable, bounds
from hubbub.protocol.revisions import PLAIN

BROKEN = ServerConfig(id="broken", command="no-such-program-here")


async def test_a_server_that_cannot_be_started_is_unavailable_with_a_retry_time() -> None:
    async with assert_no_leaks(), open_upstream(BROKEN, breaker_failures=2) as upstream:
        await upstream.refresh()
        assert upstream.state.phase == "down"
        assert upstream.state.is_stale
        assert "cannot be started" in str(upstream.state.reason)
        retry_after_ms = -1
        for _ in range(3):
            with pytest.raises(UpstreamUnavailable, match="cannot be started") as refused:
                await call_tool(upstream, "echo")
            assert refused.value.data["server"] == "broken"
            assert refused.value.data["mayHaveExecuted"] is False
            retry_after_ms = refused.value.data.get("retryAfterMs", -1)
        assert 0 <= retry_after_ms <= 1000


@pytest.mark.parametrize("revision", [MODERN, LEGACY], ids=["modern", "legacy"])
async def test_the_error_is_a_failed_tool_with_reason_and_retry_time(revision: Any) -> None:
    async with open_upstream(BROKEN, breaker_failures=1) as upstream:
        await request_message(upstream, "tools/call", {"name": "echo"}, make_caller(revision))
        found = (await request_message(upstream, "tools/call", {"name": "echo"}, make_caller(revision)))["result"]
        assert found["isError"] is True
        error = found["structuredContent"]["error"]
        assert (error["type"], error["tool"]) == ("upstream_unavailable", "echo")
        assert set(error["data"]) == {"server", "reason", "since", "retryAfterMs", "mayHaveExecuted"}
        failed = (await request_message(upstream, "resources/read", {"uri": "a:b"}, make_caller(revision)))["error"]
        assert failed["code"] == -32603
        assert set(failed["data"]) == {"server", "reason", "since", "retryAfterMs", "mayHaveExecuted"}
        assert (await request_message(upstream, "tools/call", {"name": "echo"}, make_caller(PLAIN)))["error"][
            "code"
        ] == -32002


async def test_a_server_that_crashes_is_restarted_and_the_call_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "calls"
    async with assert_no_leaks(), open_upstream(asking_config()) as upstream:
        for number in range(1, 4):
            with pytest.raises(UpstreamUnavailable, match="has ended with status 3") as failed:
                await call_tool(upstream, "count", {"file": str(file)})
            assert failed.value.data["mayHaveExecuted"] is True
            assert file.read_text().count("called") == number
        assert result_text(await call_tool(upstream, "pid"))
        assert upstream.state.failures == 3
        await wait_until(lambda: len(upstream.snapshot.tools) == 9)  # listed again in the background


async def test_the_breaker_opens_for_a_server_that_crashes_on_every_call_and_its_tools_stay_listed() -> None:
    async with assert_no_leaks(), open_upstream(asking_config(), breaker_failures=3) as upstream:
        await upstream.refresh()
        states = []
        upstream.on_state = lambda one: states.append(one.state.phase)
        outcomes = []
        for _ in range(8):
            with pytest.raises(UpstreamUnavailable) as failed:
                await call_tool(upstream, "exit")
            outcomes.append(failed.value.data["mayHaveExecuted"])
        assert outcomes[:3] == [True, True, True]
        assert False in outcomes[3:]
        assert upstream.snapshot.tools
        await wait_until(lambda: upstream.state.phase == "ready" or upstream.state.retry_in_s is not None)

        async def answers() -> bool:
            try:
                return bool(result_text(await call_tool(upstream, "pid")))
            except UpstreamUnavailable:
                return False

        async with asyncio.timeout(60):
            while not await answers():
                await asyncio.sleep(0.05)
        assert upstream.state.phase == "ready"
        assert "down" in states


async def test_calls_to_a_hanging_server_time_out_and_others_are_not_affected() -> None:
    async with (
        assert_no_leaks(),
        open_upstream(asking_config(), timeout_s=100, breaker_failures=100) as hanging,
        open_upstream(asking_config(), timeout_s=100) as healthy,
    ):
        await asyncio.gather(hanging.refresh(), healthy.refresh())
        stuck = [asyncio.create_task(call_tool(hanging, "hang")) for _ in range(20)]
        for _ in range(20):
            await asyncio.gather(*(call_tool(healthy, "pid") for _ in range(50)))
        assert not any(task.done() for task in stuck)
        advance_clock(100)
        outcomes = await asyncio.gather(*stuck, return_exceptions=True)
        assert all(isinstance(outcome, UpstreamUnavailable) for outcome in outcomes)
        assert all("Timed out after" in str(outcome) for outcome in outcomes)
        assert healthy.state.calls == 1000
        assert healthy.state.failures == 0


async def test_the_breaker_opens_for_a_server_that_does_not_respond() -> None:
    async with assert_no_leaks(), open_upstream(asking_config(), timeout_s=20, breaker_failures=2) as upstream:
        await upstream.refresh()
        for _ in range(2):
            deadline = asyncio.get_running_loop().time() + 0.3
            with pytest.raises(UpstreamUnavailable, match="Timed out after"):
                await request_result(upstream, "tools/call", {"name": "hang"}, deadline=deadline)
        with pytest.raises(UpstreamUnavailable) as refused:
            await call_tool(upstream, "hang")
        assert refused.value.data["mayHaveExecuted"] is False
        assert refused.value.retry_in_s is not None
        phase = upstream.state.phase
        assert phase == "down"
        await wait_until(lambda: upstream.state.retry_in_s is None)
        assert result_text(await call_tool(upstream, "pid"))
        assert upstream.state.phase == "ready"


async def test_concurrent_and_queued_calls_are_limited(tmp_path: Path) -> None:
    file = tmp_path / "file"
    async with assert_no_leaks(), open_upstream(asking_config(), max_calls=2, max_waiting=2, timeout_s=10) as upstream:
        await upstream.refresh()
        tasks = [asyncio.create_task(call_tool(upstream, "wait", {"file": str(file)})) for _ in range(4)]
        await wait_until(lambda: upstream.state.waiting == 2)
        assert upstream.state.in_flight == 2
        with pytest.raises(Overloaded, match="calls to asker"):
            await call_tool(upstream, "pid")
        file.touch()
        assert [result_text(found) for found in await asyncio.gather(*tasks)] == ["waited"] * 4


@pytest.mark.parametrize("mode", ["garbage", "twice", "wrong-id"])
async def test_invalid_messages_of_a_server_reach_no_caller(mode: str) -> None:
    async with assert_no_leaks(), misbehaving_upstream(mode, timeout_s=20) as upstream:
        await upstream.refresh()
        found = await request_message(upstream, "tools/call", {"name": "echo", "arguments": {"a": 1}})
        assert "result" in found
        assert "not json" not in str(found["result"].get("content"))


async def test_an_oversized_response_is_an_error_and_the_next_call_works() -> None:
    async with assert_no_leaks(), open_upstream(asking_config(), timeout_s=10) as upstream:
        with pytest.raises(UpstreamUnavailable, match="larger than"):
            await call_tool(upstream, "big", {"size": 17 << 20})
        assert result_text(await call_tool(upstream, "pid"))
        assert len(result_text(await call_tool(upstream, "big", {"size": 8 << 20}))) == 8 << 20


async def test_an_endless_line_uses_bounded_memory() -> None:
    async with assert_no_leaks(), misbehaving_upstream("endless", timeout_s=1, list_s=1) as upstream:
        with pytest.raises(UpstreamUnavailable):
            await call_tool(upstream, "echo")


async def test_endless_pages_use_bounded_memory() -> None:
    async with assert_no_leaks(), misbehaving_upstream("large-pages", list_s=20) as upstream:
        await upstream.refresh()
        assert upstream.state.is_stale
        assert upstream.snapshot.tools == ()


async def test_a_refused_connection_is_retried_until_the_server_is_up() -> None:
    async def answer(asked: ScriptedRequest) -> None:
        raise NotImplementedError

    async with scripted_server(legacy_handler(answer)) as server:
        port, url = server.port, server.url
    config = ServerConfig(id="web", transport="http", url=url, protocol_version="2025-11-25")
    async with assert_no_leaks(), open_upstream(config) as upstream:
        await upstream.refresh()
        assert upstream.state.phase == "down"
        assert port
        with pytest.raises(UpstreamUnavailable):
            await call_tool(upstream, "echo")


async def test_reasons_contain_no_secret_of_the_upstream() -> None:
    config = ServerConfig(
        id="leaky",
        command="/bin/sh",
        args=["-c", "echo token is $API_TOKEN >&2; exit 1"],
        env={"API_TOKEN": "hunter2-and-more"},
    )
    async with assert_no_leaks(), open_upstream(config) as upstream:
        with pytest.raises(UpstreamUnavailable) as failed:
            await call_tool(upstream, "echo")
        assert "hunter2" not in str(failed.value)
        assert "hunter2" not in str(failed.value.data)
        assert "hunter2" not in str(upstream.state)


async def test_a_list_change_during_a_call_does_not_affect_it() -> None:
    async with assert_no_leaks(), misbehaving_upstream("changes") as upstream:
        await upstream.refresh()
        found = await asyncio.gather(*(call_tool(upstream, "echo", {"n": number}) for number in range(20)))
        assert [result_text(item) for item in found] == [f'{{"n": {number}}}' for number in range(20)]


async def test_a_call_can_be_cancelled_while_queued_or_connecting(tmp_path: Path) -> None:
    file, who = tmp_path / "file", make_caller(LEGACY, ELICITATION, scope="1")
    async with assert_no_leaks(), open_upstream(asking_config(), max_calls=1, max_sessions=1) as upstream:
        await upstream.refresh()
        first = asyncio.create_task(call_tool(upstream, "wait", {"file": str(file)}, who))
        await wait_until(lambda: upstream.state.in_flight == 1)
        waiting = asyncio.create_task(call_tool(upstream, "pid"))
        await wait_until(lambda: upstream.state.waiting == 1)
        waiting.cancel()
        await asyncio.wait([waiting])
        file.touch()
        assert result_text(await first) == "waited"
        starting = asyncio.create_task(call_tool(upstream, "pid", {}, make_caller(LEGACY, {"sampling": {}}, scope="2")))
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        assert result_text(await call_tool(upstream, "pid", {}, make_caller(LEGACY, {"sampling": {}}, scope="2")))
        assert (upstream.state.in_flight, upstream.state.waiting) == (0, 0)


async def test_closing_lets_running_calls_finish_and_refuses_new_ones(tmp_path: Path) -> None:
    file = tmp_path / "file"
    async with assert_no_leaks(), open_upstream(asking_config()) as upstream:
        await upstream.refresh()
        running = asyncio.create_task(call_tool(upstream, "wait", {"file": str(file)}))
        await wait_until(lambda: upstream.state.in_flight == 1)
        closing = asyncio.create_task(upstream.close(3600))
        await wait_until(lambda: upstream.state.phase == "closing")
        with pytest.raises(UpstreamUnavailable, match="being removed from the hub"):
            await call_tool(upstream, "pid")
        file.touch()
        assert result_text(await running) == "waited"
        await closing


async def test_closing_has_a_time_limit() -> None:
    async with assert_no_leaks(), open_upstream(asking_config()) as upstream:
        await upstream.refresh()
        hang = asyncio.create_task(call_tool(upstream, "hang"))
        await wait_until(lambda: upstream.state.in_flight == 1)
        await upstream.close(0.2)
        with pytest.raises(UpstreamUnavailable):
            await hang


async def test_a_call_may_have_its_own_deadline() -> None:
    async with assert_no_leaks(), open_upstream(asking_config()) as upstream:
        await upstream.refresh()
        deadline = asyncio.get_running_loop().time() + 100
        hang = asyncio.create_task(request_result(upstream, "tools/call", {"name": "hang"}, deadline=deadline))
        await wait_until(lambda: upstream.state.in_flight == 1)
        await yield_to_loop()
        advance_clock(100)
        with pytest.raises(UpstreamUnavailable, match="Timed out after"):
            await hang


async def test_a_killed_server_is_restarted_and_subscriptions_are_restored() -> None:
    changes = []
    async with assert_no_leaks(), interop_upstream("stdio", "2026-07-28") as upstream:
        await upstream.refresh()
        await upstream.subscribe("memo://watched")
        upstream.on_change = lambda _, change: changes.append(change)
        (server,) = [child for child in psutil.Process().children() if str(INTEROP) in child.cmdline()]
        server.kill()
        await wait_until(lambda: upstream.state.phase == "down")
        assert upstream.state.is_stale
        assert "SIGKILL" in str(upstream.state.reason)
        await wait_until(lambda: upstream.state.phase == "ready" and not upstream.state.is_stale)
        await wait_until(lambda: any(change.uri == "memo://watched" for change in changes))
        changes.clear()
        await call_tool(upstream, "touch_resource")
        await wait_until(lambda: any(change.uri == "memo://watched" for change in changes))


async def test_ten_thousand_notifications_reach_the_caller_in_order_without_blocking_others() -> None:
    async with assert_no_leaks(), open_upstream(asking_config(), timeout_s=20) as upstream:
        back = RecordingReturnPath()
        await call_tool(upstream, "chatter", {"times": 10_000}, make_caller(LEGACY, scope="a", level="debug"), back)
        assert [params["data"] for params in back.notes_of("notifications/message")] == list(range(10_000))


async def test_unread_notifications_are_dropped_except_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    monkeypatch.setattr(bounds, "QUEUED_NOTIFICATIONS_BYTES", 100_000)

    class Slow(RecordingReturnPath):
        async def notify(self, note: Notification) -> None:
            if not self.notes:
                await wait_until(file.exists)  # the upstream has sent everything, which is more than a pipe holds
            await super().notify(note)

    async with assert_no_leaks(), open_upstream(asking_config(), timeout_s=20) as upstream:
        back = Slow()
        arguments = {"times": 5_000, "file": str(file)}
        await call_tool(upstream, "chatter", arguments, make_caller(LEGACY, scope="a", level="debug"), back)
        received = [params["data"] for params in back.notes_of("notifications/message")]
        assert 100 < len(received) < 5_000
        assert received == sorted(received)
        assert received[-1] == 4_999


EARLY = r"""
import json, sys
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def log():
    say(method="notifications/message", params={"level": "info", "data": "early"})
log()
for line in sys.stdin:
    asked = json.loads(line)
    log()
    if asked["method"] == "initialize":
        info = {"name": "early", "version": "1"}
        say(id=asked["id"], result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif asked["method"] == "tools/list":
        say(id=asked["id"], result={"tools": [{"name": "pid", "inputSchema": {"type": "object"}}]})
    elif asked["method"] == "tools/call":
        say(id=asked["id"], result={"content": [{"type": "text", "text": "done"}]})
    elif "id" in asked:
        say(id=asked["id"], error={"code": -32601, "message": "no"})
"""


async def test_log_messages_before_the_handshake_are_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async with assert_no_leaks(), open_upstream(stdio_config("-c", EARLY)) as upstream:
        assert result_text(await call_tool(upstream, "pid")) == "done"
    assert not [record for record in caplog.records if record.exc_info or record.levelname in ("WARNING", "ERROR")]
