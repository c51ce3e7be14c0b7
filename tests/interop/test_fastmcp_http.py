"""Features of HTTP with FastMCP's client: connecting with only a URL, sessions, streams that end early."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport
from tests.interop.http_recorder import HttpRecorder, RecordedExchange
from tests.interop.python_client import DEPRECATED, ERAS, LEGACY

RunAsync = Callable[..., Any]

pytestmark = pytest.mark.filterwarnings(DEPRECATED)


@pytest.mark.parametrize("mode", ERAS)
def test_a_client_needs_only_the_url(url: str, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        async with Client(url, mode=mode, timeout=60) as client:
            assert client.protocol_version == ("2025-11-25" if mode == LEGACY else "2026-07-28")
            assert (await client.call_tool("echo", {"text": "hi"})).content[0].text == "hi"

    run_async(scenario())


def test_the_client_uses_one_session_and_ends_it(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        traffic = HttpRecorder()
        transport = StreamableHttpTransport(url, httpx_client_factory=traffic.make_client)
        async with Client(transport, mode=LEGACY, timeout=60) as client:
            await traffic.wait_for("GET")
            session = transport.get_session_id()
            assert session is not None
            await client.ping()
            await client.list_tools()
        first, *others = traffic.exchanges
        assert first == RecordedExchange("POST", 200, None, None)
        assert {exchange.session for exchange in others} == {session}
        assert others[-1] == RecordedExchange("DELETE", 204, session, None)

    run_async(scenario())


def test_the_client_reconnects_for_a_result_whose_stream_was_closed(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        traffic, received, complete = HttpRecorder(), [], asyncio.Event()

        async def progress(value: float, total: float | None, message: str | None) -> None:
            received.append(message)
            if message == "after":
                complete.set()

        transport = StreamableHttpTransport(url, httpx_client_factory=traffic.make_client)
        async with Client(transport, mode=LEGACY, timeout=60) as client:
            result = await client.call_tool("polled", progress_handler=progress)
            assert result.content[0].text == "fetched"
            await asyncio.wait_for(complete.wait(), 60)
            assert received == ["before", "after"]
            assert [exchange.method for exchange in traffic.exchanges if exchange.last_event_id] == ["GET"]

    run_async(scenario())


def test_the_http_sse_transport_serves_the_client_too(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        traffic = HttpRecorder()
        transport = SSETransport(url.removesuffix("mcp") + "sse", httpx_client_factory=traffic.make_client)
        async with Client(transport, mode=LEGACY, timeout=60) as client:
            assert [tool.name for tool in await client.list_tools()][:3] == ["echo", "add", "count"]
            added = await client.call_tool("add", {"a": 2, "b": 3})
            assert (added.data.total, added.data.terms) == (5, [2, 3])

    run_async(scenario())
