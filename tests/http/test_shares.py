"""One caller that uses as much as it can leaves room for other callers, in each bounded table."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets
from tests.http.eras import initialize_request, modern_request
from tests.http.in_process_server import RunningServer, run_server, wait_until
from tests.http.keyring import Keyring
from tests.http.playground import make_server
from tests.http.raw_http import JSON, TIMEOUT_S, Response, Site, call

from hubbub import Server
from hubbub.rounds import Rounds
from hubbub.server.threads import Threads

LIMIT = 16
SHARE = 14
"""Seven eighths of the limit."""
Key = dict[str, str]


@asynccontextmanager
async def two_callers(
    folder: Path, server: Server | None = None, **settings: Any
) -> AsyncIterator[tuple[RunningServer, Key, Key]]:
    ring = Keyring(folder / "keys.toml")
    ada, bob = ring.add("ada"), ring.add("bob")
    server = make_server() if server is None else server
    async with run_server(server, key_file=str(ring.path), **settings) as instance:
        server.rounds = Rounds(server.sealer, limit=LIMIT)
        yield instance, ada, bob


async def test_sessions(tmp_path: Path) -> None:
    async with two_callers(tmp_path, max_sessions=LIMIT) as (instance, ada, bob):
        statuses = [(await instance.site.post(initialize_request(), ada)).status for _ in range(LIMIT)]
        assert statuses == [200] * SHARE + [503] * (LIMIT - SHARE)
        assert (await instance.site.post(initialize_request(), bob)).status == 200


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_streams(tmp_path: Path, path: str) -> None:
    async with two_callers(tmp_path, max_streams=LIMIT) as (instance, ada, bob), AsyncExitStack() as stack:
        for _ in range(SHARE):
            stream = await stack.enter_async_context(instance.site.stream("GET", path, ada))
            assert stream.status == 200
        assert (await instance.site.get(path, ada)).status == 503
        assert (await stack.enter_async_context(instance.site.stream("GET", path, bob))).status == 200


async def test_websockets(tmp_path: Path) -> None:
    async with two_callers(tmp_path, max_streams=LIMIT) as (instance, ada, bob), AsyncExitStack() as stack:
        address = f"ws://127.0.0.1:{instance.site.port}/mcp-ws"
        for _ in range(SHARE):
            await stack.enter_async_context(websockets.connect(address, additional_headers=ada))
        with pytest.raises(websockets.InvalidStatus):
            await stack.enter_async_context(websockets.connect(address, additional_headers=ada))
        await stack.enter_async_context(websockets.connect(address, additional_headers=bob))
        assert b"hubbub_websockets 15.0" in (await instance.site.get("/metrics", bob)).body


@pytest.mark.skipif(sys.platform == "darwin", reason="it has only one loopback address")
async def test_requests_at_once(tmp_path: Path) -> None:
    async with two_callers(tmp_path, max_connections=LIMIT) as (instance, ada, bob), instance.site.connect() as link:

        async def ask(method: str, path: str, key: Key, body: Any = None) -> Response:
            await link.send_request(method, path, JSON | key, b"" if body is None else json.dumps(body).encode())
            return await link.read_response()

        # From two addresses, because connections are shared by address and are as many.
        sites = [Site(instance.site.port, caller) for caller in ("127.0.0.2", "127.0.0.3")]
        waiting = [
            asyncio.create_task(sites[number % 2].post(call("wait", {"name": "a"}, id=number), ada))
            for number in range(SHARE)
        ]
        async with asyncio.timeout(TIMEOUT_S):
            while (await ask("POST", "/mcp", bob, call("history"))).body.count(b"start a") < SHARE:
                await asyncio.sleep(0.02)
        assert (await ask("GET", "/health", ada)).status == 503
        assert (await ask("POST", "/mcp", bob, call("open_door", {"name": "a"}))).status == 200
        assert {(await answer).status for answer in waiting} == {200}


async def ask(instance: RunningServer, key: Key, **more: Any) -> Any:
    body, headers = modern_request(
        "tools/call", {"name": "greet", "arguments": {}, **more}, capabilities={"elicitation": {}}
    )
    return (await instance.site.post(body, headers | key)).json


async def test_rounds_of_one_caller_evict_only_its_own(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (instance, ada, bob):
        bobs = (await ask(instance, bob))["result"]
        first = (await ask(instance, ada))["result"]
        for _ in range(2 * LIMIT):
            assert (await ask(instance, ada))["result"]["resultType"] == "input_required"
        key = next(iter(bobs["inputRequests"]))
        answers = {key: {"action": "accept", "content": {"name": "Bob"}}}
        gone = await ask(instance, ada, requestState=first["requestState"], inputResponses=answers)
        assert "start again" in gone["error"]["message"]
        answered = await ask(instance, bob, requestState=bobs["requestState"], inputResponses=answers)
        assert answered["result"]["content"][0]["text"] == "Hello, Bob!"


async def test_subscriptions(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (instance, ada, bob), AsyncExitStack() as stack:
        instance.server.broadcaster.subscription_shares.limit = LIMIT
        body, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})

        async def listen(key: Key) -> str:
            stream = await stack.enter_async_context(instance.site.stream("POST", "/mcp", headers | key, body))
            return str((await stream.message())["method"]) if stream.status == 200 else f"status {stream.status}"

        acknowledged = "notifications/subscriptions/acknowledged"
        assert [await listen(ada) for _ in range(LIMIT)] == [acknowledged] * SHARE + ["status 503"] * (LIMIT - SHARE)
        assert await listen(bob) == acknowledged


async def test_threads_of_synchronous_tools(tmp_path: Path) -> None:
    server = make_server()
    server.threads = Threads(LIMIT)
    doors, started = {"ada": threading.Event(), "bob": threading.Event()}, []

    @server.tool
    def block(name: str) -> str:
        started.append(name)
        doors[name].wait(TIMEOUT_S)
        return name

    async with two_callers(tmp_path, server) as (instance, ada, bob):
        calls = [call("block", {"name": "ada"}, id=number) for number in range(2 * LIMIT)]
        waiting = [asyncio.create_task(instance.site.post(body, ada)) for body in calls]
        try:
            await wait_until(lambda: started.count("ada") == SHARE)
            doors["bob"].set()
            assert (await instance.site.post(call("block", {"name": "bob"}), bob)).status == 200
            assert started.count("ada") == SHARE
            waiting.pop().cancel()
        finally:
            doors["ada"].set()
        assert {(await answer).status for answer in waiting} == {200}
        await wait_until(lambda: not server.threads.is_running)
