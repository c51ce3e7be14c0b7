"""The client's end of Streamable HTTP with servers that do every odd thing the network allows."""

import asyncio
import gzip
import itertools
import time
from typing import Any

import pytest
from tests.client.ends import nothing_left, until
from tests.client.scripted import Asked, Handler, Scripted, legacy, scripted

from hubbub import bounds
from hubbub.client import Client, Fleet, ServerConfig, era
from hubbub.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    EgressRefused,
    HttpError,
    ProtocolVersionNotSupported,
    RemoteError,
    SessionLost,
    TransportError,
)
from hubbub.protocol.model import Note


def config(server: Scripted, **fields: Any) -> ServerConfig:
    pinned = {"protocol_version": "2025-11-25"}
    return ServerConfig(**{"id": "s", "transport": "http", "url": server.url, **pinned, **fields})


def on(name: str, handler: Handler) -> Handler:
    """This handler for one method, and the usual for the rest."""

    async def handle(asked: Asked) -> None:
        if asked.rpc != name:
            raise NotImplementedError
        await handler(asked)

    return handle


async def test_the_headers_of_each_step() -> None:
    tokens = itertools.count(1)
    async with nothing_left(), scripted(legacy()) as server:
        provided = config(
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
        tokens_seen = [asked.headers["x-token"] for asked in server.asked]
        assert len(set(tokens_seen)) == len(tokens_seen), "the provider is asked for every request"


@pytest.mark.parametrize("provider", [lambda: "x", lambda: 1 / 0, lambda: {"Accept": "x"}, lambda: {"X": "a\nb"}])
async def test_a_provider_that_fails_fails_the_start(provider: Any) -> None:
    async with nothing_left(), scripted(legacy()) as server:
        with pytest.raises(TransportError) as raised:
            await Client(config(server, headers_provider=provider)).start()
        assert not raised.value.may_have_executed
        assert server.asked == []


async def test_a_stream_answers_in_one_go() -> None:
    async def stream(asked: Asked) -> None:
        await asked.stream(": hello\n\n", "event: message\r\n", asked.event({"tools": []}))

    async with nothing_left(), scripted(legacy(on("tools/list", stream))) as server, Client(config(server)) as client:
        assert await client.tools() == []


async def test_a_last_event_without_its_empty_line_still_counts() -> None:
    async def stream(asked: Asked) -> None:
        await asked.stream(asked.event({"tools": []}).rstrip("\n"))
        asked.close()

    async with scripted(legacy(on("tools/list", stream))) as server, Client(config(server)) as client:
        assert await client.tools() == []


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_broken_stream_is_taken_up_after_exactly_the_time_asked_for(how: str) -> None:
    first: list[Asked] = []
    broken: list[float] = []

    async def handle(asked: Asked) -> None:
        if asked.rpc == "tools/call":
            first.append(asked)
            await asked.stream("id: e7\nretry: 300\ndata:\n\n")
            await asyncio.sleep(0.05)
            broken.append(time.monotonic())
            getattr(asked, how)()
        elif asked.method == "GET" and "last-event-id" in asked.headers:
            broken.append(time.monotonic())
            await asked.stream(first[0].event({"content": [{"type": "text", "text": "late"}]}))
        else:
            raise NotImplementedError

    async with nothing_left(), scripted(legacy(handle)) as server, Client(config(server)) as client:
        result = await client.call_tool("echo")
        assert result.content[0].text == "late"
        assert 0.28 <= broken[1] - broken[0] <= 0.5
        assert server.all("GET")[-1].headers["last-event-id"] == "e7"
        assert server.all("GET")[-1].headers["mcp-session-id"] == "s1"
        assert server.count("tools/call") == 1


async def test_a_stream_without_event_ids_is_not_taken_up() -> None:
    async def stream(asked: Asked) -> None:
        await asked.stream(": nothing yet\n\n")
        asked.close()

    async with nothing_left(), scripted(legacy(on("tools/call", stream))) as server, Client(config(server)) as client:
        with pytest.raises(TransportError, match="ended before its answer") as raised:
            await client.call_tool("echo")
        assert raised.value.code == "TRANSPORT_ERROR"
        assert raised.value.may_have_executed


async def test_taking_up_a_stream_has_an_end() -> None:
    async def handle(asked: Asked) -> None:
        if asked.rpc != "tools/call" and "last-event-id" not in asked.headers:
            raise NotImplementedError
        await asked.stream("id: e1\nretry: 1\ndata:\n\n")
        asked.close()

    async with (
        nothing_left(),
        scripted(legacy(handle)) as server,
        Client(config(server, sse_max_reconnects=3)) as client,
    ):
        with pytest.raises(TransportError) as raised:
            await client.call_tool("echo")
        assert raised.value.code == "SSE_RECONNECTS_EXCEEDED"
        assert raised.value.data == {"reconnects": 3}
        assert len([asked for asked in server.all("GET") if "last-event-id" in asked.headers]) == 3


@pytest.mark.parametrize(
    ("status", "code"), [(404, "MCP_SESSION_NOT_FOUND"), (500, "HTTP_ERROR"), (405, "HTTP_ERROR"), (200, "HTTP_ERROR")]
)
async def test_a_stream_that_cannot_be_taken_up_says_why(status: int, code: str) -> None:
    async def handle(asked: Asked) -> None:
        if asked.rpc == "tools/call":
            await asked.stream("id: e1\nretry: 1\ndata:\n\n")
            asked.close()
        elif "last-event-id" in asked.headers:
            await asked.reply(status)
        else:
            raise NotImplementedError

    async with nothing_left(), scripted(legacy(handle)) as server, Client(config(server)) as client:
        with pytest.raises(TransportError) as raised:
            await client.call_tool("echo")
        assert raised.value.code == code


async def body(asked: Asked, text: bytes, status: int = 200, **headers: str) -> None:
    await asked.reply(status, text, **headers)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lambda asked: asked.reply(200, b"x" * 5000), "HTTP_BODY_TOO_LARGE"),
        (lambda asked: asked.reply(500, b"x" * 5000), "HTTP_BODY_TOO_LARGE"),
        (
            lambda asked: asked.reply(200, gzip.compress(b"x" * 50_000_000), content_encoding="gzip"),
            "HTTP_BODY_TOO_LARGE",
        ),
        (lambda asked: asked.stream(f"data: {'x' * 5000}\n\n"), "SSE_EVENT_DATA_TOO_LARGE"),
        (lambda asked: asked.stream(f"data: {'x' * 900_000}"), "SSE_EVENT_DATA_TOO_LARGE"),
        (lambda asked: asked.stream("data: not json\n\n"), "INVALID_SSE_EVENT_DATA"),
        (lambda asked: asked.stream("data: 42\n\n"), "INVALID_SSE_EVENT_DATA"),
        (lambda asked: asked.reply(200, b""), "INVALID_RESPONSE"),
        (lambda asked: asked.reply(202, b""), "INVALID_RESPONSE"),
        (lambda asked: asked.reply(200, b"<html>"), "INVALID_RESPONSE"),
        (lambda asked: asked.reply(200, b"[]"), "INVALID_RESPONSE"),
        (lambda asked: asked.reply(200, {"jsonrpc": "2.0", "id": 999, "result": {}}), "INVALID_RESPONSE"),
        (lambda asked: asked.reply(418, b"teapot"), "HTTP_ERROR"),
        (lambda asked: asked.reply(302, b"", location="http://169.254.169.254/"), "HTTP_ERROR"),
        (lambda asked: asyncio.sleep(0, asked.reset()), "TRANSPORT_ERROR"),
    ],
)
async def test_what_a_server_answers_wrongly_has_a_code(answer: Handler, code: str) -> None:
    async with nothing_left(), scripted(legacy(on("tools/call", answer))) as server:
        async with Client(config(server, max_response_bytes=2000)) as client:
            with pytest.raises(TransportError) as raised:
                await client.call_tool("echo")
            assert raised.value.code == code, raised.value
            assert len(await client.tools()) == 1, "others are unaffected"
        assert server.count("tools/call") == 1, "a call is never repeated"


async def test_an_error_in_the_body_counts_for_more_than_the_status() -> None:
    handler = legacy(on("tools/call", lambda asked: asked.error(400, -32602, "bad", {"x": 1})))
    async with scripted(handler) as server, Client(config(server)) as client:
        with pytest.raises(RemoteError, match="bad") as raised:
            await client.call_tool("echo")
        assert (raised.value.code, raised.value.status, raised.value.data) == (-32602, 400, {"x": 1})


async def test_who_is_not_let_in_learns_how_to() -> None:
    async def refuse(asked: Asked) -> None:
        await asked.reply(401, b'{"error":"x"}', www_authenticate='Bearer resource_metadata="https://x.example/"')

    async with nothing_left(), scripted(refuse) as server:
        with pytest.raises(HttpError) as raised:
            await Client(config(server, protocol_version=None)).start()
        assert raised.value.status == 401
        assert raised.value.data["www_authenticate"].startswith("Bearer resource_metadata")
        assert len(server.asked) == 1, "401 says nothing about the era"


async def test_too_many_requests_tell_when_to_come_back() -> None:
    handler = legacy(on("tools/list", lambda asked: asked.reply(429, b"slow down", retry_after="7")))
    async with scripted(handler) as server, Client(config(server)) as client:
        with pytest.raises(HttpError) as raised:
            await client.tools()
        assert raised.value.data == {"status": 429, "body": "slow down", "retry_after": "7"}


def forgetful(lost: str, status: int = 404, body: bytes = b"") -> tuple[Handler, list[int]]:
    """Forgets its first session when a method is called."""
    sessions = itertools.count(1)
    renewed: list[int] = []

    async def handle(asked: Asked) -> None:
        if asked.rpc == "initialize":
            number = next(sessions)
            renewed.append(number)
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "f"}}
            await asked.result(result, mcp_session_id=f"s{number}")
        elif asked.rpc == lost and asked.headers.get("mcp-session-id") == "s1":
            await asked.reply(status, body)
        else:
            raise NotImplementedError

    return handle, renewed


@pytest.mark.parametrize(
    ("status", "answer"),
    [(404, b""), (404, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}'),
     (400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID"}}')],
)  # fmt: skip
async def test_a_lost_session_is_renewed_once_and_lists_are_asked_again(status: int, answer: bytes) -> None:
    handler, renewed = forgetful("tools/list", status, answer)
    async with nothing_left(), scripted(legacy(handler)) as server, Client(config(server)) as client:
        results = await asyncio.gather(*(client.tools() for _ in range(20)))
        assert all(len(tools) == 1 for tools in results)
        assert renewed == [1, 2]
        assert server.all("initialize")[1].headers.get("mcp-session-id") is None


async def test_a_call_on_a_lost_session_is_not_repeated() -> None:
    handler, renewed = forgetful("tools/call")
    async with scripted(legacy(handler)) as server, Client(config(server)) as client:
        with pytest.raises(SessionLost) as raised:
            await client.call_tool("echo")
        assert raised.value.code == "MCP_SESSION_NOT_FOUND"
        assert server.count("tools/call") == 1
        assert renewed == [1, 2]
        assert (await client.call_tool("echo")).content[0].text == "called"


async def test_a_session_that_is_lost_twice_is_an_error() -> None:
    handler = legacy(on("tools/list", lambda asked: asked.reply(404)))
    async with scripted(handler) as server, Client(config(server)) as client:
        with pytest.raises(SessionLost):
            await client.tools()
        assert server.count("tools/list") == 2


async def _unavailable(asked: Asked) -> None:
    await asked.reply(503)


async def _refused(asked: Asked) -> None:
    await asked.error(200, -32603, mcp_session_id="never")


async def _broken(asked: Asked) -> None:
    asked.reset()


@pytest.mark.parametrize("fail", [_unavailable, _refused, _broken])
async def test_a_session_that_could_not_be_renewed_is_renewed_by_the_next_who_asks(fail: Handler) -> None:
    opened: list[str] = []

    async def handle(asked: Asked) -> None:
        session = asked.headers.get("mcp-session-id")
        if asked.rpc == "initialize" and len(opened) == 1:
            opened.append("none")
            await fail(asked)
        elif asked.rpc == "initialize":
            opened.append(f"s{len(opened)}")
            await legacy(session=opened[-1])(asked)
        elif asked.rpc == "tools/list" and session != "s2":
            await asked.reply(404 if session == "s0" else 400)
        else:
            raise NotImplementedError

    async with nothing_left(), scripted(legacy(handle)) as server, Client(config(server)) as client:
        with pytest.raises((TransportError, RemoteError)):
            await client.tools()
        assert len(await client.tools()) == 1
        assert opened == ["s0", "none", "s2"]
        assert [asked.headers.get("mcp-session-id") for asked in server.all("tools/list")] == ["s0", "s0", "s2"]
        assert all("mcp-session-id" not in asked.headers for asked in server.all("initialize"))
        assert all("mcp-protocol-version" not in asked.headers for asked in server.all("initialize"))


async def test_a_question_during_the_opening_is_answered_in_the_new_session() -> None:
    async def handle(asked: Asked) -> None:
        await asked.stream('data: {"jsonrpc":"2.0","id":"q","method":"ping"}\n\n', mcp_session_id="s1")
        await until(lambda: server.count("answer") == 1)
        await asked.stream(asked.event({"protocolVersion": "2025-11-25", "capabilities": {}}))

    async with nothing_left(), scripted(legacy(on("initialize", handle))) as server, Client(config(server)):
        assert server.all("answer")[0].headers["mcp-session-id"] == "s1"


async def test_an_unknown_method_is_no_lost_session() -> None:
    handler = legacy(on("ping", lambda asked: asked.error(404, -32601, "Method not found")))
    async with scripted(handler) as server, Client(config(server)) as client:
        with pytest.raises(RemoteError) as raised:
            await client.ping()
        assert raised.value.code == -32601
        assert server.count("initialize") == 1


async def test_a_timeout_tells_the_server_which_request_and_why() -> None:
    async def hang(asked: Asked) -> None:
        await asyncio.sleep(5)

    async with nothing_left(), scripted(legacy(on("tools/call", hang))) as server, Client(config(server)) as client:
        started = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            await client.call_tool("echo", timeout_s=0.2)
        assert time.monotonic() - started < 1
        await until(lambda: server.count("notifications/cancelled") == 1)
        params = server.all("notifications/cancelled")[0].message["params"]
        assert params == {"requestId": 2, "reason": "timeout"}


async def test_a_longer_timeout_of_one_call_really_governs() -> None:
    async def slow(asked: Asked) -> None:
        await asyncio.sleep(0.6)
        raise NotImplementedError

    async with scripted(legacy(on("tools/call", slow))) as server, Client(config(server, timeout_s=0.3)) as client:
        assert (await client.call_tool("echo", timeout_s=5)).content[0].text == "called"


async def test_a_silent_answer_is_given_up_after_the_read_timeout() -> None:
    async def begin(asked: Asked) -> None:
        await asked.stream(": here\n\n")
        await asyncio.sleep(5)

    handler = legacy(on("tools/call", begin))
    async with scripted(handler) as server, Client(config(server, read_timeout_s=0.2)) as client:
        with pytest.raises(TransportError, match="broke"):
            await client.call_tool("echo", timeout_s=5)


async def test_slow_requests_do_not_delay_others() -> None:
    async def slow(asked: Asked) -> None:
        await asyncio.sleep(1)
        raise NotImplementedError

    async with scripted(legacy(on("tools/call", slow))) as server, Client(config(server)) as client:
        call = asyncio.create_task(client.call_tool("echo"))
        await until(lambda: server.count("tools/call") == 1)
        await client.tools(timeout_s=0.5)
        await call


async def test_closing_tells_those_who_wait_and_ends_the_session() -> None:
    async def hang(asked: Asked) -> None:
        await asyncio.sleep(20)

    async with nothing_left(), scripted(legacy(on("tools/call", hang))) as server:
        client = await Client(config(server)).start()
        call = asyncio.create_task(client.call_tool("echo", timeout_s=20))
        await until(lambda: server.count("tools/call") == 1)
        started = time.monotonic()
        await client.close()
        with pytest.raises(ConnectionClosed):
            await call
        assert time.monotonic() - started < 1
        assert server.count("DELETE") == 1
        await client.close()
        assert server.count("DELETE") == 1


async def test_closing_is_bounded_when_the_server_hangs() -> None:
    handler = legacy(on("DELETE", lambda asked: asyncio.sleep(20)))
    async with nothing_left(), scripted(handler) as server:
        client = await Client(config(server)).start()
        started = time.monotonic()
        await client.close()
        assert time.monotonic() - started < 4


async def test_what_the_server_says_unasked_arrives_and_questions_are_answered() -> None:
    heard: list[str] = []

    async def handle(asked: Asked) -> None:
        if asked.method != "GET":
            raise NotImplementedError
        await asked.stream("data: \n\n", 'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')
        await asked.stream("data: nonsense\n\n", 'data: {"jsonrpc":"2.0","id":"q","method":"ping"}\n\n')
        await asyncio.sleep(20)

    async with nothing_left(), scripted(legacy(handle)) as server:
        async with Client(config(server), on_change=lambda change: heard.append(change.kind)):
            await until(lambda: heard == ["tools"] and server.count("answer") == 1)
        answer = server.all("answer")[0]
        assert answer.message == {"jsonrpc": "2.0", "id": "q", "result": {}}
        assert answer.headers["mcp-session-id"] == "s1"


async def _ends_soon(asked: Asked) -> None:
    await asked.stream("retry: 1\n\n")
    await asyncio.sleep(0.02)
    asked.close()


async def test_a_stream_that_lives_long_is_opened_again_however_often_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "STEADY_STREAM_S", 0.01)
    async with nothing_left(), scripted(legacy(on("GET", _ends_soon))) as server, Client(config(server)):
        await until(lambda: server.count("GET") > 30)


async def test_a_stream_that_never_lives_long_is_given_up_and_the_hook_is_told() -> None:
    said: list[str] = []
    handler = legacy(on("GET", _ends_soon))
    async with scripted(handler) as server, Client(config(server, on_stderr_line=said.append)) as client:
        await until(lambda: any("is given up" in line for line in said))
        assert server.count("GET") == 20
        assert len(await client.tools()) == 1


async def test_an_answer_may_come_on_the_other_stream() -> None:
    streams: list[Asked] = []

    async def handle(asked: Asked) -> None:
        if asked.method == "GET":
            streams.append(asked)
            await asked.stream(": open\n\n")
            await asyncio.sleep(20)
        elif asked.rpc == "tools/call":
            await asked.reply(202, {"accepted": True})
            await streams[0].stream(asked.event({"content": [{"type": "text", "text": "elsewhere"}]}))
        else:
            raise NotImplementedError

    async with nothing_left(), scripted(legacy(handle)) as server, Client(config(server)) as client:
        await until(lambda: bool(streams))
        assert (await client.call_tool("echo")).content[0].text == "elsewhere"


async def test_a_question_on_a_stream_that_opens_late_is_not_missed() -> None:
    streams: list[Asked] = []

    async def handle(asked: Asked) -> None:
        if asked.method == "GET":
            await asyncio.sleep(0.2)
            await asked.stream(": open\n\n")
            streams.append(asked)
            await asyncio.sleep(20)
        elif asked.rpc == "tools/call":
            assert streams, "what is said before anybody listens is lost"
            await streams[0].stream('data: {"jsonrpc":"2.0","id":"q","method":"ping"}\n\n')
            await asked.result({"content": []})
        else:
            raise NotImplementedError

    async with nothing_left(), scripted(legacy(handle)) as server, Client(config(server)) as client:
        await client.call_tool("echo")
        await until(lambda: server.count("answer") == 1)


async def test_a_stream_that_never_opens_holds_up_the_first_call_only_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "LISTENING_S", 0.05)
    handler = legacy(on("GET", lambda asked: asyncio.sleep(20)))
    async with nothing_left(), scripted(handler) as server, Client(config(server)) as client:
        async with asyncio.timeout(5):
            assert (await client.call_tool("echo")).content[0].text == "called"
        monkeypatch.setattr(bounds, "LISTENING_S", 20)
        async with asyncio.timeout(5):
            await client.call_tool("echo")


async def test_a_redirect_is_never_followed() -> None:
    async with nothing_left(), scripted(legacy()) as victim:

        async def redirect(asked: Asked) -> None:
            await asked.reply(307, b"", location=victim.url)

        async with scripted(redirect) as server:
            with pytest.raises(HttpError, match="never followed"):
                await Client(config(server)).start()
        assert victim.asked == []


async def test_a_public_name_that_leads_home_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with nothing_left(), scripted(legacy()) as server:
        for fields in ({"allow_private_network": False}, {"url": "http://169.254.169.254/mcp", "open_timeout_s": 2}):
            with pytest.raises(EgressRefused) as raised:
                await Client(config(server, **fields)).start()
            assert "127.0.0.1" not in str(raised.value)
            assert "169.254" not in str(raised.value)
        assert server.asked == []


async def test_a_server_that_is_not_there() -> None:
    async with scripted(legacy()) as server:
        gone = config(server)
    with pytest.raises(TransportError, match="cannot be reached") as raised:
        await Client(gone).start()
    assert not raised.value.may_have_executed


async def test_a_session_id_that_is_none_is_refused() -> None:
    async def handle(asked: Asked) -> None:
        await asked.result({"protocolVersion": "2025-11-25"}, mcp_session_id="a b")

    async with nothing_left(), scripted(handle) as server:
        with pytest.raises(TransportError, match="session id"):
            await Client(config(server)).start()


async def test_batches_of_answers_are_taken_apart() -> None:
    async def batch(asked: Asked) -> None:
        note = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'
        await asked.reply(
            200, f'[{note},{{"jsonrpc":"2.0","id":{asked.message["id"]},"result":{{"tools":[]}}}}]'.encode()
        )

    logged: list[Any] = []
    async with scripted(legacy(on("tools/list", batch), version="2025-03-26")) as server:
        async with Client(config(server), on_log=logged.append) as client:
            assert await client.tools() == []
        assert logged[0].data == "x"


# -- eras ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "refuse",
    [
        lambda asked: asked.reply(400),
        lambda asked: asked.reply(404, b"not found"),
        lambda asked: asked.reply(405),
        lambda asked: asked.reply(406),
        lambda asked: asked.reply(500),
        lambda asked: asked.reply(200, b"<html>"),
        lambda asked: asked.error(400, -32000, "Server not initialized"),
        lambda asked: asked.error(200, -32601, "Method not found"),
        lambda asked: asked.error(400, -32602, "Invalid request parameters"),
        lambda asked: asked.error(400, -32022, "Unsupported", {"supported": ["2025-06-18"], "requested": "2026-07-28"}),
    ],
)
async def test_the_signs_of_the_legacy_era(refuse: Handler) -> None:
    async with nothing_left(), scripted(legacy(on("server/discover", refuse))) as server:
        for _ in range(2):
            async with Client(config(server, protocol_version=None)) as client:
                assert client.era == "legacy"
                assert len(await client.tools()) == 1
        assert server.count("server/discover") == 1, "the verdict is remembered"
        first = server.asked[0].headers
        assert (first["mcp-protocol-version"], first["mcp-method"]) == ("2026-07-28", "server/discover")
        era.forget(server.url)


@pytest.mark.parametrize("status", [401, 403, 429, 502, 503])
async def test_what_is_no_sign_of_any_era(status: int) -> None:
    async with scripted(legacy(on("server/discover", lambda asked: asked.reply(status)))) as server:
        with pytest.raises(HttpError):
            await Client(config(server, protocol_version=None)).start()
        assert server.count("initialize") == 0


async def test_a_version_that_is_refused_and_offered_again_is_tried_again() -> None:
    tries = itertools.count()

    async def handle(asked: Asked) -> None:
        if next(tries) == 0:
            await asked.error(400, -32022, "Unsupported", {"supported": ["2026-07-28"], "requested": "2026-07-28"})
        else:
            await asked.result({"supportedVersions": ["2026-07-28"], "capabilities": {}, "serverInfo": {"name": "m"}})

    async with scripted(handle) as server, Client(config(server, protocol_version=None)) as client:
        assert client.era == "modern"
        assert client.server_info.name == "m"


async def test_versions_that_nobody_here_speaks_fail_the_start() -> None:
    async def handle(asked: Asked) -> None:
        await asked.error(400, -32022, "Unsupported", {"supported": ["2031-01-01"], "requested": "2026-07-28"})

    async with nothing_left(), scripted(handle) as server:
        with pytest.raises(ProtocolVersionNotSupported, match="2031-01-01"):
            await Client(config(server, protocol_version=None)).start()


async def test_a_modern_server_without_discovery_is_modern_all_the_same() -> None:
    async def handle(asked: Asked) -> None:
        if asked.rpc == "server/discover":
            await asked.error(404, -32601, "Method not found")
        else:
            await asked.result({"tools": []})

    async with scripted(handle) as server, Client(config(server, protocol_version=None)) as client:
        assert client.era == "modern"
        assert await client.tools() == []


async def test_a_handshake_names_its_methods_in_headers_and_what_follows_need_not() -> None:
    async with scripted(legacy()) as server:
        async with Client(config(server)) as client:
            await client.tools()
        for method in ("initialize", "notifications/initialized"):
            assert server.all(method)[0].headers["mcp-method"] == method
        assert "mcp-method" not in server.all("tools/list")[0].headers


async def test_a_modern_notification_has_the_headers_of_a_request() -> None:
    async def handle(asked: Asked) -> None:
        if asked.rpc == "server/discover":
            await asked.result({"supportedVersions": ["2026-07-28"], "capabilities": {}})
        else:
            await asked.reply(202)

    async with scripted(handle) as server, Client(config(server, protocol_version=None)) as client:
        await client.notify(Note("notifications/x", {"a": 1}))
        (told,) = server.all("notifications/x")
        assert told.headers["mcp-method"] == "notifications/x"
        assert told.headers["mcp-protocol-version"] == "2026-07-28"
        assert told.message == {"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": 1}}


async def test_the_timeout_governs_the_probe() -> None:
    async def hang(asked: Asked) -> None:
        await asyncio.sleep(60)

    async with nothing_left(), scripted(legacy(on("server/discover", hang))) as server, asyncio.timeout(5):
        with pytest.raises(DeadlineExceeded, match=r"server/discover did not come within 0\.3 s"):
            await Client(config(server, protocol_version=None, timeout_s=0.3)).start()
        assert server.count("initialize") == 0


async def test_a_pinned_version_is_not_probed() -> None:
    async with scripted(legacy(version="2025-06-18")) as server:
        async with Client(config(server, protocol_version="2025-06-18")) as client:
            assert client.protocol_version == "2025-06-18"
        assert server.count("server/discover") == 0
        assert server.all("initialize")[0].message["params"]["protocolVersion"] == "2025-06-18"


async def test_a_modern_stream_that_breaks_is_a_lost_request() -> None:
    async def handle(asked: Asked) -> None:
        if asked.rpc == "server/discover":
            await asked.result({"supportedVersions": ["2026-07-28"], "capabilities": {}})
        else:
            await asked.stream("id: e1\nretry: 1\ndata:\n\n")
            asked.close()

    async with nothing_left(), scripted(handle) as server, Client(config(server, protocol_version=None)) as client:
        with pytest.raises(TransportError, match="ended before"):
            await client.call_tool("x")
        assert server.count("GET") == 0
        assert server.count("tools/call") == 1


async def test_a_mirrored_header_that_is_missing_makes_us_look_again() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}}

    async def handle(asked: Asked) -> None:
        match asked.rpc:
            case "server/discover":
                await asked.result({"supportedVersions": ["2026-07-28"], "capabilities": {}})
            case "tools/list":
                bad = {
                    "name": "bad",
                    "inputSchema": {"type": "object", "properties": {"x": {"type": "number", "x-mcp-header": "X"}}},
                }
                await asked.result({"tools": [{"name": "weather", "inputSchema": schema}, bad]})
            case _ if "mcp-param-city" not in asked.headers:
                await asked.error(400, -32020, "Header mismatch")
            case _:
                await asked.result({"content": [{"type": "text", "text": asked.headers["mcp-param-city"]}]})

    async with nothing_left(), scripted(handle) as server, Client(config(server, protocol_version=None)) as client:
        result = await client.call_tool("weather", {"city": "Zürich"})
        assert result.content[0].text == "=?base64?WsO8cmljaA==?="
        assert server.count("tools/call") == 2
        assert server.all("tools/call")[0].headers["mcp-name"] == "weather"
        assert [tool.name for tool in await client.tools()] == ["weather"]
        await client.call_tool("weather", {"city": "Bern"})
        assert server.count("tools/call") == 3


async def test_a_secret_that_the_server_repeats_is_masked() -> None:
    async def echo(asked: Asked) -> None:
        await asked.reply(500, asked.headers["authorization"].encode() + b" was wrong")

    async with scripted(echo) as server:
        with pytest.raises(HttpError) as raised:
            await Client(config(server, headers={"Authorization": "Bearer canary-4711"})).start()
        assert raised.value.data["body"] == "*** was wrong"
        assert "canary" not in f"{raised.value!r} {raised.value.data}"


@pytest.mark.parametrize("status", [200, 400, 401, 500])
async def test_a_secret_in_a_json_rpc_error_is_masked(status: int, caplog: pytest.LogCaptureFixture) -> None:
    async def echo(asked: Asked) -> None:
        got = asked.headers["authorization"]
        data = {"got": [got, {got: 1}], "url": "https://example.com/?access_token=theirs"}
        await asked.error(status, -32000, f"{got} was wrong", data, www_authenticate=f'Bearer realm="{got}"')

    async with scripted(echo) as server:
        secret = config(server, headers={"Authorization": "Bearer canary-4711"})
        with pytest.raises(HttpError if status == 401 else RemoteError, match=r"\*\*\* was wrong") as raised:
            await Client(secret).start()
        if status == 401:
            assert raised.value.data["www_authenticate"] == 'Bearer realm="***"'
        else:
            url = "https://example.com/?access_token=theirs"
            assert raised.value.data == {"got": ["***", {"***": 1}], "url": url}
        async with Fleet([secret], restart=False) as fleet:
            assert "s" in fleet.errors
    assert "s is not connected" in caplog.text
    assert "canary" not in f"{raised.value!r} {raised.value.data} {caplog.text}"
