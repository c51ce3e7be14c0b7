"""The Streamable HTTP client: its requests, and how it handles invalid, late or missing responses."""

import asyncio
import gzip
import itertools
from typing import Any

import pytest
from tests.client.harness import assert_no_leaks
from tests.client.scripted_server import Handler, ScriptedRequest, hang, legacy_handler, scripted_server
from tests.clock import advance_clock, wait_until
from tests.transports.http_configs import handle_method, make_config

from hubbub import Client, DeadlineExceeded, EgressRefused, Fleet, HttpError, RemoteError, TransportError

# -- requests ---------------------------------------------------------------------


async def test_the_headers_of_each_step() -> None:
    tokens = itertools.count(1)
    async with assert_no_leaks(), scripted_server(legacy_handler()) as server:
        provided = make_config(
            server, headers={"X-Fixed": "f", "x-token": "old"}, headers_provider=lambda: {"X-Token": f"t{next(tokens)}"}
        )
        async with Client(provided) as client:
            await client.tools()
        first = server.all("initialize")[0].headers
        assert first["accept"] == "application/json, text/event-stream"
        assert first["content-type"] == "application/json"
        assert "mcp-session-id" not in first
        assert "mcp-protocol-version" not in first
        assert (first["x-fixed"], first["x-token"]) == ("f", "t1")
        listed = server.all("tools/list")[0].headers
        assert (listed["mcp-session-id"], listed["mcp-protocol-version"]) == ("s1", "2025-11-25")
        deleted = server.all("DELETE")[0].headers
        assert (deleted["mcp-session-id"], deleted["x-fixed"]) == ("s1", "f")
        tokens_seen = [request.headers["x-token"] for request in server.requests]
        assert len(set(tokens_seen)) == len(tokens_seen), "the provider is called for every request"


@pytest.mark.parametrize("provider", [lambda: "x", lambda: 1 / 0, lambda: {"Accept": "x"}, lambda: {"X": "a\nb"}])
async def test_a_failing_header_provider_fails_the_start(provider: Any) -> None:
    async with assert_no_leaks(), scripted_server(legacy_handler()) as server:
        with pytest.raises(TransportError) as raised:
            await Client(make_config(server, headers_provider=provider)).start()
        assert not raised.value.may_have_executed
        assert server.requests == []


# -- responses --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lambda request: request.reply(200, b"x" * 5000), "HTTP_BODY_TOO_LARGE"),
        (lambda request: request.reply(500, b"x" * 5000), "HTTP_BODY_TOO_LARGE"),
        (
            lambda request: request.reply(200, gzip.compress(b"x" * 50_000_000), content_encoding="gzip"),
            "HTTP_BODY_TOO_LARGE",
        ),
        (lambda request: request.stream(f"data: {'x' * 5000}\n\n"), "SSE_EVENT_DATA_TOO_LARGE"),
        (lambda request: request.stream(f"data: {'x' * 900_000}"), "SSE_EVENT_DATA_TOO_LARGE"),
        (lambda request: request.stream("data: not json\n\n"), "INVALID_SSE_EVENT_DATA"),
        (lambda request: request.stream("data: 42\n\n"), "INVALID_SSE_EVENT_DATA"),
        (lambda request: request.reply(200, b""), "INVALID_RESPONSE"),
        (lambda request: request.reply(202, b""), "INVALID_RESPONSE"),
        (lambda request: request.reply(200, b"<html>"), "INVALID_RESPONSE"),
        (lambda request: request.reply(200, b"[]"), "INVALID_RESPONSE"),
        (lambda request: request.reply(200, {"jsonrpc": "2.0", "id": 999, "result": {}}), "INVALID_RESPONSE"),
        (lambda request: request.reply(418, b"teapot"), "HTTP_ERROR"),
        (lambda request: request.reply(302, b"", location="http://169.254.169.254/"), "HTTP_ERROR"),
        (lambda request: asyncio.sleep(0, request.reset()), "TRANSPORT_ERROR"),
    ],
)
async def test_invalid_responses_have_an_error_code(answer: Handler, code: str) -> None:
    async with assert_no_leaks(), scripted_server(legacy_handler(handle_method("tools/call", answer))) as server:
        async with Client(make_config(server, max_response_bytes=2000)) as client:
            with pytest.raises(TransportError) as raised:
                await client.call_tool("echo")
            assert raised.value.code == code, raised.value
            assert len(await client.tools()) == 1, "others are unaffected"
        assert server.count("tools/call") == 1, "a call is never repeated"


async def test_an_error_in_the_body_has_precedence_over_the_status() -> None:
    handler = legacy_handler(handle_method("tools/call", lambda request: request.error(400, -32602, "bad", {"x": 1})))
    async with scripted_server(handler) as server, Client(make_config(server)) as client:
        with pytest.raises(RemoteError, match="bad") as raised:
            await client.call_tool("echo")
        assert (raised.value.code, raised.value.status, raised.value.data) == (-32602, 400, {"x": 1})


async def test_an_authentication_error_has_the_challenge() -> None:
    async def refuse(request: ScriptedRequest) -> None:
        await request.reply(401, b'{"error":"x"}', www_authenticate='Bearer resource_metadata="https://x.example/"')

    async with assert_no_leaks(), scripted_server(refuse) as server:
        with pytest.raises(HttpError) as raised:
            await Client(make_config(server, protocol_version=None)).start()
        assert raised.value.status == 401
        assert raised.value.data["www_authenticate"].startswith("Bearer resource_metadata")
        assert len(server.requests) == 1, "401 says nothing about the era"


async def test_a_429_has_the_retry_after_time() -> None:
    handler = legacy_handler(
        handle_method("tools/list", lambda request: request.reply(429, b"slow down", retry_after="7"))
    )
    async with scripted_server(handler) as server, Client(make_config(server)) as client:
        with pytest.raises(HttpError) as raised:
            await client.tools()
        assert raised.value.data == {"status": 429, "body": "slow down", "retry_after": "7"}


async def test_batches_of_responses_are_split() -> None:
    async def batch(request: ScriptedRequest) -> None:
        note = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'
        await request.reply(
            200, f'[{note},{{"jsonrpc":"2.0","id":{request.message["id"]},"result":{{"tools":[]}}}}]'.encode()
        )

    logged: list[Any] = []
    async with scripted_server(legacy_handler(handle_method("tools/list", batch), version="2025-03-26")) as server:
        async with Client(make_config(server), on_log=logged.append) as client:
            assert await client.tools() == []
        assert logged[0].data == "x"


# -- missing responses ---------------------------------------------------------


async def test_a_timeout_sends_a_cancellation_with_id_and_reason() -> None:
    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(handle_method("tools/call", hang))) as server,
        Client(make_config(server)) as client,
    ):
        call = asyncio.create_task(client.call_tool("echo", timeout_s=25))
        await wait_until(lambda: server.count("tools/call") == 1)
        advance_clock(25)
        with pytest.raises(DeadlineExceeded):
            await call
        await wait_until(lambda: server.count("notifications/cancelled") == 1)
        params = server.all("notifications/cancelled")[0].message["params"]
        assert params == {"requestId": 2, "reason": "timeout"}


async def test_a_longer_timeout_of_one_call_applies() -> None:
    async def slow(request: ScriptedRequest) -> None:
        advance_clock(40)
        await asyncio.sleep(0)
        raise NotImplementedError

    async with (
        scripted_server(legacy_handler(handle_method("tools/call", slow))) as server,
        Client(make_config(server, timeout_s=20)) as client,
    ):
        assert (await client.call_tool("echo", timeout_s=80)).text == "called"


async def test_a_silent_response_fails_after_the_read_timeout() -> None:
    async def begin(request: ScriptedRequest) -> None:
        await request.stream('data: {"jsonrpc":"2.0","id":"q","method":"ping"}\n\n')
        await wait_until(lambda: server.count("answer") == 1)  # the event was read; nothing is sent after it
        advance_clock(20)
        await hang(request)

    handler = legacy_handler(handle_method("tools/call", begin))
    async with scripted_server(handler) as server, Client(make_config(server, read_timeout_s=20)) as client:
        with pytest.raises(TransportError, match="broke"):
            await client.call_tool("echo", timeout_s=100)


async def test_slow_requests_do_not_delay_others() -> None:
    may_answer = asyncio.Event()

    async def slow(request: ScriptedRequest) -> None:
        await may_answer.wait()
        raise NotImplementedError

    async with (
        scripted_server(legacy_handler(handle_method("tools/call", slow))) as server,
        Client(make_config(server)) as client,
    ):
        call = asyncio.create_task(client.call_tool("echo"))
        await wait_until(lambda: server.count("tools/call") == 1)
        await client.tools()
        assert not call.done()
        may_answer.set()
        await call


# -- forbidden and unreachable addresses -------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "body", "shown"),
    [
        ("text/plain", b"Origin not\n\nallowed: canary-4711", "status 403: Origin not allowed: ***"),
        ("application/json", b'{"error": "ask \\u001b an admin"}', 'status 403: {"error": "ask \\u001b an admin"}'),
        ("text/plain", b"\x1b[31mred\xff" + b"x" * 5000, "status 403: [31mred\ufffdxxx"),
        ("text/html", b"<html>a page</html>", "status 403"),
    ],
)
async def test_the_body_of_an_error_response_is_quoted_bounded_and_masked(kind: str, body: bytes, shown: str) -> None:
    async def refuse(request: ScriptedRequest) -> None:
        await request.reply(403, body, content_type=kind)

    async with assert_no_leaks(), scripted_server(refuse) as server:
        with pytest.raises(HttpError) as raised:
            await Client(make_config(server, headers={"X-API-Key": "canary-4711"})).start()
    assert shown in raised.value.message
    assert "html" not in raised.value.message
    assert len(raised.value.message) < 400


async def test_a_public_name_that_resolves_to_loopback_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with assert_no_leaks(), scripted_server(legacy_handler()) as server:
        for fields in ({"allow_private_network": False}, {"url": "http://169.254.169.254/mcp", "open_timeout_s": 2}):
            with pytest.raises(EgressRefused) as raised:
                await Client(make_config(server, **fields)).start()
            assert "127.0.0.1" not in str(raised.value)
            assert "169.254" not in str(raised.value)
        assert server.requests == []


async def test_an_unreachable_server_is_an_error() -> None:
    async with scripted_server(legacy_handler()) as server:
        config = make_config(server)
    with pytest.raises(TransportError, match="cannot be reached") as raised:
        await Client(config).start()
    assert not raised.value.may_have_executed


# -- secrets --------------------------------------------------------------------------


async def test_a_secret_repeated_by_the_server_is_masked() -> None:
    async def echo(request: ScriptedRequest) -> None:
        await request.reply(500, request.headers["authorization"].encode() + b" was wrong")

    async with scripted_server(echo) as server:
        with pytest.raises(HttpError) as raised:
            await Client(make_config(server, headers={"Authorization": "Bearer canary-4711"})).start()
        assert raised.value.data["body"] == "*** was wrong"
        assert "canary" not in f"{raised.value!r} {raised.value.data}"


@pytest.mark.parametrize("status", [200, 400, 401, 500])
async def test_a_secret_in_a_json_rpc_error_is_masked(status: int, caplog: pytest.LogCaptureFixture) -> None:
    async def echo(request: ScriptedRequest) -> None:
        got = request.headers["authorization"]
        data = {"got": [got, {got: 1}], "url": "https://example.com/?access_token=theirs"}
        await request.error(status, -32000, f"{got} was wrong", data, www_authenticate=f'Bearer realm="{got}"')

    async with scripted_server(echo) as server:
        secret = make_config(server, headers={"Authorization": "Bearer canary-4711"})
        with pytest.raises(HttpError if status == 401 else RemoteError, match=r"\*\*\* was wrong") as raised:
            await Client(secret).start()
        assert isinstance(raised.value, HttpError | RemoteError)
        if status == 401:
            assert raised.value.data["www_authenticate"] == 'Bearer realm="***"'
        else:
            url = "https://example.com/?access_token=theirs"
            assert raised.value.data == {"got": ["***", {"***": 1}], "url": url}
        async with Fleet([secret], restart=False) as fleet:
            assert "s" in fleet.errors
    assert "s is not connected" in caplog.text
    assert "canary" not in f"{raised.value!r} {raised.value.data} {caplog.text}"
