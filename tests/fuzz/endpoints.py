"""Complete servers with mutated input, in one process: in memory, over HTTP and over WebSocket.

Each function sends a number of inputs and asserts that every response is JSON-RPC, that every
request with a unique id gets its response, and that no resources are left.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

import msgspec
from tests.fuzz.mutation import change_bytes, echo_call, random_message
from tests.fuzz.server import make_server
from tests.http.eras import BOTH_MEDIA_TYPES, MODERN
from tests.server.raw_transport import RawTransport

from hubbub import AsgiApp, MessageError, Server
from hubbub.protocol.jsonrpc import Envelope, decode_envelope

SESSIONS = 20
INPUTS_PER_CLIENT = 20
LOOP_ITERATIONS = 40
"""Iterations of the event loop after which a call that needs no input has finished."""
TIMEOUT_S = 60.0
STATUSES = {200, 202, 204, 400, 401, 403, 404, 405, 406, 413, 415, 426, 503}
_LAST_ID = "the last one"


def check_message(message: Any) -> None:
    """Assert that an outgoing message is valid JSON-RPC."""
    assert message["jsonrpc"] == "2.0"
    if "method" in message:
        assert set(message) <= {"jsonrpc", "id", "method", "params"}
        return
    assert set(message) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}), message
    assert isinstance(message["id"], str | int | float | None)
    if "error" in message:
        assert isinstance(message["error"]["code"], int)
        assert message["error"]["message"] != "Internal error", message
        assert isinstance(message["error"]["message"], str)


def decode_messages(text: bytes | str) -> list[Any]:
    found = json.loads(text)
    messages = found if isinstance(found, list) else [found]
    for message in messages:
        check_message(message)
    return messages


def id_of_request(data: bytes) -> Any:
    """Return the id of a valid request that must be answered; None for any other input."""
    try:
        message = decode_envelope(data)
    except MessageError:
        return None
    if not isinstance(message, Envelope) or message.id is msgspec.UNSET or message.method is msgspec.UNSET:
        return None
    return json.loads(bytes(message.id))


async def run_loop(count: int = LOOP_ITERATIONS) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# -- in memory ----------------------------------------------------------------------


async def memory(rng: Random, count: int) -> None:
    """Run clients in memory, each with a few inputs."""
    server = make_server()
    async with server.running():
        for start in range(0, count, INPUTS_PER_CLIENT):
            async with asyncio.timeout(TIMEOUT_S):
                await _fuzz_memory_client(rng, server, min(INPUTS_PER_CLIENT, count - start))
            assert len(server.broadcaster) == len(server.rounds) == len(server.broadcaster.subscription_shares) == 0


async def _fuzz_memory_client(rng: Random, server: Server, count: int) -> None:
    async with RawTransport(server) as link:
        for _ in range(count):
            data = random_message(rng)
            link.send(data)
            await run_loop()
            outputs = [
                message for _ in range(link.pending_count()) for message in decode_messages(await link.receive())
            ]
            request_id = id_of_request(data)
            answers = [message for message in outputs if "method" not in message]
            has_input_request = any(message.get("method") == "elicitation/create" for message in outputs)
            if request_id is not None and not has_input_request and b"subscriptions/listen" not in data:
                assert answers, (data, outputs)
                assert request_id in [answer["id"] for answer in answers] or answers[0]["id"] is None, (data, outputs)
        link.send(json.dumps(echo_call(_LAST_ID)).encode())
        await link.finish()
        received = [message for _ in range(link.pending_count()) for message in decode_messages(await link.receive())]
        assert _LAST_ID in [message.get("id") for message in received]


# -- HTTP ---------------------------------------------------------------------------


class Answer(NamedTuple):
    status: int
    kind: bytes
    headers: dict[bytes, bytes]
    body: bytes


async def exchange(app: AsgiApp, method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer:
    """Pass one request to the app as an ASGI server does; the caller disconnects after a time limit."""
    started: dict[str, Any] = {}
    parts: list[bytes] = []
    disconnected = asyncio.Event()
    waiting = [{"type": "http.request", "body": body}]
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": headers,
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 80),
    }

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            assert not started, "answered twice"
            started.update(message)
        else:
            parts.append(message.get("body", b""))

    serving = asyncio.ensure_future(app(scope, receive, send))
    for _ in range(LOOP_ITERATIONS):
        if serving.done():
            break
        await asyncio.sleep(0)
    disconnected.set()
    _, unfinished = await asyncio.wait([serving], timeout=TIMEOUT_S)
    assert not unfinished, (method, path, headers, body)
    serving.result()
    fields = dict(started.get("headers", ()))
    return Answer(started.get("status", 0), fields.get(b"content-type", b""), fields, b"".join(parts))


def request_headers(rng: Random, session: bytes | None) -> list[tuple[bytes, bytes]]:
    """Return headers of some dialect, sometimes mutated, repeated or missing."""
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"accept", BOTH_MEDIA_TYPES.encode())]
    if session is not None and rng.random() < 0.5:
        headers += [(b"mcp-session-id", session), (b"mcp-protocol-version", b"2025-11-25")]
    elif session is not None and rng.random() < 0.3:
        headers.append((b"cookie", b"mcp_session=" + session))
    if rng.random() < 0.4:
        method = rng.choice([b"tools/call", b"tools/list", b"ping", b"subscriptions/listen", b"", b"resources/read"])
        headers += [(b"mcp-protocol-version", MODERN.encode()), (b"mcp-method", method)]
        headers.append((b"mcp-name", rng.choice([b"echo", b"turns", b"file:///a", b"=?base64?w6k=?="])))
    if rng.random() < 0.2:
        headers.append((b"last-event-id", rng.choice([b"1-1", b"2-0", b"x", b"9" * 70])))
    if rng.random() < 0.2:
        index = rng.randrange(len(headers))
        name, value = headers[index]
        value = change_bytes(rng, value).translate(None, b"\r\n\x00")
        headers[index : index + rng.randint(0, 1)] = [(name, value)] * rng.randint(0, 2)
    return headers


def check_answer(answer: Answer, path: str) -> list[Any]:
    if answer.status == 0:
        return []  # the caller disconnected before the response
    assert answer.status in STATUSES, answer
    if answer.kind == b"text/event-stream":
        lines = answer.body.decode().split("\n")
        data = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
        return [message for text in data if text.startswith(("{", "[")) for message in decode_messages(text)]
    is_rpc = path.startswith("/mcp") and path != "/mcp/health" and answer.body
    return decode_messages(answer.body) if is_rpc else []


async def http(rng: Random, count: int) -> None:
    """Send requests to every route; open and end sessions."""
    server = make_server()
    app = server.asgi(max_sessions=SESSIONS)
    session: bytes | None = None
    async with app.lifespan():
        before = len(asyncio.all_tasks())
        for _ in range(count):
            method = rng.choices(["POST", "GET", "DELETE", "PUT"], [20, 3, 1, 0.2])[0]
            path = "/mcp" if rng.random() < 0.9 else rng.choice(["/messages?session_id=x", "/sse", "/health", "/x"])
            # A client request in a session waits for its response even if the caller disconnects.
            body = random_message(rng).replace(b"declared", b"echo") if method == "POST" else b""
            headers = request_headers(rng, session)
            answer = await exchange(app, method, path, headers, body)
            outputs = check_answer(answer, path)
            if answer.status == 200 and answer.kind == b"application/json" and path == "/mcp":
                assert id_of_request(body) in (None, outputs[0]["id"]), (body, outputs)
            if answer.status == 202 and path == "/mcp":
                assert id_of_request(body) is None, body
            session = answer.headers.get(b"mcp-session-id", session)
            assert len(server.broadcaster) <= SESSIONS
        last = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        answer = await exchange(app, "POST", "/mcp", last, json.dumps(echo_call(_LAST_ID)).encode())
        assert (answer.status, decode_messages(answer.body)[0]["id"]) == (200, _LAST_ID)
        await run_loop()
        assert len(asyncio.all_tasks()) <= before
        assert len(server.rounds) == len(server.broadcaster.subscription_shares) == 0


# -- WebSocket ----------------------------------------------------------------------


async def websocket(rng: Random, count: int) -> None:
    """Run WebSocket clients, each with a few text or binary frames."""
    server = make_server()
    app = server.asgi(max_sessions=SESSIONS)
    async with app.lifespan():
        for start in range(0, count, INPUTS_PER_CLIENT):
            async with asyncio.timeout(TIMEOUT_S):
                await _fuzz_websocket(rng, app, min(INPUTS_PER_CLIENT, count - start))
            assert len(server.broadcaster) == len(server.broadcaster.subscription_shares) == 0


async def _fuzz_websocket(rng: Random, app: AsgiApp, count: int) -> None:
    incoming: asyncio.Queue[Any] = asyncio.Queue()
    sent: list[Any] = []
    scope = {
        "type": "websocket",
        "path": "/mcp-ws",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 80),
        "subprotocols": ["mcp.v1"],
    }

    async def send(message: Any) -> None:
        sent.append(message)

    incoming.put_nowait({"type": "websocket.connect"})
    serving = asyncio.ensure_future(app(scope, incoming.get, send))
    for _ in range(count):
        data = random_message(rng)
        frame: dict[str, Any] = {"bytes": data}
        with suppress(UnicodeDecodeError):
            frame = {"text": data.decode()} if rng.random() < 0.8 else frame
        incoming.put_nowait({"type": "websocket.receive", **frame})
        await run_loop(5)
    incoming.put_nowait({"type": "websocket.receive", "text": json.dumps(echo_call(_LAST_ID))})
    await run_loop()
    incoming.put_nowait({"type": "websocket.disconnect", "code": 1000})
    await serving
    texts = [message["text"] for message in sent if message["type"] == "websocket.send"]
    assert _LAST_ID in [message.get("id") for text in texts for message in decode_messages(text)]


FuzzEndpoint = Callable[[Random, int], Any]
ENDPOINTS: dict[str, FuzzEndpoint] = {"memory": memory, "http": http, "websocket": websocket}
