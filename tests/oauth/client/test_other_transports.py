"""HTTP+SSE and WebSocket: the token is in the requests that open them, and a refusal is handled."""

import asyncio
import json
from http import HTTPStatus
from typing import Any

from tests.client.scripted_server import INFO, ScriptedRequest
from tests.oauth.client.protected_server import protected_server
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from hubbub import Client, ServerConfig


def answer(message: dict[str, Any], version: str) -> str | None:
    """Return the response to a request; None for a notification."""
    results: dict[str, Any] = {
        "initialize": {"protocolVersion": version, "capabilities": {}, "serverInfo": INFO},
        "tools/list": {"tools": []},
    }
    if message["method"] not in results:
        return None
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]})


async def test_the_handshake_of_a_websocket_carries_the_token() -> None:
    async with protected_server() as server:

        def check(connection: ServerConnection, request: Request) -> Response | None:
            if request.path == "/.well-known/oauth-protected-resource/mcp":
                return connection.respond(HTTPStatus.OK, json.dumps(server.resource))
            if request.headers.get("Authorization", "").removeprefix("Bearer ") in server.valid_tokens:
                return None
            response = connection.respond(HTTPStatus.UNAUTHORIZED, "")
            response.headers["WWW-Authenticate"] = 'Bearer scope="read"'
            return response

        async def handle(connection: ServerConnection) -> None:
            async for message in connection:
                if (text := answer(json.loads(message), "2025-11-25")) is not None:
                    await connection.send(text)

        async with serve(handle, "127.0.0.1", 0, process_request=check) as listener:
            port = next(iter(listener.sockets)).getsockname()[1]
            server.resource["resource"] = f"http://127.0.0.1:{port}"
            url, pinned = f"ws://127.0.0.1:{port}/mcp", "2025-11-25"
            auth = server.oauth()
            config = ServerConfig(id="s", transport="websocket", url=url, auth=auth, protocol_version=pinned)
            async with Client(config) as client:
                assert await client.tools() == []
        (asked,) = server.authorizations
    assert (asked["resource"], asked["scope"]) == (f"http://127.0.0.1:{port}", "read")


async def test_the_stream_and_the_posts_of_http_sse_carry_the_token() -> None:
    async with protected_server() as server:
        streams: list[ScriptedRequest] = []

        async def handle(request: ScriptedRequest) -> None:
            if request.headers.get("authorization", "").removeprefix("Bearer ") not in server.valid_tokens:
                return await request.reply(401, www_authenticate=server.challenge)
            if request.method == "GET":
                streams.append(request)
                await request.stream("event: endpoint\ndata: /mcp\n\n")
                await asyncio.get_running_loop().create_future()
            await request.reply(202)
            if (text := answer(request.message, "2024-11-05")) is not None:
                await streams[-1].stream(f"data: {text}\n\n")

        server.handle["/mcp"] = handle
        auth, pinned = server.oauth(), "2024-11-05"
        config = ServerConfig(id="s", transport="sse", url=server.url, auth=auth, protocol_version=pinned)
        async with Client(config) as client:
            server.revoke_tokens()
            assert await client.tools() == []
        assert [form["grant_type"] for form in server.token_requests] == ["authorization_code", "refresh_token"]
