"""Unreadable responses to client requests, over HTTP: the request fails at once, no call of the client does."""

import asyncio
import json
from typing import Any

import pytest
from tests.http.eras import ALL_CAPABILITIES, initialize_request, open_session
from tests.http.raw_http import TIMEOUT_S, Site, call
from websockets.asyncio.client import ClientConnection, connect


async def read_message(socket: ClientConnection) -> Any:
    async with asyncio.timeout(TIMEOUT_S):
        return json.loads(await socket.recv())


async def exchange(socket: ClientConnection, message: Any) -> Any:
    await socket.send(message if isinstance(message, str) else json.dumps(message))
    return await read_message(socket)


@pytest.mark.parametrize("result", [b"NaN", b'"\xff"', b"[" * 300 + b"]" * 300], ids=["NaN", "UTF-8", "depth"])
async def test_an_unreadable_response_fails_the_client_request_and_not_the_call(
    playground: Site, result: bytes
) -> None:
    session = await open_session(playground, capabilities=ALL_CAPABILITIES)
    async with session.call(call("greet", id=1)) as stream:
        assert (await stream.message())["id"] == 1
        refused = await session.post(b'{"jsonrpc":"2.0","id":1,"result":' + result + b"}")
        assert (refused.status, refused.json["id"]) == (400, None)
        last = await stream.message()
        assert (last["id"], last["result"]["isError"]) == (1, True)
        assert "The client's response cannot be read: Parse error" in json.dumps(last)


async def test_an_unreadable_response_in_a_batch_fails_its_client_request(playground: Site) -> None:
    session = await open_session(playground, "2025-03-26", ALL_CAPABILITIES)
    async with session.call(call("write", id=1)) as stream:
        assert (await stream.message())["id"] == 1
        refused = await session.post([{"id": 1, "result": {}}])
        assert (refused.status, refused.json[0]["id"]) == (200, None)
        assert "The client's response cannot be read" in json.dumps(await stream.message())


async def test_an_unreadable_response_outside_of_the_session_fails_nothing(playground: Site) -> None:
    session = await open_session(playground, capabilities=ALL_CAPABILITIES)
    async with session.call(call("greet")) as stream:
        question = await stream.message()
        refused = await playground.post(b'{"jsonrpc":"2.0","id":%d,"result":NaN}' % question["id"])
        assert (refused.status, refused.json["id"]) == (400, None)
        await session.post({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        assert (await stream.message())["result"]["content"][0]["text"] == "decline"


async def test_over_a_websocket_an_unreadable_response_fails_the_client_request_and_not_the_call(
    playground: Site,
) -> None:
    async with connect(f"ws://127.0.0.1:{playground.port}/mcp-ws") as socket:
        await exchange(socket, initialize_request(capabilities={"elicitation": {}}))
        assert (await exchange(socket, call("greet", id=1)))["id"] == 1
        assert (await exchange(socket, '{"jsonrpc":"2.0","id":1,"result":NaN}'))["id"] is None
        failed = await read_message(socket)
        assert (failed["id"], failed["result"]["isError"]) == (1, True)
        assert "The client's response cannot be read" in json.dumps(failed)
