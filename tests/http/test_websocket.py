"""`/mcp-ws`: subprotocol, messages in both directions, pings, limits and authentication."""

import asyncio
import json
import socket as sockets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.http.eras import MODERN, initialize_request, modern_request
from tests.http.in_process_server import run_server, wait_until
from tests.http.raw_http import TIMEOUT_S, Site, call, request
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hubbub import bounds
from hubbub.security.api_keys import append_record, generate_key


@asynccontextmanager
async def open_websocket(site: Site, **options: Any) -> AsyncIterator[ClientConnection]:
    options.setdefault("subprotocols", ["mcp.v1"])
    path = options.pop("path", "/mcp-ws")
    async with connect(f"ws://127.0.0.1:{site.port}{path}", open_timeout=TIMEOUT_S, **options) as socket:
        yield socket


async def exchange(socket: ClientConnection, message: Any) -> Any:
    await socket.send(message if isinstance(message, str | bytes) else json.dumps(message))
    return await read_message(socket)


async def read_message(socket: ClientConnection) -> Any:
    async with asyncio.timeout(TIMEOUT_S):
        return json.loads(await socket.recv())


async def test_the_subprotocol_is_accepted_and_every_era_is_served(playground: Site) -> None:
    async with open_websocket(playground, subprotocols=["other", "mcp.v1"]) as socket:
        assert socket.subprotocol == "mcp.v1"
        assert socket.response is not None
        assert socket.response.headers["X-MCP-Version"] == "1.0.0"
        assert (await exchange(socket, request("echo", {"text": "x"})))["result"] == {"echo": "x"}
        body, _ = modern_request("server/discover")
        assert (await exchange(socket, body))["result"]["supportedVersions"] == [MODERN]
        assert (await exchange(socket, initialize_request("2025-06-18")))["result"]["protocolVersion"] == "2025-06-18"
        assert (await exchange(socket, request("echo", {"text": "x"})))["error"]["code"] == -32601
        await socket.send(json.dumps(call("count", {"to": 2}, token=1)).encode())
        messages = [await read_message(socket) for _ in range(3)]
        assert [one.get("method", one.get("id")) for one in messages] == ["notifications/progress"] * 2 + [1]


async def test_a_client_may_offer_no_subprotocol(playground: Site) -> None:
    async with open_websocket(playground, subprotocols=None) as socket:
        assert socket.subprotocol is None
        assert (await exchange(socket, request("ping")))["result"] == {}


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"subprotocols": ["mcp.v2"]}, 400),
        ({"subprotocols": ["MCP.V1", "graphql-ws"]}, 400),
        ({"path": "/mcp"}, 404),
        ({"path": "/"}, 404),
        ({"origin": "https://evil.example"}, 403),
        ({"additional_headers": {"X-MCP-Version": "2.0.0"}}, 400),
    ],
    ids=str,
)
async def test_a_wrong_handshake_is_refused(playground: Site, options: dict[str, Any], status: int) -> None:
    with pytest.raises(InvalidStatus) as caught:
        async with open_websocket(playground, **options):
            pass
    assert caught.value.response.status_code == status
    assert caught.value.response.headers["X-MCP-Version"] == "1.0.0"


async def test_an_upgrade_without_a_websocket_key_is_refused(playground: Site) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
    read_message = await playground.get("/mcp-ws", headers)
    assert read_message.status in (400, 426)


async def test_a_wrong_host_is_refused(playground: Site) -> None:
    async with playground.connect() as link:
        await link.send(
            b"GET /mcp-ws HTTP/1.1\r\nHost: evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert (await link.read_head())[0] == 403


async def test_only_authenticated_callers_may_connect_and_have_their_principal(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    key, record = generate_key("ada")
    append_record(keys, record)
    async with run_server(key_file=str(keys)) as instance:
        for headers in (
            {},
            {"X-API-Key": key[:-1] + ("1" if key[-1] == "0" else "0")},
            {"Authorization": "Bearer none"},
        ):
            with pytest.raises(InvalidStatus) as caught:
                async with open_websocket(instance.site, additional_headers=headers):
                    pass
            assert caught.value.response.status_code == 401
            assert "WWW-Authenticate" in caught.value.response.headers
        async with open_websocket(instance.site, additional_headers={"X-API-Key": key}) as socket:
            assert (await exchange(socket, request("who")))["result"]["principal"] == "key:ada"
            await exchange(socket, initialize_request())
            who = await exchange(socket, call("who"))
            assert who["result"]["structuredContent"]["principal"] == "key:ada"


async def test_clients_do_not_share_their_state(playground: Site) -> None:
    async with open_websocket(playground) as one, open_websocket(playground) as two:
        scopes = {(await exchange(socket, request("who")))["result"]["scope"] for socket in (one, two)}
    assert len(scopes) == 2
    assert "process" not in scopes


async def test_pings_are_answered_and_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "KEEP_ALIVE_S", 0.2)
    async with run_server() as instance, open_websocket(instance.site, ping_interval=None) as socket:
        pings: list[bytes] = []
        monkeypatch.setattr(socket.protocol, "recv_frame", record_pings(socket.protocol.recv_frame, pings))
        async with asyncio.timeout(TIMEOUT_S):
            await (await socket.ping())
        await wait_until(lambda: len(pings) >= 2)
        assert (await exchange(socket, request("ping")))["result"] == {}


def record_pings(recv_frame: Any, pings: list[bytes]) -> Any:
    def recv(frame: Any) -> None:
        if frame.opcode.name == "PING":
            pings.append(frame.data)
        recv_frame(frame)

    return recv


@pytest.mark.parametrize("frame", ["", "{", "[]", "null", b"\xff\xfe", '{"jsonrpc":"2.0"}', '{"id":' * 200])
async def test_invalid_messages_get_an_error_and_the_connection_stays_open(
    playground: Site, frame: str | bytes
) -> None:
    async with open_websocket(playground) as socket:
        assert (await exchange(socket, frame))["error"]["code"] in (-32700, -32600)
        assert (await exchange(socket, request("ping")))["result"] == {}


async def test_a_text_frame_that_is_not_utf8_closes_the_connection(playground: Site) -> None:
    async with open_websocket(playground) as socket:
        await socket.send(b"\xff\xfe", text=True)
        with pytest.raises(ConnectionClosed):
            await read_message(socket)
        assert socket.close_code == 1007


@pytest.mark.parametrize("is_fragmented", [False, True])
async def test_a_too_large_message_closes_only_its_own_connection(is_fragmented: bool) -> None:
    async with (
        run_server(max_message_bytes=4096) as instance,
        open_websocket(instance.site) as other,
        open_websocket(instance.site) as socket,
    ):
        half = json.dumps(request("echo", {"text": "x" * 2500}))
        assert (await exchange(socket, half))["result"]["echo"]
        await socket.send([half, half] if is_fragmented else half * 2)
        with pytest.raises(ConnectionClosed):
            await read_message(socket)
        assert socket.close_code == 1009
        assert (await exchange(other, request("ping")))["result"] == {}


async def test_compression_is_not_accepted_and_a_large_message_is_refused() -> None:
    async with (
        run_server(max_message_bytes=100_000) as instance,
        open_websocket(instance.site, compression="deflate") as socket,
    ):
        assert socket.response is not None
        assert "Sec-WebSocket-Extensions" not in socket.response.headers
        await socket.send("x" * 200_000)
        with pytest.raises(ConnectionClosed):
            await read_message(socket)
        assert socket.close_code == 1009


async def test_sessions_are_notified_of_changes(playground: Site) -> None:
    async with open_websocket(playground) as socket:
        await exchange(socket, initialize_request())
        await playground.post(call("add_tool", {"name": "for_sockets"}))
        assert (await read_message(socket))["params"]["toolName"] == "for_sockets"
    await playground.post(call("drop_tool", {"name": "for_sockets"}))


async def test_a_client_request_is_answered_on_the_same_connection(playground: Site) -> None:
    async with open_websocket(playground) as socket:
        await exchange(socket, initialize_request(capabilities={"elicitation": {}}))
        question = await exchange(socket, call("greet", id="g"))
        accepted = {"action": "accept", "content": {"name": "Ada"}}
        said = await exchange(socket, {"jsonrpc": "2.0", "id": question["id"], "result": accepted})
        assert (said["id"], said["result"]["content"][0]["text"]) == ("g", "Hello, Ada!")


@pytest.mark.parametrize("politely", [True, False])
async def test_a_client_that_disconnects_cancels_its_calls(politely: bool) -> None:
    async with run_server() as instance:
        before = await instance.count_resources()
        async with open_websocket(instance.site) as socket:
            await socket.send(json.dumps(call("wait", {"name": "a"})))
            await instance.wait_for_history("start a")
            if politely:
                await socket.close()
            else:
                socket.transport.abort()
            await instance.wait_for_history("cancelled a")
        await instance.wait_for_count(before)


async def test_connections_beyond_the_limit_are_refused_and_the_others_stay_open() -> None:
    async with run_server(max_streams=2) as instance, open_websocket(instance.site) as one:
        async with open_websocket(instance.site):
            with pytest.raises(InvalidStatus) as caught:
                async with open_websocket(instance.site):
                    pass
            assert caught.value.response.status_code == 503
            assert (await exchange(one, request("ping")))["result"] == {}
        before = await instance.count_resources()
        async with asyncio.timeout(TIMEOUT_S):
            while before.connections > 1:
                before = await instance.count_resources()
        async with open_websocket(instance.site) as again:
            assert (await exchange(again, request("ping")))["result"] == {}


async def test_a_client_that_does_not_read_is_disconnected() -> None:
    async with run_server(slow_reader_s=1.0) as instance, open_websocket(instance.site) as other:
        before = await instance.count_resources()
        raw = sockets.socket()
        raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", instance.site.port))
        async with open_websocket(instance.site, sock=raw, max_queue=1, ping_interval=None, compression=None) as socket:
            await socket.send(json.dumps(call("pour", {"pieces": 2000, "size": 50_000}, token=1)))
            await instance.wait_for_history("poured")
            await instance.wait_for_count(before)
            assert (await exchange(other, request("ping")))["result"] == {}
            socket.transport.abort()
