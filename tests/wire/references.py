"""Other HTTP servers that get the same bytes: uvicorn with either of its parsers, and h11 by itself."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import unquote

import h11
import httptools
import uvicorn
from tests.wire.recording_server import SeenRequest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

_SITE = re.compile("^[a-z]+://[^/?]*")


class UvicornReference:
    """uvicorn with httptools and an app that records requests."""

    def __init__(self) -> None:
        self.seen: list[SeenRequest] = []
        self.port = 0

    async def app(self, scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        body, message = b"", {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message["body"]
        query = scope["query_string"].decode("latin-1")
        self.seen.append(SeenRequest(scope["method"], scope["path"], query, body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


@asynccontextmanager
async def run_uvicorn() -> AsyncIterator[UvicornReference]:
    reference = UvicornReference()
    config = uvicorn.Config(
        reference.app, interface="asgi3", log_config=None, access_log=False, lifespan="off", ws="none"
    )
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: HttpToolsProtocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    reference.port = server.sockets[0].getsockname()[1]
    try:
        yield reference
    finally:
        server.close()
        await server.wait_closed()


class _HttptoolsReader:
    """Collects the complete requests that httptools finds."""

    def __init__(self) -> None:
        self.seen: list[SeenRequest] = []
        self.parser = httptools.HttpRequestParser(self)
        self._url = self._body = b""

    def on_message_begin(self) -> None:
        self._url = self._body = b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            url = httptools.parse_url(self._url)
            path, query = unquote(url.path.decode("latin-1")), (url.query or b"").decode("latin-1")
            self.seen.append(SeenRequest(self.parser.get_method().decode(), path, query, self._body))
        if self.parser.get_http_version() == "1.0":
            raise EOFError("uvicorn closes the connection")


def parse_with_httptools(data: bytes) -> list[SeenRequest]:
    """Return the complete requests before the first error: uvicorn drops those that still wait for a response."""
    reader = _HttptoolsReader()
    with suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
        reader.parser.feed_data(data)
    return reader.seen


def parse_with_h11(data: bytes) -> list[SeenRequest]:
    """Return the complete requests that h11 finds in these bytes, up to its first error."""
    connection = h11.Connection(h11.SERVER)
    seen: list[SeenRequest] = []
    head, body = None, b""
    try:
        connection.receive_data(data)
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                head, body = event, b""
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                path, _, query = _SITE.sub("", head.target.decode("latin-1")).partition("?")
                seen.append(SeenRequest(head.method.decode(), unquote(path), query, body))
                status = 405 if head.method == b"CONNECT" else 200
                connection.send(h11.Response(status_code=status, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE:
                    return seen
                connection.start_next_cycle()
            else:  # it needs more data, or the connection is closed
                return seen
    except h11.RemoteProtocolError:
        return seen
