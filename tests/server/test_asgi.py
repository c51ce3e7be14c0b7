"""`Server.asgi` without an ASGI server: lifespan, mounts, refusals and limits.

Real ASGI servers are in `tests/http/test_asgi_servers.py`.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.http.eras import initialize_request, modern_request
from tests.http.keyring import Keyring
from tests.http.raw_http import TIMEOUT_S, call
from tests.server.asgi_exchange import LOOPBACK, AsgiExchange, call_app

from hubbub import AsgiApp, AsgiOptions, Context, DefinitionError, Server, SettingsError
from hubbub.settings import ServeSettings
from hubbub.settings.fields import list_settings

NETWORK = ("192.0.2.1", 8000)


def make_server() -> Server:
    server = Server("embedded")

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


# -- lifespan --------------------------------------------------------------------------------


async def run_lifespan(app: AsgiApp) -> list[str]:
    """Start and stop an app as an ASGI server does; return the types of the messages that it sent."""
    incoming = [{"type": "lifespan.shutdown"}, {"type": "lifespan.startup"}]
    sent: list[Any] = []

    async def receive() -> dict[str, str]:
        return incoming.pop()

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await app({"type": "lifespan"}, receive, send)
    return sent


async def test_an_asgi_server_runs_the_lifespan() -> None:
    server, log = make_server(), []

    @server.lifespan
    @asynccontextmanager
    async def remember(server: Server) -> AsyncIterator[None]:
        log.append("opened")
        yield
        log.append("closed")

    assert await run_lifespan(server.asgi()) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert log == ["opened", "closed"]


async def test_a_lifespan_that_fails_stops_the_asgi_server() -> None:
    server, sent = make_server(), []

    @server.lifespan
    @asynccontextmanager
    async def fail(server: Server) -> AsyncIterator[None]:
        raise OSError("no database")
        yield  # type: ignore[unreachable]  # makes it a generator

    async def receive() -> dict[str, str]:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    with pytest.raises(OSError, match="no database"):
        await server.asgi()({"type": "lifespan"}, receive, send)
    assert sent == [{"type": "lifespan.startup.failed", "message": "OSError: no database"}]


async def test_an_app_that_was_not_started_says_what_to_do() -> None:
    with pytest.raises(DefinitionError, match=r"FastAPI\(lifespan=tools\.lifespan\)"):
        await call_app(make_server().asgi())


async def test_a_lifespan_is_entered_once() -> None:
    app = make_server().asgi()
    async with app.lifespan():
        with pytest.raises(DefinitionError, match="already running"):
            async with app.lifespan():
                pass
        assert (await call_app(app)).status == 200


def test_an_app_can_be_started_again_in_another_loop_and_thread() -> None:
    app = make_server().asgi()

    async def once() -> int:
        async with app.lifespan():
            return (await call_app(app)).status

    with ThreadPoolExecutor() as threads:  # as test clients do
        assert [asyncio.run(once()), threads.submit(asyncio.run, once()).result()] == [200, 200]


@pytest.mark.parametrize("drain_s", [0.0, 600.0])
async def test_calls_that_run_when_the_lifespan_ends_are_answered_or_cancelled(drain_s: float) -> None:
    server, started, may_end = Server("slow"), asyncio.Event(), asyncio.Event()

    @server.tool
    async def slow() -> str:
        started.set()
        await may_end.wait()
        return "done"

    app = server.asgi(drain_s=drain_s)
    async with app.lifespan():
        running = asyncio.create_task(call_app(app, body=call("slow")))
        await started.wait()
        if drain_s:
            asyncio.get_running_loop().call_soon(may_end.set)
    assert running.done()
    assert running.result().status == (200 if drain_s else 503)


# -- mounts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "root_path", "status"),
    [
        ("/tools/mcp", "/tools", 200),  # Starlette, and uvicorn with --root-path
        ("/mcp", "/tools", 200),  # a proxy or server that strips the prefix
        ("/mcp", "", 200),
        ("/a/b/mcp", "/a/b", 200),
        ("/toolsmcp", "/tools", 404),
        ("/tools/mcp", "", 404),
    ],
)
async def test_paths_are_those_below_the_mount(path: str, root_path: str, status: int) -> None:
    app = make_server().asgi()
    async with app.lifespan():
        assert (await call_app(app, path, root_path=root_path)).status == status


async def test_a_prefix_cannot_break_headers_or_events() -> None:
    app = make_server().asgi()
    root = "/a;b\r\nc"
    async with app.lifespan():
        plain = await call_app(app, f"{root}/mcp", root_path=root)
        assert b"; Path=/a%3Bb%0D%0Ac; HttpOnly" in plain.headers[b"set-cookie"]
        old = AsgiExchange(f"{root}/sse", root_path=root, method="GET")
        old.incoming.put_nowait({"type": "http.request"})
        serving = asyncio.create_task(app(old.scope, old.incoming.get, old.send))
        while len(old.sent) < 2:
            await asyncio.sleep(0)
        assert old.sent[1]["body"].startswith(b"event: endpoint\ndata: /a%3Bb%0D%0Ac/messages?session_id=")
        old.incoming.put_nowait({"type": "http.disconnect"})
        await serving


# -- authentication ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "status"),
    [
        (LOOPBACK, 200),
        (("::1", 8000), 200),
        (("/run/app.sock", None), 200),
        (("/run/granian.sock", "0"), 200),
        (NETWORK, 403),
        (("0.0.0.0", 8000), 403),
        (("api.example.com", None), 403),
        (None, 403),
    ],
)
async def test_without_authentication_only_loopback_is_served(server: Any, status: int) -> None:
    app = make_server().asgi()
    async with app.lifespan():
        answer = await call_app(app, server=server)
        assert answer.status == status
        if status == 403:
            assert "key_file" in answer.json["error"]["message"]
        socket = await AsgiExchange("/mcp-ws", type="websocket", server=NETWORK).run(app)
        assert socket.sent == [{"type": "websocket.close", "code": 1008}]


async def test_the_insecure_option_allows_network_callers_but_still_checks_hosts() -> None:
    app = make_server().asgi(insecure=True)
    async with app.lifespan():
        assert (await call_app(app, server=NETWORK)).status == 200
        assert (await call_app(app, headers=[(b"host", b"evil.example")])).status == 403


async def test_authenticated_callers_may_call_over_the_network_within_the_default_limits(tmp_path: Path) -> None:
    keys = Keyring(tmp_path / "keys.toml")
    key = keys.add("alice")["X-API-Key"].encode()
    app = make_server().asgi(key_file=str(keys.path), allowed_hosts=["api.example.com"])
    headers = [(b"host", b"api.example.com"), (b"content-type", b"application/json")]
    async with app.lifespan():
        assert (await call_app(app, server=NETWORK, headers=headers)).status == 401
        answers = [await call_app(app, server=NETWORK, headers=[*headers, (b"x-api-key", key)]) for _ in range(101)]
        assert [answer.status for answer in answers] == [200] * 100 + [429]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allowed_hosts": ["a b"]}, "allowed_hosts: 'a b' is not a host"),
        ({"allowed_origins": ["example.com"]}, "allowed_origins"),
        ({"limits": ["mcp=often"]}, "limits: 'mcp=often' is not a rate limit"),
        ({"key_file": "/nowhere/keys.toml"}, "/nowhere/keys.toml"),
        ({"max_streams": 0}, "max_streams must be"),
        ({"allowed_hosts": "example.com"}, "allowed_hosts must be"),
        ({"response": "xml"}, "response must be one of auto, json, sse"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        make_server().asgi(**options)


def test_asgi_options_are_serve_settings_and_environment_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {setting.key for setting in list_settings(ServeSettings)}
    assert set(AsgiOptions.__annotations__) <= known
    monkeypatch.setenv("HUBBUB_MAX_STREAMS", "none")
    make_server().asgi()


# -- bounds ----------------------------------------------------------------------------------


async def test_a_body_that_does_not_arrive_in_time_is_refused() -> None:
    app = make_server().asgi(body_s=0.01)
    exchange = AsgiExchange()
    async with app.lifespan(), asyncio.timeout(TIMEOUT_S):
        exchange.incoming.put_nowait({"type": "http.request", "body": b"{", "more_body": True})
        await app(exchange.scope, exchange.incoming.get, exchange.send)
        assert exchange.status == 408
        assert exchange.headers[b"connection"] == b"close"
        assert "(body_s)" in exchange.json["error"]["message"]
        assert b'hubbub_callers_cut_off_total{reason="slow_sender"} 1.0' in await read_metrics(app)


async def test_a_response_without_content_has_no_length() -> None:
    app = make_server().asgi()
    async with app.lifespan():
        opened = await call_app(app, body=initialize_request())
        headers = [*opened.scope["headers"], (b"mcp-session-id", opened.headers[b"mcp-session-id"])]
        ended = await call_app(app, method="DELETE", headers=headers)
        assert ended.status == 204
        assert b"content-length" not in ended.headers


@pytest.mark.parametrize(("length", "status"), [(b"0" * 5000, 200), (b"0" * 5000 + b"9" * 9, 413), (b"9" * 5000, 413)])
async def test_a_length_may_have_thousands_of_digits(length: bytes, status: int) -> None:
    app = make_server().asgi()
    async with app.lifespan():
        exchange = AsgiExchange()
        exchange.scope["headers"].append((b"content-length", length))
        assert (await exchange.run(app, call("echo", {"text": "hi"}))).status == status


@pytest.mark.parametrize("is_slow", [True, False])
async def test_the_call_of_a_caller_that_does_not_read_or_has_disconnected_is_cancelled(is_slow: bool) -> None:
    server, ended = make_server(), asyncio.Event()

    @server.tool
    async def stuck(context: Context) -> str:
        try:
            await context.progress(1)
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            if not is_slow:
                raise ConnectionResetError
            await asyncio.Event().wait()

    app = server.asgi(slow_reader_s=0.01)
    body, headers = modern_request("tools/call", {"name": "stuck", "arguments": {}}, progressToken=1)
    sent = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    exchange = AsgiExchange(headers=[*AsgiExchange().scope["headers"], *sent])
    exchange.incoming.put_nowait({"type": "http.request", "body": json.dumps(body).encode()})
    async with app.lifespan(), asyncio.timeout(TIMEOUT_S):
        await app(exchange.scope, exchange.incoming.get, send)
        assert ended.is_set()
        is_counted = b'hubbub_callers_cut_off_total{reason="slow_reader"} 1.0' in await read_metrics(app)
        assert is_counted == is_slow


async def test_a_websocket_whose_client_does_not_read_is_closed() -> None:
    app = make_server().asgi(slow_reader_s=0.01)
    exchange = AsgiExchange("/mcp-ws", type="websocket")

    async def send(message: Any) -> None:
        if message["type"] == "websocket.send":
            await asyncio.Event().wait()

    exchange.incoming.put_nowait({"type": "websocket.connect"})
    exchange.incoming.put_nowait({"type": "websocket.receive", "text": json.dumps(call("echo", {"text": "hi"}))})
    async with app.lifespan(), asyncio.timeout(TIMEOUT_S):
        await app(exchange.scope, exchange.incoming.get, send)
        assert b"hubbub_websockets 0.0" in await read_metrics(app)


async def test_concurrent_requests_are_limited() -> None:
    app = make_server().asgi(max_connections=1)
    first = AsgiExchange()
    async with app.lifespan():
        waiting = asyncio.create_task(app(first.scope, first.incoming.get, first.send))
        await asyncio.sleep(0)
        refused = await call_app(app)
        assert (refused.status, refused.headers[b"retry-after"]) == (503, b"1")
        assert "(max_connections)" in refused.json["error"]["message"]
        first.incoming.put_nowait({"type": "http.disconnect"})
        await waiting
        assert (await call_app(app)).status == 200


async def read_metrics(app: AsgiApp) -> bytes:
    """Return the text of `/metrics`."""
    answer = await AsgiExchange("/metrics", method="GET").run(app)
    return bytes(answer.sent[1]["body"])


def test_no_http_server_is_loaded() -> None:
    code = (
        "import sys; from hubbub import Server; Server('x').asgi(); assert not {'uvicorn', 'uvloop'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(("option", "message"), [("key_fil", "did you mean 'key_file'"), ("host", "known: ")])
def test_an_option_that_does_not_exist_is_refused(option: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Server("s").asgi(**{option: "x"})  # type: ignore[arg-type]
