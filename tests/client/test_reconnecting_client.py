"""`ReconnectingClient` keeps one server connected."""

import asyncio

import psutil
import pytest
from tests.client.harness import assert_no_leaks, odd_server_config
from tests.clock import wait_until

from hubbub import Client, ConnectionClosed, ServerConfig, TransportError
from hubbub.client.reconnecting_client import ReconnectingClient
from hubbub.pack.http import Backoff

BROKEN = ServerConfig(id="broken", command="no-such-program-here")


def make_connection(config: ServerConfig, wait_s: float = 3600.0) -> ReconnectingClient:
    return ReconnectingClient(config.id, lambda: Client(config), backoff=Backoff((wait_s,), jitter=0))


async def test_the_first_request_connects_and_concurrent_requests_share_the_connection() -> None:
    async with assert_no_leaks():
        connection = make_connection(odd_server_config("sane"))
        assert not connection.is_started
        first, second = await asyncio.gather(connection.get_client(), connection.get_client())
        assert first is second is connection.client
        await connection.close()
        with pytest.raises(ConnectionClosed):
            await connection.get_client()


async def test_a_request_reconnects_at_once_without_waiting_for_the_backoff() -> None:
    async with assert_no_leaks():
        connection = make_connection(odd_server_config("exit-after-answer"))
        client = await connection.get_client()
        await client.list_tools()
        await client.wait_lost()
        again = await asyncio.wait_for(connection.get_client(), 60)
        assert again is not client
        await connection.close()


async def test_a_failed_attempt_is_reported_to_all_waiting_requests() -> None:
    async with assert_no_leaks():
        connection = make_connection(BROKEN)
        for _ in range(2):
            with pytest.raises(TransportError, match="cannot be started"):
                await asyncio.wait_for(connection.get_client(), 60)
        await wait_until(lambda: connection.retry_at is not None)
        assert connection.client is None
        await connection.close()


async def test_closing_fails_waiting_requests() -> None:
    async with assert_no_leaks():
        connection = make_connection(odd_server_config("silent", timeout_s=600, protocol_version="2026-07-28"))
        getting = asyncio.create_task(connection.get_client())
        before = psutil.Process().children()
        await wait_until(lambda: len(psutil.Process().children()) > len(before))
        await connection.close()
        with pytest.raises(ConnectionClosed):
            await getting
