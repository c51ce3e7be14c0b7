"""Keys of client requests that one handler sends at the same time."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from tests.server.raw_transport import RawTransport

from hubbub import Context, Server


class Name(msgspec.Struct):
    name: str


async def call(link: RawTransport, **params: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "names", "_meta": meta, **params}}
    link.send(json.dumps(message).encode())
    result: dict[str, Any] = json.loads(await link.receive())["result"]
    return result


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ([None, None], ["input_1", "input_2"]),
        (["who", "who", "who"], ["who", "who_2", "who_3"]),
        (["one", None, "two"], ["one", "input_2", "two"]),
    ],
)
def test_open_input_requests_have_different_keys(keys: list[str | None], named: list[str]) -> None:
    async def scenario() -> None:
        server = Server("asking")

        @server.tool
        async def names(context: Context) -> str:
            answers = await asyncio.gather(*(context.elicit("Who?", Name, key=key) for key in keys))
            return " ".join(answer.content.name for answer in answers if answer.content is not None)

        async with server.running(), RawTransport(server) as link:
            asked = await call(link)
            assert list(asked["inputRequests"]) == named
            responses = {key: {"action": "accept", "content": {"name": key}} for key in named}
            answered = await call(link, inputResponses=responses, requestState=asked["requestState"])
            assert answered["content"][0]["text"] == " ".join(named)

    asyncio.run(scenario())
