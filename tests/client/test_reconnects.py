"""What a client tells after a reconnect: nobody knows what happened meanwhile, so every list may have changed."""

import asyncio
import json

from tests.client.ends import nothing_left, odd
from tests.client.scripted import Asked, Handler, legacy, scripted
from tests.clock import until
from tests.transports.http_ends import config

from hubbub import Change, Client, Fleet, ServerConfig

TOOL = {"name": "echo", "inputSchema": {"type": "object"}}


def lost_after(sessions: list[str]) -> Handler:
    """Forgets its first session when it is asked for tools."""

    async def handle(asked: Asked) -> None:
        match asked.rpc:
            case "initialize":
                sessions.append(f"s{len(sessions)}")
                capabilities = {"tools": {}, "resources": {"subscribe": True}}
                result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {}}
                await asked.result(result, mcp_session_id=sessions[-1])
            case "tools/list" if asked.headers["mcp-session-id"] == "s0":
                await asked.reply(404)
            case "resources/subscribe":
                await asked.result({})
            case _:
                raise NotImplementedError

    return handle


async def test_a_renewed_session_tells_of_every_list_and_watched_resource() -> None:
    heard: list[Change] = []
    async with (
        nothing_left(),
        scripted(legacy(lost_after([]))) as server,
        Client(config(server), on_change=heard.append) as client,
    ):
        await client.subscribe("file:///a")
        assert heard == []
        assert len(await client.tools()) == 1
        await until(lambda: len(heard) == 3, lambda: str(heard))
        assert heard == [Change("tools"), Change("resources"), Change("resource", "file:///a")]
        assert server.count("resources/subscribe") == 2


async def test_a_handler_that_fails_does_not_disturb_the_renewal() -> None:
    heard: list[Change] = []

    async def failing(change: Change) -> None:
        heard.append(change)
        raise RuntimeError("no")

    async with (
        nothing_left(),
        scripted(legacy(lost_after([]))) as server,
        Client(config(server), on_change=failing) as client,
    ):
        assert len(await client.tools()) == 1
        await until(lambda: len(heard) == 2)


async def test_a_listen_stream_that_is_opened_again_tells_what_it_may_have_missed() -> None:
    heard: list[Change] = []
    may_break = asyncio.Event()

    async def handle(asked: Asked) -> None:
        match asked.rpc:
            case "server/discover":
                capabilities = {"tools": {"listChanged": True}}
                await asked.result({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})
            case "tools/list":
                await asked.result(
                    {"tools": [TOOL], "ttlMs": 60_000, "cacheScope": "private", "resultType": "complete"}
                )
            case "subscriptions/listen":
                meta = {"io.modelcontextprotocol/subscriptionId": asked.message["id"]}
                params = {"_meta": meta, "notifications": {"toolsListChanged": True}}
                note = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
                await asked.stream(f"data: {json.dumps(note)}\n\n")
                if server.count("subscriptions/listen") == 1:
                    await may_break.wait()
                    asked.close()
                else:
                    await asked.writer.wait_closed()
            case _:
                await asked.reply(202)

    async with nothing_left(), scripted(handle) as server:
        remote = ServerConfig(id="s", transport="http", url=server.url)
        async with Client(remote, on_change=heard.append) as client:
            assert len(await client.tools()) == 1
            assert len(await client.tools()) == 1
            assert server.count("tools/list") == 1  # It may be kept.
            may_break.set()
            await until(lambda: heard == [Change("tools")])
            assert len(await client.tools()) == 1
            assert server.count("tools/list") == 2


async def test_a_server_that_was_started_again_tells_of_every_list() -> None:
    heard: list[str] = []

    def make(given: ServerConfig) -> Client:
        return Client(given, on_change=lambda change: heard.append(change.kind))

    async with nothing_left(), Fleet([odd("exit-after-answer", id="a")], make=make) as fleet:
        first = fleet.client("a")
        await first.list_tools()
        assert heard == []
        await first.wait_lost()
        await until(lambda: heard == ["tools", "prompts", "resources"], lambda: str(heard))
