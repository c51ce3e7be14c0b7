"""Suspended calls that no client resumes: the limit on them, and which are dropped."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from tests.server.raw_transport import RawTransport

from hubbub import Context, Server
from hubbub.rounds import Rounds

LIMIT = 3
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}
ANSWER = {"who": {"action": "accept", "content": {"name": "Ada"}}}


class Name(msgspec.Struct):
    name: str


@contextlib.asynccontextmanager
async def asking(ended: list[str]) -> AsyncIterator[tuple[Server, RawTransport]]:
    server = Server("asking")
    server.rounds = Rounds(server.sealer, limit=LIMIT)

    @server.tool
    async def greet(context: Context) -> str:
        try:
            answer = await context.elicit("Who?", Name, key="who")
        except asyncio.CancelledError:
            ended.append("greet")
            raise
        return f"Hello {answer.content}"

    @server.tool
    async def wait(context: Context) -> str:
        await asyncio.Event().wait()
        return "never"

    async with server.running(), RawTransport(server) as link:
        yield server, link


async def call(link: RawTransport, identifier: int, **params: Any) -> dict[str, Any]:
    send(link, identifier, "greet", **params)
    answer: dict[str, Any] = json.loads(await link.receive())
    assert answer["id"] == identifier
    return answer


def send(link: RawTransport, identifier: int, tool: str, **params: Any) -> None:
    message = {"id": identifier, "method": "tools/call", "params": {"name": tool, "_meta": META, **params}}
    link.send(json.dumps({"jsonrpc": "2.0", **message}).encode())


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0)


def test_the_round_that_has_waited_longest_is_ended_for_a_new_one() -> None:
    async def scenario() -> None:
        ended: list[str] = []
        async with asking(ended) as (server, link):
            states = [(await call(link, number))["result"]["requestState"] for number in range(LIMIT)]
            await call(link, 10, requestState=states[0], inputResponses={"other": {}})
            newest = (await call(link, 11))["result"]["requestState"]
            await until(lambda: ended)
            assert len(server.rounds) == LIMIT
            gone = await call(link, 12, requestState=states[1], inputResponses=ANSWER)
            assert "start again" in gone["error"]["message"]
            for number, state in enumerate((states[2], newest), start=20):
                answered = await call(link, number, requestState=state, inputResponses=ANSWER)
                assert "Ada" in answered["result"]["content"][0]["text"]
            assert ended == ["greet"]

    asyncio.run(scenario())


def test_rounds_whose_handlers_are_running_are_never_ended_for_new_ones() -> None:
    async def scenario() -> None:
        async with asking([]) as (server, link):
            for number in range(LIMIT):
                send(link, number, "wait")
            await until(lambda: len(server.rounds) == LIMIT)
            refused = await call(link, 10)
            assert refused["error"]["data"] == {"reason": "overloaded", "limit": LIMIT}

    asyncio.run(scenario())
