"""How the Streamable HTTP client negotiates the era of a server, and what it sends in each era."""

import asyncio
import itertools

import pytest
from tests.client.harness import assert_no_leaks
from tests.client.scripted_server import Handler, ScriptedRequest, hang, legacy_handler, scripted_server
from tests.clock import advance_clock, wait_until
from tests.transports.http_configs import handle_method, make_config

from hubbub import (
    Client,
    DeadlineExceeded,
    HttpError,
    KnownEras,
    Notification,
    ProtocolVersionNotSupported,
    TransportError,
)


@pytest.mark.parametrize(
    "refuse",
    [
        lambda request: request.reply(400),
        lambda request: request.reply(404, b"not found"),
        lambda request: request.reply(405),
        lambda request: request.reply(406),
        lambda request: request.reply(500),
        lambda request: request.reply(200, b"<html>"),
        lambda request: request.error(400, -32000, "Server not initialized"),
        lambda request: request.error(200, -32601, "Method not found"),
        lambda request: request.error(400, -32602, "Invalid request parameters"),
        lambda request: request.error(
            400, -32022, "Unsupported", {"supported": ["2025-06-18"], "requested": "2026-07-28"}
        ),
    ],
)
async def test_a_legacy_server_is_detected(refuse: Handler) -> None:
    async with assert_no_leaks(), scripted_server(legacy_handler(handle_method("server/discover", refuse))) as server:
        known = KnownEras()
        for _ in range(2):
            async with Client(make_config(server, protocol_version=None), known_eras=known) as client:
                assert client.era == "legacy"
                assert len(await client.tools()) == 1
        assert server.count("server/discover") == 1, "the era is remembered"
        first = server.requests[0].headers
        assert (first["mcp-protocol-version"], first["mcp-method"]) == ("2026-07-28", "server/discover")


@pytest.mark.parametrize("status", [401, 403, 429, 502, 503])
async def test_other_failures_do_not_select_an_era(status: int) -> None:
    async with scripted_server(
        legacy_handler(handle_method("server/discover", lambda request: request.reply(status)))
    ) as server:
        with pytest.raises(HttpError):
            await Client(make_config(server, protocol_version=None)).start()
        assert server.count("initialize") == 0


async def test_a_version_that_is_refused_but_offered_is_tried_again() -> None:
    tries = itertools.count()

    async def handle(request: ScriptedRequest) -> None:
        if next(tries) == 0:
            await request.error(400, -32022, "Unsupported", {"supported": ["2026-07-28"], "requested": "2026-07-28"})
        else:
            await request.result({"supportedVersions": ["2026-07-28"], "capabilities": {}, "serverInfo": {"name": "m"}})

    async with scripted_server(handle) as server, Client(make_config(server, protocol_version=None)) as client:
        assert client.era == "modern"
        assert client.server_info.name == "m"


async def test_unsupported_versions_fail_the_start() -> None:
    async def handle(request: ScriptedRequest) -> None:
        await request.error(400, -32022, "Unsupported", {"supported": ["2031-01-01"], "requested": "2026-07-28"})

    async with assert_no_leaks(), scripted_server(handle) as server:
        with pytest.raises(ProtocolVersionNotSupported, match="2031-01-01"):
            await Client(make_config(server, protocol_version=None)).start()


async def test_a_modern_server_without_discovery_is_detected_as_modern() -> None:
    async def handle(request: ScriptedRequest) -> None:
        if request.rpc == "server/discover":
            await request.error(404, -32601, "Method not found")
        else:
            await request.result({"tools": []})

    async with scripted_server(handle) as server, Client(make_config(server, protocol_version=None)) as client:
        assert client.era == "modern"
        assert await client.tools() == []


async def test_a_pinned_version_is_not_probed() -> None:
    async with scripted_server(legacy_handler(version="2025-06-18")) as server:
        async with Client(make_config(server, protocol_version="2025-06-18")) as client:
            assert client.protocol_version == "2025-06-18"
        assert server.count("server/discover") == 0
        assert server.all("initialize")[0].message["params"]["protocolVersion"] == "2025-06-18"


async def test_the_timeout_applies_to_the_probe() -> None:
    async with assert_no_leaks(), scripted_server(legacy_handler(handle_method("server/discover", hang))) as server:
        starting = asyncio.create_task(Client(make_config(server, protocol_version=None, timeout_s=25)).start())
        await wait_until(lambda: server.count("server/discover") == 1)
        advance_clock(25)
        with pytest.raises(DeadlineExceeded, match="after 25 s while waiting for the answer to the handshake"):
            await starting
        assert server.count("initialize") == 0


async def test_the_handshake_has_method_headers_and_later_requests_need_none() -> None:
    async with scripted_server(legacy_handler()) as server:
        async with Client(make_config(server)) as client:
            await client.tools()
        for method in ("initialize", "notifications/initialized"):
            assert server.all(method)[0].headers["mcp-method"] == method
        assert "mcp-method" not in server.all("tools/list")[0].headers


async def test_a_modern_notification_has_the_headers_of_a_request() -> None:
    async def handle(request: ScriptedRequest) -> None:
        if request.rpc == "server/discover":
            await request.result({"supportedVersions": ["2026-07-28"], "capabilities": {}})
        else:
            await request.reply(202)

    async with scripted_server(handle) as server, Client(make_config(server, protocol_version=None)) as client:
        await client.notify(Notification("notifications/x", {"a": 1}))
        (notification,) = server.all("notifications/x")
        assert notification.headers["mcp-method"] == "notifications/x"
        assert notification.headers["mcp-protocol-version"] == "2026-07-28"
        assert notification.message == {"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": 1}}


async def test_a_truncated_modern_stream_is_an_error() -> None:
    async def handle(request: ScriptedRequest) -> None:
        if request.rpc == "server/discover":
            await request.result({"supportedVersions": ["2026-07-28"], "capabilities": {}})
        else:
            await request.stream("id: e1\nretry: 1\ndata:\n\n")
            request.close()

    async with (
        assert_no_leaks(),
        scripted_server(handle) as server,
        Client(make_config(server, protocol_version=None)) as client,
    ):
        with pytest.raises(TransportError, match="ended before"):
            await client.call_tool("x")
        assert server.count("GET") == 0
        assert server.count("tools/call") == 1


async def test_a_missing_mirrored_header_refreshes_the_tool_list() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}}

    async def handle(request: ScriptedRequest) -> None:
        match request.rpc:
            case "server/discover":
                await request.result({"supportedVersions": ["2026-07-28"], "capabilities": {}})
            case "tools/list":
                bad = {
                    "name": "bad",
                    "inputSchema": {"type": "object", "properties": {"x": {"type": "number", "x-mcp-header": "X"}}},
                }
                await request.result({"tools": [{"name": "weather", "inputSchema": schema}, bad]})
            case _ if "mcp-param-city" not in request.headers:
                await request.error(400, -32020, "Header mismatch")
            case _:
                await request.result({"content": [{"type": "text", "text": request.headers["mcp-param-city"]}]})

    async with (
        assert_no_leaks(),
        scripted_server(handle) as server,
        Client(make_config(server, protocol_version=None)) as client,
    ):
        result = await client.call_tool("weather", {"city": "Zürich"})
        assert result.text == "=?base64?WsO8cmljaA==?="
        assert server.count("tools/call") == 2
        assert server.all("tools/call")[0].headers["mcp-name"] == "weather"
        assert [tool.name for tool in await client.tools()] == ["weather"]
        await client.call_tool("weather", {"city": "Bern"})
        assert server.count("tools/call") == 3


async def test_refreshing_the_tool_list_respects_the_timeout_of_the_call() -> None:
    async def handle(request: ScriptedRequest) -> None:
        match request.rpc:
            case "server/discover":
                await request.result({"supportedVersions": ["2026-07-28"], "capabilities": {}})
            case "tools/list":
                advance_clock(10)
                await request.result({"tools": [], "nextCursor": str(server.count("tools/list"))})
            case _:
                await request.error(400, -32020, "Header mismatch")

    async with (
        assert_no_leaks(),
        scripted_server(handle) as server,
        Client(make_config(server, protocol_version=None)) as client,
    ):
        with pytest.raises(DeadlineExceeded):
            await client.call_tool("weather", timeout_s=50)
        assert server.count("tools/list") <= 5
        assert server.count("tools/call") == 1
