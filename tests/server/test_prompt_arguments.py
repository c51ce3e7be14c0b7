"""Prompt arguments: always text on the wire, but of the declared type for the function."""

import json
from typing import Any, Literal

from tests.server.raw_transport import RawTransport

from hubbub import Server

server = Server("prompts")


@server.prompt
def review(lines: int, tone: Literal["kind", "strict"] = "kind", deep: bool = False) -> str:
    return repr((lines, tone, deep))


async def get(**arguments: str) -> dict[str, Any]:
    request = {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "review", "arguments": arguments}}
    async with server.running(), RawTransport(server) as link:
        link.send(json.dumps(request).encode())
        answer: dict[str, Any] = json.loads(await link.receive())
        return answer


async def test_a_prompt_gets_its_arguments_as_the_types_it_declared() -> None:
    answer = await get(lines="3", deep="true")
    assert answer["result"]["messages"][0]["content"]["text"] == "(3, 'kind', True)"


async def test_a_prompt_argument_that_is_not_of_its_type_is_refused() -> None:
    error = (await get(lines="many"))["error"]
    assert error["code"] == -32602
    assert "lines" in error["message"]
    assert "tone" in (await get(lines="3", tone="loud"))["error"]["message"]
