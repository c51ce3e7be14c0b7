"""A credential that is withdrawn ends everything that its owner has open, and nothing of anybody else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import websockets
from tests.http.eras import modern, open_session
from tests.http.in_process import Running, running
from tests.http.keyring import Keyring
from tests.http.wire import PATIENCE_S, EventStream, call, request

Key = dict[str, str]
ALL_OPEN = {"notifications": {"toolsListChanged": True}}


@asynccontextmanager
async def two_callers(folder: Path) -> AsyncIterator[tuple[Running, Keyring, Key, Key]]:
    ring = Keyring(folder / "keys.toml")
    ada, bob = ring.add("ada"), ring.add("bob")
    async with running(key_file=str(ring.path)) as here:
        yield here, ring, ada, bob


async def ends(stream: EventStream) -> None:
    """Wait until the stream has ended in good order."""
    while await stream.next() is not None:
        pass


async def noted(here: Running, caller: Key, what: str) -> None:
    """Wait until a tool of the playground has noted something."""
    async with asyncio.timeout(PATIENCE_S):
        while what not in (await here.site.post(call("history"), caller)).body.decode():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_an_open_stream_ends_and_another_caller_s_goes_on(tmp_path: Path, path: str) -> None:
    async with two_callers(tmp_path) as (here, ring, ada, bob):
        async with (
            here.site.stream("GET", path, ada) as lost,
            here.site.stream("GET", path, bob) as kept,
        ):
            assert (lost.status, kept.status) == (200, 200)
            if path == "/sse":
                first = await kept.next()
                assert first is not None
                assert first.event == "endpoint"
            ring.withdraw("ada")
            await ends(lost)
            if path == "/mcp":
                await here.site.post(call("add_tool", {"name": "late"}), bob)
                assert (await kept.message())["method"] == "notifications/tools/list_changed"
            else:
                assert len(here.server.audience) == 1
        assert (await here.site.get("/health", ada)).status == 401


async def test_a_listen_stream_ends(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (here, ring, ada, _):
        body, headers = modern("subscriptions/listen", ALL_OPEN)
        async with here.site.stream("POST", "/mcp", headers | ada, body) as stream:
            assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
            ring.withdraw("ada")
            await ends(stream)


async def test_a_call_that_streams_is_cancelled_with_its_stream(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (here, ring, ada, bob):
        session = await open_session(here.site, headers=ada)
        async with session.call(call("wait_streaming", {"name": "a"}, token="t")) as stream:
            assert (await stream.message())["method"] == "notifications/progress"
            ring.withdraw("ada")
            await ends(stream)
        await noted(here, bob, "cancelled a")


async def test_a_running_call_without_a_stream_gets_401(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (here, ring, ada, bob):
        waiting = asyncio.create_task(here.site.post(call("wait", {"name": "a"}), ada))
        await noted(here, bob, "start a")
        ring.withdraw("ada")
        answer = await waiting
        assert answer.status == 401
        assert answer.header("www-authenticate") is not None


async def test_a_websocket_is_closed_for_policy(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (here, ring, ada, bob):
        address = f"ws://127.0.0.1:{here.site.port}/mcp-ws"
        async with (
            websockets.connect(address, additional_headers=ada) as lost,
            websockets.connect(address, additional_headers=bob) as kept,
        ):
            ring.withdraw("ada")
            with pytest.raises(websockets.ConnectionClosed):
                async with asyncio.timeout(PATIENCE_S):
                    await lost.recv()
            assert lost.close_code == 1008
            await kept.send('{"jsonrpc":"2.0","id":1,"method":"ping"}')
            assert await kept.recv() == '{"jsonrpc":"2.0","id":1,"result":{}}'


async def test_idle_sessions_and_suspended_exchanges_end(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (here, ring, ada, bob):
        await open_session(here.site, headers=ada)
        kept = await open_session(here.site, headers=bob)
        body, headers = modern("tools/call", {"name": "greet", "arguments": {}}, capabilities={"elicitation": {}})
        assert (await here.site.post(body, headers | ada)).json["result"]["resultType"] == "input_required"
        ring.withdraw("ada")
        async with asyncio.timeout(PATIENCE_S):
            while len(here.server.rounds) or b"hubbub_sessions 1.0" not in (await here.site.get("/metrics", bob)).body:
                await asyncio.sleep(0.02)
        assert (await kept.post(request("ping"))).status == 200


@pytest.mark.parametrize("change", ["new secret", "new scopes"])
async def test_a_key_that_was_replaced_ends_what_the_old_one_opened(tmp_path: Path, change: str) -> None:
    async with two_callers(tmp_path) as (here, ring, ada, _):
        async with here.site.stream("GET", "/mcp", ada) as stream:
            assert stream.status == 200
            if change == "new secret":
                ada = ring.add("ada")
            else:
                ring.rescope("ada", ("more",))
            await ends(stream)
        async with here.site.stream("GET", "/mcp", ada) as again:
            assert again.status == 200
