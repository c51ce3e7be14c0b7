"""`Fleet`: servers are connected in parallel within a deadline, and failures are isolated."""

import asyncio
import itertools
from typing import Any

import pytest
from tests.client.harness import assert_no_leaks, odd_server_config
from tests.client.scripted_server import ScriptedRequest, hang, legacy_handler, scripted_server
from tests.clock import advance_clock, wait_until

from hubbub import ConnectionClosed, DeadlineExceeded, Fleet, HubbubError, ServerConfig, SettingsError, TransportError
from hubbub.pack.http import Backoff

BROKEN = ServerConfig(id="broken", command="no-such-program-here")


async def test_a_server_that_is_down_does_not_affect_others() -> None:
    async with (
        assert_no_leaks(),
        Fleet([odd_server_config("sane", id="a"), BROKEN, odd_server_config("sane", id="b")]) as fleet,
    ):
        assert sorted(fleet.clients) == ["a", "b"]
        assert "cannot be started" in str(fleet.errors["broken"])
        tools = await fleet.tools()
        assert {name: [tool.name for tool in found] for name, found in tools.items()} == {
            "a": ["echo", "second"],
            "b": ["echo", "second"],
        }
        await fleet.client("a").call_tool("echo")
        with pytest.raises(TransportError, match="cannot be started"):
            fleet.client("broken")
        with pytest.raises(SettingsError, match="Unknown server 'c'; known: a, b, broken"):
            fleet.client("c")


async def test_servers_connect_concurrently_within_the_deadline() -> None:
    all_connected = asyncio.Barrier(5)

    async def wait_for_all(request: ScriptedRequest) -> None:
        if request.rpc == "initialize":
            await all_connected.wait()
        raise NotImplementedError

    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(wait_for_all)) as server,
        scripted_server(hang) as hanging,
    ):
        fields: dict[str, Any] = {"transport": "http", "protocol_version": "2025-11-25"}
        configs = [ServerConfig(id=f"s{number}", url=server.url, **fields) for number in range(5)]
        configs.append(ServerConfig(id="hanging", url=hanging.url, **fields))
        fleet = Fleet(configs, deadline_s=25, restart=False)
        starting = asyncio.create_task(fleet.start())
        await wait_until(lambda: len(fleet.clients) == 5)
        advance_clock(25)
        async with await starting:
            assert len(fleet.clients) == 5
            assert isinstance(fleet.errors["hanging"], DeadlineExceeded)


async def test_a_server_that_exits_is_reconnected_and_its_last_list_is_kept() -> None:
    async with assert_no_leaks(), Fleet([odd_server_config("exit-after-answer", id="a")]) as fleet:
        first = fleet.client("a")
        assert [tool.name for tool in (await first.list_tools()).tools] == ["echo"]
        await first.wait_lost()
        await wait_until(lambda: "a" in fleet.clients and fleet.client("a") is not first)
        assert "a" not in fleet.errors


async def test_the_last_list_is_returned_while_a_server_fails() -> None:
    lists = itertools.count()

    async def fail_second_list(request: ScriptedRequest) -> None:
        if request.rpc != "tools/list" or next(lists) == 0:
            raise NotImplementedError
        await request.reply(500)

    async with assert_no_leaks(), scripted_server(legacy_handler(fail_second_list)) as server:
        config = ServerConfig(id="s", transport="http", url=server.url, protocol_version="2025-11-25")
        async with Fleet([config]) as fleet:
            assert len((await fleet.tools())["s"]) == 1
            assert len((await fleet.tools())["s"]) == 1
            assert isinstance(fleet.errors["s"], HubbubError)


async def test_a_fleet_needs_unique_names() -> None:
    with pytest.raises(SettingsError, match="'a'"):
        Fleet([odd_server_config("sane", id="a"), {"id": "a", "command": "cat"}])


async def test_a_closed_fleet_stays_closed() -> None:
    async with assert_no_leaks():
        fleet = await Fleet([odd_server_config("sane", id="a")]).start()
        assert await fleet.start() is fleet
        await asyncio.gather(fleet.close(), fleet.close())
        assert fleet.clients == {}
        with pytest.raises(ConnectionClosed):
            await fleet.start()


async def test_cancelling_the_start_of_a_fleet_leaves_nothing_open() -> None:
    async with assert_no_leaks():
        fleet = Fleet(
            [
                odd_server_config("silent", id="a", protocol_version="2026-07-28", timeout_s=600),
                odd_server_config("sane", id="b"),
            ]
        )
        starting = asyncio.create_task(fleet.start())
        await wait_until(lambda: "b" in fleet.clients)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting


def test_reconnect_delays_grow_and_are_reset() -> None:
    backoff = Backoff((1.0, 2.0, 4.0), jitter=0)
    assert [backoff.next_s() for _ in range(4)] == [1.0, 2.0, 4.0, 4.0]
    backoff.reset()
    assert backoff.next_s() == 1.0
    assert all(0.5 <= Backoff((1.0,)).next_s() <= 1.0 for _ in range(50))
