"""An upstream in the process of the hub."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.client.harness import assert_no_unretrieved_errors
from tests.clock import advance_and_settle, advance_clock, wait_until, yield_to_loop
from tests.hub.upstream_callers import (
    ALL_CAPABILITIES,
    LEGACY,
    MODERN,
    RecordingReturnPath,
    call_tool,
    make_caller,
    request_result,
    result_text,
)

from hubbub import ChangeEvent, Context, Overloaded, Server, ToolNotFound, UpstreamUnavailable, bounds
from hubbub.hub.local import LocalUpstream
from hubbub.hub.upstream import Upstream, UpstreamOptions
from hubbub.protocol.revisions import PLAIN


@dataclass
class Person:
    name: str
    age: int = 0


def make_server(events: list[str] | None = None, goes_on: asyncio.Event | None = None) -> Server:
    goes_on = goes_on or asyncio.Event()

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        if events is not None:
            events.append("open")
        yield "state"
        if events is not None:
            events.append("closed")

    server = Server("here", version="2", title="Here", instructions="Be kind.", lifespan=lifespan)

    @server.tool
    async def echo(text: str) -> str:
        """Give it back."""
        return text

    @server.tool
    async def count() -> int:
        return 42

    @server.tool
    async def ask(context: Context) -> str:
        answer = await context.elicit("Who?", Person)
        assert answer.content is not None
        return answer.content.name

    @server.tool
    async def wait() -> str:
        await goes_on.wait()
        return "waited"

    @server.resource("memo://a")
    def memo() -> str:
        return "a memo"

    @server.resource("memo://people/{name}")
    def person(name: str) -> str:
        return name

    @server.prompt
    def greeting(name: str) -> str:
        return f"Greet {name}"

    return server


@asynccontextmanager
async def open_local_upstream(server: Server) -> AsyncIterator[LocalUpstream]:
    upstream = LocalUpstream("here", server, UpstreamOptions())
    await upstream.start()
    try:
        yield upstream
    finally:
        await upstream.close(1)


async def test_a_local_upstream_has_its_lists_at_once_and_its_lifespan_is_open() -> None:
    events: list[str] = []
    async with open_local_upstream(make_server(events)) as upstream:
        assert events == ["open"]
        as_one: Upstream = upstream
        snapshot = as_one.snapshot
        assert [entry.name for entry in snapshot.tools] == ["echo", "count", "ask", "wait"]
        assert [entry.name for entry in snapshot.resources] == ["memo://a"]
        assert [entry.name for entry in snapshot.templates] == ["memo://people/{name}"]
        assert [entry.name for entry in snapshot.prompts] == ["greeting"]
        assert (snapshot.name, snapshot.version, snapshot.title) == ("here", "2", "Here")
        assert snapshot.instructions == "Be kind."
        assert snapshot.has_capability("tools", "listChanged")
        assert snapshot.wrapped == {"count"}
        assert upstream.state.phase == "ready"
    assert events == ["open", "closed"]


async def test_replies_are_in_the_revision_of_the_caller() -> None:
    async with open_local_upstream(make_server()) as upstream:
        assert result_text(await call_tool(upstream, "echo", {"text": "a"})) == "a"
        assert (await call_tool(upstream, "count", {}, make_caller(MODERN)))["structuredContent"] == 42
        assert (await call_tool(upstream, "count", {}, make_caller(LEGACY)))["structuredContent"] == {"result": 42}
        assert list(await call_tool(upstream, "count", {}, make_caller(PLAIN))) == ["content"]
        read = await request_result(upstream, "resources/read", {"uri": "memo://a"}, make_caller(LEGACY))
        assert read["contents"][0]["text"] == "a memo"
        with pytest.raises(ToolNotFound):
            await call_tool(upstream, "nothing")
        assert upstream.state.calls == 6
        assert upstream.state.in_flight == 0


async def test_client_requests_work_in_both_eras() -> None:
    async with open_local_upstream(make_server()) as upstream:
        assert (
            result_text(
                await call_tool(
                    upstream, "ask", {}, make_caller(LEGACY, ALL_CAPABILITIES, scope="a"), RecordingReturnPath("ada")
                )
            )
            == "ada"
        )
        params: dict[str, Any] = {"name": "ask", "arguments": {}}
        asked = await request_result(upstream, "tools/call", params, make_caller(MODERN, ALL_CAPABILITIES))
        (key,) = asked["inputRequests"]
        params["requestState"] = asked["requestState"]
        params["inputResponses"] = {key: {"action": "accept", "content": {"name": "bob"}}}
        assert (
            result_text(await request_result(upstream, "tools/call", params, make_caller(MODERN, ALL_CAPABILITIES)))
            == "bob"
        )


async def test_changes_are_notified_after_the_lists_contain_them() -> None:
    server = make_server()
    changes_seen: list[tuple[ChangeEvent, int]] = []
    async with open_local_upstream(server) as upstream:
        upstream.on_change = lambda one, change: changes_seen.append((change, len(one.snapshot.tools)))
        server.tools.unregister("wait")
        await wait_until(lambda: bool(changes_seen))
        assert changes_seen == [(ChangeEvent("tools"), 3)]
        await upstream.subscribe("memo://a")
        server.resource_updated("memo://a")
        server.resource_updated("memo://b")
        await upstream.unsubscribe("memo://a")
        server.resource_updated("memo://a")
        assert [change for change, _ in changes_seen[1:]] == [ChangeEvent("resource", "memo://a")]


async def test_a_failing_lifespan_is_raised_to_the_code_that_starts_the_upstream() -> None:
    @asynccontextmanager
    async def broken(server: Server) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield  # type: ignore[unreachable]  # makes it a generator

    upstream = LocalUpstream("here", Server("here", lifespan=broken), UpstreamOptions())
    with pytest.raises(RuntimeError, match="no database"):
        await upstream.start()
    assert upstream.state.phase == "down"
    with pytest.raises(UpstreamUnavailable, match="not running"):
        await call_tool(upstream, "echo")
    await upstream.close(1)


async def test_a_lifespan_that_fails_after_the_start_was_cancelled_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    opening, fails = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def broken(server: Server) -> AsyncIterator[None]:
        opening.set()
        await fails.wait()
        raise RuntimeError("no database")
        yield  # type: ignore[unreachable]  # makes it a generator

    async with assert_no_unretrieved_errors():
        upstream = LocalUpstream("here", Server("here", lifespan=broken), UpstreamOptions())
        starting = asyncio.create_task(upstream.start())
        await opening.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        fails.set()
        await upstream.close(1)
        del upstream, starting
    assert [record.message for record in caplog.records] == ["lifespan_failed"]


async def test_a_lifespan_that_fails_at_the_end_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def broken(server: Server) -> AsyncIterator[None]:
        yield
        raise RuntimeError("cannot flush")

    async with assert_no_unretrieved_errors(), open_local_upstream(Server("here", lifespan=broken)):
        pass
    assert [record.message for record in caplog.records] == ["lifespan_failed"]


async def test_a_tool_can_close_the_stream_of_its_caller() -> None:
    class Streaming(RecordingReturnPath):
        released = 0

        async def release(self) -> None:
            self.released += 1

    server = make_server()

    @server.tool
    async def leave(context: Context) -> str:
        await context.close_stream()
        return "left"

    async with open_local_upstream(server) as upstream:
        for capabilities in ({}, ALL_CAPABILITIES):
            back = Streaming()
            assert (
                result_text(await call_tool(upstream, "leave", {}, make_caller(LEGACY, capabilities), back)) == "left"
            )
            assert back.released == 1


async def test_closing_lets_running_calls_finish_and_refuses_new_ones() -> None:
    goes_on = asyncio.Event()
    async with open_local_upstream(make_server(goes_on=goes_on)) as upstream:
        waiting = asyncio.create_task(call_tool(upstream, "wait"))
        await wait_until(lambda: upstream.state.in_flight == 1)
        closing = asyncio.create_task(upstream.close(3600))
        await wait_until(lambda: upstream.state.phase == "closing")
        with pytest.raises(UpstreamUnavailable):
            await call_tool(upstream, "echo", {"text": "a"})
        goes_on.set()
        assert result_text(await waiting) == "waited"
        await closing


def make_hanging_server() -> Server:
    server = Server("slow")

    @server.tool
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    @server.tool
    async def quick() -> str:
        return "quick"

    @server.tool
    async def ask(context: Context) -> str:
        answer = await context.elicit("Who?", Person)
        return type(answer).__name__

    return server


@asynccontextmanager
async def open_slow_upstream(**options: Any) -> AsyncIterator[LocalUpstream]:
    upstream = LocalUpstream("slow", make_hanging_server(), UpstreamOptions(**options))
    await upstream.start()
    try:
        yield upstream
    finally:
        await upstream.close(0)


@pytest.mark.parametrize("revision", [MODERN, LEGACY, PLAIN], ids=["modern", "legacy", "plain"])
async def test_calls_time_out_and_after_some_timeouts_the_breaker_opens(
    revision: Any,
) -> None:
    async with open_slow_upstream(timeout_s=100, breaker_failures=2) as upstream:
        for _ in range(2):
            hang = asyncio.create_task(call_tool(upstream, "hang", {}, make_caller(revision, ALL_CAPABILITIES)))
            await wait_until(lambda: upstream.state.in_flight == 1)
            await yield_to_loop()
            advance_clock(100)
            with pytest.raises(UpstreamUnavailable, match="Timed out after 100 s") as failed:
                await hang
            assert failed.value.data["mayHaveExecuted"] is True
        with pytest.raises(UpstreamUnavailable, match="retry in") as refused:
            await call_tool(upstream, "quick", {}, make_caller(revision, ALL_CAPABILITIES))
        assert refused.value.data["mayHaveExecuted"] is False
        assert refused.value.data["retryAfterMs"] > 0
        assert (upstream.state.phase, upstream.state.failures, upstream.state.in_flight) == ("down", 2, 0)
        assert "Timed out after 100 s" in str(upstream.state.reason)
        await wait_until(lambda: upstream.state.retry_in_s is None)
        assert result_text(await call_tool(upstream, "quick", {}, make_caller(revision))) == "quick"
        assert (upstream.state.phase, upstream.state.reason) == ("ready", None)


async def test_a_changed_limit_applies_to_the_next_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "UPSTREAM_CALLS", 1)
    monkeypatch.setattr(bounds, "UPSTREAM_QUEUED_CALLS", 0)
    async with open_slow_upstream() as upstream:
        first = asyncio.create_task(call_tool(upstream, "hang"))
        await wait_until(lambda: upstream.state.in_flight == 1)
        with pytest.raises(Overloaded, match="calls to slow"):
            await call_tool(upstream, "quick")
        first.cancel()


async def test_calls_beyond_the_concurrency_limit_are_queued() -> None:
    async with open_slow_upstream(timeout_s=100, max_calls=1, max_waiting=1) as upstream:
        first = asyncio.create_task(call_tool(upstream, "hang"))
        await wait_until(lambda: upstream.state.in_flight == 1)
        second = asyncio.create_task(call_tool(upstream, "hang"))
        await wait_until(lambda: upstream.state.waiting == 1)
        with pytest.raises(Overloaded, match="calls to slow"):
            await call_tool(upstream, "quick")
        await yield_to_loop()
        advance_clock(100)
        with pytest.raises(UpstreamUnavailable):
            await first
        with pytest.raises((UpstreamUnavailable, Overloaded)):
            await second
        assert result_text(await call_tool(upstream, "quick")) == "quick"


async def test_waiting_for_the_caller_does_not_count_towards_the_time_limit() -> None:
    async with open_slow_upstream(timeout_s=100, max_calls=1) as upstream:
        back = RecordingReturnPath()
        others: list[str] = []

        async def think() -> None:
            others.append(result_text(await call_tool(upstream, "quick")))
            await advance_and_settle(200)

        back.before_answer = think
        assert await call_tool(upstream, "ask", {}, make_caller(LEGACY, ALL_CAPABILITIES, scope="1"), back)
        assert others == ["quick"]
