"""SIGTERM: streams end, running calls are answered, and the process exits with code 0 within the drain time."""

import asyncio
import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.http.eras import modern_request, open_session
from tests.http.raw_http import TIMEOUT_S, Response, Site, call
from tests.http.server_process import PLAYGROUND, ServerProcess
from websockets.asyncio.client import connect


@pytest.fixture
def process() -> Iterator[ServerProcess]:
    # Longer than the time limit of the tests, so that they fail if anything ends only because the drain time is over.
    with ServerProcess(str(PLAYGROUND), "--drain-s", "600") as process:
        yield process


async def wait_for_calls(site: Site, number: int) -> None:
    """Wait until this number of calls runs."""
    async with asyncio.timeout(TIMEOUT_S):
        while (await site.post(call("history"))).body.count(b"start a") < number:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_shutdown_ends_open_streams_cleanly_and_at_once(process: ServerProcess, number: int) -> None:
    site = process.site
    session = await open_session(site)
    body, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=4)
    async with (
        site.stream("GET", "/mcp", {"Accept": "text/event-stream"}) as plain,
        session.listen() as own,
        session.listen() as second,
        site.stream("POST", "/mcp", headers, body) as listen,
        site.stream("GET", "/sse", {"Accept": "text/event-stream"}) as old,
        connect(f"ws://127.0.0.1:{site.port}/mcp-ws", subprotocols=["mcp.v1"]) as socket,  # type: ignore[list-item]
    ):
        await own.next(), await second.next(), await listen.next(), await old.next()
        process.signal(number)
        for stream in (plain, own, second, old):
            assert await stream.rest() == []
        messages = [event.json for event in await listen.rest()]
        async with asyncio.timeout(TIMEOUT_S):
            await socket.wait_closed()
    assert socket.close_code == 1001
    assert [one.get("method", one.get("id")) for one in messages] == ["notifications/cancelled", 4]
    assert process.wait() == 0
    assert not [line for line in process.stderr_lines if "Traceback" in line or "ERROR" in line]


async def post_in_each_era(site: Site, tool: str, arguments: dict[str, Any]) -> list[asyncio.Task[Response]]:
    session = await open_session(site)
    slow = call(tool, arguments, id="slow")
    return [
        asyncio.create_task(site.post(slow)),
        asyncio.create_task(site.post([slow])),
        asyncio.create_task(session.post(slow)),
        asyncio.create_task(
            site.post(*modern_request("tools/call", {"name": tool, "arguments": arguments}, id="slow"))
        ),
    ]


async def test_shutdown_waits_for_running_calls(process: ServerProcess) -> None:
    site, slow = process.site, call("nap", {"seconds": 1.5}, id="slow")
    session = await open_session(site)
    async with (
        connect(f"ws://127.0.0.1:{site.port}/mcp-ws") as socket,
        site.stream("GET", "/sse", {"Accept": "text/event-stream"}) as old,
        session.call(call("nap", {"seconds": 1.5}, id="slow", token=1)) as streamed,
    ):
        endpoint = await old.next()
        assert endpoint is not None
        await site.post(slow, path=endpoint.data)
        await socket.send(json.dumps(slow))
        calls = await post_in_each_era(site, "nap", {"seconds": 1.5})
        await wait_for_calls(site, 7)
        process.signal()
        answers = [answer.json for answer in await asyncio.gather(*calls)]
        answers += [await old.message(), json.loads(await socket.recv())]
        answers.append([event.json for event in await streamed.rest() if event.data][1])
        assert await old.next() is None
    for answer in answers:
        one = answer[0] if isinstance(answer, list) else answer
        assert (one["id"], one["result"]["content"][0]["text"]) == ("slow", "rested")
    assert process.wait() == 0
    assert not [line for line in process.stderr_lines if "Traceback" in line or "ERROR" in line]


async def test_calls_that_outlast_the_drain_time_get_503() -> None:
    with ServerProcess(str(PLAYGROUND), "--drain-s", "1") as impatient:
        calls = await post_in_each_era(impatient.site, "wait", {"name": "a"})
        await wait_for_calls(impatient.site, 4)
        impatient.signal()
        answers: list[Any] = await asyncio.gather(*calls)
        assert [answer.status for answer in answers] == [503] * 4
        assert {answer.header("x-mcp-version") for answer in answers} == {"1.0.0"}
        assert impatient.wait() == 0
        assert not [line for line in impatient.stderr_lines if "Traceback" in line]
