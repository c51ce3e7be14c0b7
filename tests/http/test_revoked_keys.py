"""Revoking a credential ends everything that its owner has open, and nothing of other callers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import websockets
from tests.http.eras import modern_request, open_session
from tests.http.in_process_server import RunningServer, run_server
from tests.http.keyring import Keyring
from tests.http.raw_http import TIMEOUT_S, EventStream, call, request

Key = dict[str, str]
ALL_OPEN = {"notifications": {"toolsListChanged": True}}


@asynccontextmanager
async def two_callers(folder: Path) -> AsyncIterator[tuple[RunningServer, Keyring, Key, Key]]:
    ring = Keyring(folder / "keys.toml")
    ada, bob = ring.add("ada"), ring.add("bob")
    async with run_server(key_file=str(ring.path)) as instance:
        yield instance, ring, ada, bob


async def wait_for_end(stream: EventStream) -> None:
    """Wait until the stream has ended cleanly."""
    while await stream.next() is not None:
        pass


async def wait_for_history(instance: RunningServer, caller: Key, what: str) -> None:
    """Wait until a tool of the playground has recorded this entry."""
    async with asyncio.timeout(TIMEOUT_S):
        while what not in (await instance.site.post(call("history"), caller)).body.decode():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_revocation_ends_the_callers_open_stream_and_no_others(tmp_path: Path, path: str) -> None:
    async with two_callers(tmp_path) as (instance, ring, ada, bob):
        async with (
            instance.site.stream("GET", path, ada) as lost,
            instance.site.stream("GET", path, bob) as kept,
        ):
            assert (lost.status, kept.status) == (200, 200)
            if path == "/sse":
                first = await kept.next()
                assert first is not None
                assert first.event == "endpoint"
            ring.revoke("ada")
            await wait_for_end(lost)
            if path == "/mcp":
                await instance.site.post(call("add_tool", {"name": "late"}), bob)
                assert (await kept.message())["method"] == "notifications/tools/list_changed"
            else:
                assert len(instance.server.broadcaster) == 1
        assert (await instance.site.get("/health", ada)).status == 401


async def test_revocation_ends_a_listen_stream(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (instance, ring, ada, _):
        body, headers = modern_request("subscriptions/listen", ALL_OPEN)
        async with instance.site.stream("POST", "/mcp", headers | ada, body) as stream:
            assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
            ring.revoke("ada")
            await wait_for_end(stream)


async def test_revocation_cancels_a_streaming_call(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (instance, ring, ada, bob):
        session = await open_session(instance.site, headers=ada)
        async with session.call(call("wait_streaming", {"name": "a"}, token="t")) as stream:
            assert (await stream.message())["method"] == "notifications/progress"
            ring.revoke("ada")
            await wait_for_end(stream)
        await wait_for_history(instance, bob, "cancelled a")


async def test_revocation_answers_a_running_call_without_a_stream_with_401(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (instance, ring, ada, bob):
        waiting = asyncio.create_task(instance.site.post(call("wait", {"name": "a"}), ada))
        await wait_for_history(instance, bob, "start a")
        ring.revoke("ada")
        answer = await waiting
        assert answer.status == 401
        assert answer.header("www-authenticate") is not None


async def test_a_revoked_key_is_refused_on_a_connection_on_which_it_was_accepted(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (instance, ring, ada, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", instance.site.port)
        key = "".join(f"{name}: {value}\r\n" for name, value in ada.items())
        repeated = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}Content-Length: 0\r\n\r\n".encode()

        async def read_status() -> int:
            writer.write(repeated)
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            return int(head.split()[1])

        try:
            assert [await read_status() for _ in range(3)] == [200, 200, 200]
            ring.revoke("ada")
            async with asyncio.timeout(TIMEOUT_S):
                while await read_status() == 200:
                    await asyncio.sleep(0.02)
            assert await read_status() == 401
        finally:
            writer.close()
            await writer.wait_closed()


async def test_revocation_closes_a_websocket_as_a_policy_violation(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (instance, ring, ada, bob):
        address = f"ws://127.0.0.1:{instance.site.port}/mcp-ws"
        async with (
            websockets.connect(address, additional_headers=ada) as lost,
            websockets.connect(address, additional_headers=bob) as kept,
        ):
            ring.revoke("ada")
            with pytest.raises(websockets.ConnectionClosed):
                async with asyncio.timeout(TIMEOUT_S):
                    await lost.recv()
            assert lost.close_code == 1008
            await kept.send('{"jsonrpc":"2.0","id":1,"method":"ping"}')
            assert await kept.recv() == '{"jsonrpc":"2.0","id":1,"result":{}}'


async def test_revocation_ends_idle_sessions_and_suspended_rounds(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (instance, ring, ada, bob):
        await open_session(instance.site, headers=ada)
        kept = await open_session(instance.site, headers=bob)
        body, headers = modern_request(
            "tools/call", {"name": "greet", "arguments": {}}, capabilities={"elicitation": {}}
        )
        assert (await instance.site.post(body, headers | ada)).json["result"]["resultType"] == "input_required"
        ring.revoke("ada")
        async with asyncio.timeout(TIMEOUT_S):
            while (
                len(instance.server.rounds)
                or b"hubbub_sessions 1.0" not in (await instance.site.get("/metrics", bob)).body
            ):
                await asyncio.sleep(0.02)
        assert (await kept.post(request("ping"))).status == 200


@pytest.mark.parametrize("change", ["new secret", "new scopes"])
async def test_replacing_a_key_ends_the_connections_of_the_old_one(tmp_path: Path, change: str) -> None:
    async with two_callers(tmp_path) as (instance, ring, ada, _):
        async with instance.site.stream("GET", "/mcp", ada) as stream:
            assert stream.status == 200
            if change == "new secret":
                ada = ring.add("ada")
            else:
                ring.set_scopes("ada", ("more",))
            await wait_for_end(stream)
        async with instance.site.stream("GET", "/mcp", ada) as again:
            assert again.status == 200
