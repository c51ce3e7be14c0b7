"""After a reconnect a client reports every list as changed, because it may have missed changes."""

import asyncio
import json

from tests.client.harness import assert_no_leaks, odd_server_config
from tests.client.scripted_server import Handler, ScriptedRequest, legacy_handler, scripted_server
from tests.clock import wait_until
from tests.transports.http_configs import make_config

from hubbub import ChangeEvent, Client, Fleet, ServerConfig

TOOL = {"name": "echo", "inputSchema": {"type": "object"}}


def lose_first_session(sessions: list[str]) -> Handler:
    """Forgets its first session when it receives `tools/list`."""

    async def handle(request: ScriptedRequest) -> None:
        match request.rpc:
            case "initialize":
                sessions.append(f"s{len(sessions)}")
                capabilities = {"tools": {}, "resources": {"subscribe": True}}
                result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {}}
                await request.result(result, mcp_session_id=sessions[-1])
            case "tools/list" if request.headers["mcp-session-id"] == "s0":
                await request.reply(404)
            case "resources/subscribe":
                await request.result({})
            case _:
                raise NotImplementedError

    return handle


async def test_a_renewed_session_reports_every_list_and_subscribed_resource_as_changed() -> None:
    changes: list[ChangeEvent] = []
    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(lose_first_session([]))) as server,
        Client(make_config(server), on_change=changes.append) as client,
    ):
        await client.subscribe("file:///a")
        assert changes == []
        assert len(await client.tools()) == 1
        await wait_until(lambda: len(changes) == 3, lambda: str(changes))
        assert changes == [ChangeEvent("tools"), ChangeEvent("resources"), ChangeEvent("resource", "file:///a")]
        assert server.count("resources/subscribe") == 2


async def test_a_failing_handler_does_not_affect_the_renewal() -> None:
    changes: list[ChangeEvent] = []

    async def failing(change: ChangeEvent) -> None:
        changes.append(change)
        raise RuntimeError("no")

    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(lose_first_session([]))) as server,
        Client(make_config(server), on_change=failing) as client,
    ):
        assert len(await client.tools()) == 1
        await wait_until(lambda: len(changes) == 2)


async def test_a_reopened_listen_stream_reports_changes_it_may_have_missed() -> None:
    changes: list[ChangeEvent] = []
    may_break = asyncio.Event()

    async def handle(request: ScriptedRequest) -> None:
        match request.rpc:
            case "server/discover":
                capabilities = {"tools": {"listChanged": True}}
                await request.result({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})
            case "tools/list":
                await request.result(
                    {"tools": [TOOL], "ttlMs": 60_000, "cacheScope": "private", "resultType": "complete"}
                )
            case "subscriptions/listen":
                meta = {"io.modelcontextprotocol/subscriptionId": request.message["id"]}
                params = {"_meta": meta, "notifications": {"toolsListChanged": True}}
                note = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
                await request.stream(f"data: {json.dumps(note)}\n\n")
                if server.count("subscriptions/listen") == 1:
                    await may_break.wait()
                    request.close()
                else:
                    await request.writer.wait_closed()
            case _:
                await request.reply(202)

    async with assert_no_leaks(), scripted_server(handle) as server:
        remote = ServerConfig(id="s", transport="http", url=server.url)
        async with Client(remote, on_change=changes.append) as client:
            assert len(await client.tools()) == 1
            assert len(await client.tools()) == 1
            assert server.count("tools/list") == 1  # The list may be cached.
            may_break.set()
            await wait_until(lambda: changes == [ChangeEvent("tools")])
            assert len(await client.tools()) == 1
            assert server.count("tools/list") == 2


async def test_a_restarted_server_reports_every_list_as_changed() -> None:
    changes: list[str] = []

    def make(given: ServerConfig) -> Client:
        return Client(given, on_change=lambda change: changes.append(change.kind))

    async with assert_no_leaks(), Fleet([odd_server_config("exit-after-answer", id="a")], make=make) as fleet:
        first = fleet.client("a")
        await first.list_tools()
        assert changes == []
        await first.wait_lost()
        await wait_until(lambda: changes == ["tools", "prompts", "resources"], lambda: str(changes))
