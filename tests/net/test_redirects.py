"""No client follows a redirect to another origin, so no header reaches a server that it was not meant for."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.client.harness import assert_no_leaks
from tests.client.scripted_server import ScriptedRequest, scripted_server

from hubbub import Client, HubbubError, ModelRequest, OpenAIChat, Secret, ServerConfig, TransportError
from hubbub.cli.models import only_model
from hubbub.net.fetch import fetch
from hubbub.net.redirects import same_origin_target
from hubbub.pack.http import ANY_ADDRESS, HttpClient, describe_redirect
from hubbub.packs.activity.json_client import JsonClient

SECRETS = {"X-API-Key": "canary-4711"}


async def over_websocket(url: str) -> None:
    http_client = HttpClient(ANY_ADDRESS)
    try:
        await http_client.open_websocket(url.replace("http", "ws"), headers=SECRETS, protocols=(), limit=1000)
    finally:
        await http_client.close()


async def over_mcp_websocket(url: str) -> None:
    await Client(ServerConfig(id="w", transport="websocket", url=url.replace("http", "ws"), headers=SECRETS)).start()


async def over_mcp_http(url: str) -> None:
    await Client(ServerConfig(id="h", transport="http", url=url, headers=SECRETS)).start()


async def over_http_sse(url: str) -> None:
    await Client(ServerConfig(id="s", transport="sse", url=url, headers=SECRETS)).start()


async def for_keys(url: str) -> None:
    await fetch(url)


async def for_a_model(url: str) -> None:
    async with OpenAIChat(url, model="m", api_key="canary-4711", headers=SECRETS) as chat:
        await chat.complete(ModelRequest(messages=[], tools=[]))


async def for_model_names(url: str) -> None:
    await only_model(url, Secret("canary-4711"), None)


async def for_activity(url: str) -> None:
    server = JsonClient("ActivityWatch", url.removesuffix("/mcp"), "start it", api_key=Secret("canary-4711"))
    try:
        await server.get("/api/0/info", timeout_s=10)
    finally:
        await server.close()


CLIENTS = [
    over_websocket,
    over_mcp_websocket,
    over_mcp_http,
    over_http_sse,
    for_keys,
    for_a_model,
    for_model_names,
    for_activity,
]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("ask", CLIENTS)
async def test_a_redirect_to_another_origin_is_an_error_that_names_it(
    ask: Callable[[str], Awaitable[None]], status: int
) -> None:
    async with assert_no_leaks(), scripted_server(lambda request: request.reply(200)) as other:
        location = f"http://user:canary-4712@127.0.0.1:{other.port}/x?token=canary-4713"

        async def redirect(request: ScriptedRequest) -> None:
            await request.reply(status, location=location)

        async with scripted_server(redirect) as server:
            with pytest.raises(HubbubError) as raised:
                async with asyncio.timeout(60):
                    await ask(server.url)
        assert not other.requests
    assert f"http://127.0.0.1:{other.port}" in str(raised.value)
    assert "canary" not in str(raised.value)


def test_the_message_names_the_origin_and_nothing_else() -> None:
    message = describe_redirect("https://a.example/mcp", 302, "http://u:p@b.example/secret?key=1#f")
    assert "to http://b.example; redirects are not followed" in message
    assert "secret" not in message
    assert "same server" in describe_redirect("https://a.example/mcp", 302, "/login?key=1")
    assert "http://a.example;" in describe_redirect("https://a.example/mcp", 302, "http://a.example/mcp")
    for odd in ("http://[", "file:///etc/passwd", "http://\x1b[31m/", "javascript:x"):
        assert "to an invalid address" in describe_redirect("https://a.example/mcp", 302, odd)
    assert "without a Location header" in describe_redirect("https://a.example/mcp", 302, "")


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/mcp/", "https://a.example/mcp/"),
        ("https://a.example/mcp/", "https://a.example/mcp/"),
        ("https://A.EXAMPLE:443/mcp/", "https://a.example/mcp/"),
        ("http://a.example/mcp/", None),
        ("https://a.example:8443/mcp/", None),
        ("https://b.example/mcp/", None),
        ("//b.example/mcp/", None),
        ("https://a.example@b.example/", None),
        ("https://u:p@a.example/mcp/", None),
        ("http://[", None),
        ("", None),
    ],
)
def test_only_redirects_to_the_same_origin_can_be_followed(location: str, target: str | None) -> None:
    assert same_origin_target("https://a.example/mcp", location) == target


# -- redirects that add a slash ----------------------------------------------------------


def redirect_to_slash(status: int = 307) -> Callable[[ScriptedRequest], Awaitable[None]]:
    """As servers on the Python SDK 1.8 and 1.9: `/mcp` is redirected to `/mcp/`, with an absolute address."""

    async def handle(request: ScriptedRequest) -> None:
        if request.path == "/mcp":
            await request.reply(status, location=f"http://{request.headers['host']}/mcp/")
        elif request.method == "GET":
            await request.reply(405)
        elif request.rpc == "initialize":
            result = {"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {"name": "old"}}
            await request.result(result, mcp_session_id="s1")
        elif request.rpc == "tools/call":
            await request.result({"content": [{"type": "text", "text": request.headers["x-api-key"]}]})
        else:
            await request.reply(202)

    return handle


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_that_adds_a_slash_is_followed_once_and_remembered(status: int) -> None:
    config: dict[str, Any] = {"protocol_version": "2025-03-26", "headers": SECRETS}
    async with assert_no_leaks(), scripted_server(redirect_to_slash(status)) as server:
        async with Client(ServerConfig(id="h", transport="http", url=server.url, **config)) as client:
            result = await client.call_tool("key")
        assert result.text == "canary-4711"
        assert [request.rpc for request in server.requests if request.path == "/mcp"] == ["initialize"]
        assert server.count("tools/call") == 1
        assert server.count("DELETE") == 1


async def test_a_second_redirect_is_not_followed() -> None:
    async def handle(request: ScriptedRequest) -> None:
        await request.reply(307, location=request.path + "/")

    async with assert_no_leaks(), scripted_server(handle) as server:
        config = ServerConfig(id="h", transport="http", url=server.url, protocol_version="2025-03-26")
        with pytest.raises(TransportError, match=r"redirect \(status 307\) to another path of the same server"):
            await Client(config).start()
        assert {request.path for request in server.requests} == {"/mcp", "/mcp/"}


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_that_may_lose_method_and_body_is_not_followed(status: int) -> None:
    async with assert_no_leaks(), scripted_server(redirect_to_slash(status)) as server:
        config = ServerConfig(id="h", transport="http", url=server.url, protocol_version="2025-03-26")
        with pytest.raises(TransportError, match=f"status {status}"):
            await Client(config).start()
        assert {request.path for request in server.requests} == {"/mcp"}
