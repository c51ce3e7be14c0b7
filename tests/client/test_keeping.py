"""One server that is kept connected."""

import asyncio

import psutil
import pytest
from tests.client.ends import nothing_left, odd
from tests.clock import until

from hubbub import Client, ConnectionClosed, ServerConfig, TransportError
from hubbub.client.keeping import Keeper
from hubbub.pack.http import Backoff

BROKEN = ServerConfig(id="broken", command="no-such-program-here")


def keeper(config: ServerConfig, wait_s: float = 3600.0) -> Keeper:
    return Keeper(config.id, lambda: Client(config), backoff=Backoff((wait_s,), jitter=0))


async def test_it_connects_when_first_asked_and_all_who_ask_share_that() -> None:
    async with nothing_left():
        kept = keeper(odd("sane"))
        assert not kept.is_started
        first, second = await asyncio.gather(kept.ready(), kept.ready())
        assert first is second is kept.client
        await kept.close()
        with pytest.raises(ConnectionClosed):
            await kept.ready()


async def test_who_needs_it_now_does_not_wait_for_the_next_try() -> None:
    async with nothing_left():
        kept = keeper(odd("exit-after-answer"))
        client = await kept.ready()
        await client.list_tools()
        await client.wait_lost()
        again = await asyncio.wait_for(kept.ready(), 60)
        assert again is not client
        await kept.close()


async def test_a_try_that_fails_is_told_to_those_who_waited_for_it() -> None:
    async with nothing_left():
        kept = keeper(BROKEN)
        for _ in range(2):
            with pytest.raises(TransportError, match="cannot be started"):
                await asyncio.wait_for(kept.ready(), 60)
        await until(lambda: kept.retry_at is not None)
        assert kept.client is None
        await kept.close()


async def test_closing_ends_the_wait_of_those_who_ask() -> None:
    async with nothing_left():
        kept = keeper(odd("silent", timeout_s=600, protocol_version="2026-07-28"))
        asking = asyncio.create_task(kept.ready())
        before = psutil.Process().children()
        await until(lambda: len(psutil.Process().children()) > len(before))
        await kept.close()
        with pytest.raises(ConnectionClosed):
            await asking
