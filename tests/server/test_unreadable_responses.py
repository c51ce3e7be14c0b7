"""Responses to client requests that cannot be parsed: the request fails at once, and no call of the client does."""

import asyncio
import json
import os
from typing import Any

import pytest
from tests.server.asking_server import AskingServer, call
from tests.server.raw_client import ALL_CAPABILITIES, connect_raw_client

from hubbub import Context, RemoteError, Server
from hubbub.protocol.framing import encode_frame
from hubbub.transports import stdio

VERSION = "2025-11-25"
LIMIT = 100_000
WAIT_S = 60.0
START = b'{"jsonrpc":"2.0","id":1,"result":'
END = b',"jsonrpc":"2.0","id":1}'
UNREADABLE = {
    "not a number": START + b'{"action":NaN}}',
    "not UTF-8": START + b'{"action":"\xff"}}',
    "too deep": START + b"[" * 300 + b"]" * 300 + b"}",
    "too deep, id at the end": b'{"result":' + b"[" * 300 + b"]" * 300 + END,
    "an error": b'{"jsonrpc":"2.0","id":1,"error":{"code":NaN}}',
    "no version": b'{"id":1,"result":{"action":"cancel"}}',
    "no id": b'{"jsonrpc":"2.0","result":{"action":NaN}}',
    "the id is a text": b'{"jsonrpc":"2.0","id":"1","result":NaN}',
}
TEXT = b'{"action":"' + b"x" * 2 * LIMIT + b'"}'
TOO_LONG = {
    "id at the start": START + TEXT + b"}",
    "id at the end": b'{"result":' + TEXT + END,
    "no id": b'{"jsonrpc":"2.0","result":' + TEXT + b"}",
}


def failure(answer: Any) -> str:
    """Return the error message of the call with the id 1."""
    assert (answer["id"], answer["result"]["isError"]) == (1, True), answer
    return str(json.loads(answer["result"]["content"][0]["text"])["error"]["message"])


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=list(UNREADABLE))
async def test_an_unreadable_response_fails_the_client_request_and_not_the_call_with_its_id(data: bytes) -> None:
    async with connect_raw_client(AskingServer().server, VERSION) as client:
        client.send_request("tools/call", call("greet"), id=1)
        assert (await client.next_message())["id"] == 1
        client.send(data)
        refusal = await client.next_message()
        assert (refusal["id"], "error" in refusal) == (None, True)
        assert failure(await client.next_message()).startswith("The client's response cannot be read: ")


async def test_an_unreadable_response_raises_a_client_error_in_the_tool() -> None:
    server = Server("catching")

    @server.tool
    async def write(ctx: Context) -> str:
        try:
            await ctx.sample("Write a word")
        except RemoteError as error:
            return f"{error.code} {error.message}"
        return "sampled"

    async with connect_raw_client(server, VERSION) as client:
        client.send_request("tools/call", call("write"), id=1)
        await client.next_message()
        client.send(START + b"NaN}")
        answer = await client.response_to(1)
        assert answer["result"]["content"][0]["text"].startswith(
            "-32700 The client's response cannot be read: Parse error"
        )


async def test_only_the_client_request_with_the_id_fails() -> None:
    async with connect_raw_client(AskingServer().server, VERSION) as client:
        for number in (1, 2):
            client.send_request("tools/call", call("greet"), id=number)
            assert (await client.next_message())["id"] == number
        client.send(START + b"NaN}")
        assert (await client.next_message())["id"] is None
        failure(await client.next_message())
        client.send({"jsonrpc": "2.0", "id": 2, "result": {"action": "decline"}})
        assert (await client.next_message())["result"]["content"][0]["text"] == "decline"


async def test_an_unreadable_response_to_no_open_request_gets_no_error_with_its_id() -> None:
    async with connect_raw_client(AskingServer().server, VERSION) as client:
        client.send_request("tools/call", call("greet"), id=7)
        question = await client.next_message()
        client.send(b'{"jsonrpc":"2.0","id":7,"result":NaN}')
        assert (await client.next_message())["id"] is None
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        assert (await client.next_message())["id"] == 7


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"result":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"params":{"error":NaN},"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1}',
    ],
)
async def test_an_unreadable_request_is_refused_under_its_id_and_fails_no_client_request(data: bytes) -> None:
    async with connect_raw_client(AskingServer().server, VERSION) as client:
        client.send_request("tools/call", call("greet"), id=7)
        assert (await client.next_message())["id"] == 1
        client.send(data)
        refusal = await client.next_message()
        assert (refusal["id"], "error" in refusal) == (1, True)
        client.send({"jsonrpc": "2.0", "id": 1, "result": {"action": "decline"}})
        assert (await client.next_message())["result"]["content"][0]["text"] == "decline"


async def test_an_unreadable_response_in_a_batch_fails_its_client_request() -> None:
    async with connect_raw_client(AskingServer().server, "2025-03-26") as client:
        client.send_request("tools/call", call("everything"), id=1)
        assert (await client.next_message())["id"] == 1
        client.send(b'[{"id":1,"result":{}},{"jsonrpc":"2.0","id":2,"method":"ping"}]')
        received = [await client.next_message(), await client.next_message()]
        (answered,) = [one for one in received if isinstance(one, dict)]
        (batch,) = [one for one in received if isinstance(one, list)]
        assert "cannot be read" in failure(answered)
        assert {one["id"] for one in batch} == {None, 2}


@pytest.mark.parametrize("is_framed", [False, True])
@pytest.mark.parametrize("data", TOO_LONG.values(), ids=list(TOO_LONG))
async def test_an_oversized_response_fails_its_client_request(data: bytes, is_framed: bool) -> None:
    source, entrance = os.pipe()
    exit_, sink = os.pipe()
    loop = asyncio.get_running_loop()

    async def serve() -> None:
        async with AskingServer().server.in_memory() as connect:
            await stdio.serve(connect, source, sink, asyncio.Event(), limit=LIMIT)

    serving = loop.create_task(serve())
    with os.fdopen(entrance, "wb", buffering=0) as writer, os.fdopen(exit_, "rb") as reader:

        async def send(message: bytes) -> None:
            await asyncio.to_thread(writer.write, encode_frame(message) if is_framed else message + b"\n")

        def read() -> Any:
            line = reader.readline()
            if line.startswith(b"Content-Length"):
                reader.readline()
                line = reader.read(int(line.split(b":")[1]))
            return json.loads(line)

        async def ask(method: str, params: Any) -> Any:
            await send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
            return await asyncio.to_thread(read)

        try:
            async with asyncio.timeout(WAIT_S):
                info = {"name": "test", "version": "1"}
                await ask(
                    "initialize", {"protocolVersion": VERSION, "capabilities": ALL_CAPABILITIES, "clientInfo": info}
                )
                assert (await ask("tools/call", call("greet")))["method"] == "elicitation/create"
                await send(data)
                assert (await asyncio.to_thread(read))["id"] is None
                assert f"larger than the limit of {LIMIT} bytes" in failure(await asyncio.to_thread(read))
        finally:
            writer.close()
            await serving  # which ends the output, and so a thread that still reads it
