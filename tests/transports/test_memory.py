import asyncio

import pytest

from hubbub.app import connector
from hubbub.server.server import Server
from hubbub.transports.memory import MemoryLink

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}'


async def test_a_message_goes_there_and_its_answer_comes_back():
    async with MemoryLink(connector(Server("s"))) as link:
        link.send(PING)
        assert await link.receive() == PONG
        assert link.waiting() == 0


async def test_waiting_for_what_does_not_come_has_an_end():
    async with MemoryLink(connector(Server("s"))) as link:
        with pytest.raises(TimeoutError):
            await link.receive(timeout_s=0.01)


async def test_finishing_answers_what_runs():
    server = Server("s")

    @server.tool
    async def slow() -> str:
        await asyncio.sleep(0.01)
        return "done"

    async with MemoryLink(connector(server)) as link:
        link.send(b'{"jsonrpc":"2.0","id":1,"method":"slow"}')
        await link.finish()
        assert link.waiting() == 1
        assert await link.receive() == b'{"jsonrpc":"2.0","id":1,"result":"done"}'


async def test_leaving_forgets_the_client():
    server = Server("s")
    async with MemoryLink(connector(server)):
        assert len(server.audience) == 1
    assert len(server.audience) == 0
