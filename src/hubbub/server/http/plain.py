"""Plain JSON-RPC over HTTP, without a handshake: for example one `curl` command."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hubbub.ports import HttpExchange
from hubbub.protocol.calls import Caller, Notification, Principal
from hubbub.protocol.http_headers import HeaderList
from hubbub.protocol.jsonrpc import encode_notification
from hubbub.protocol.revisions import PLAIN
from hubbub.server.http.call_stream import CallStream
from hubbub.server.http.cookies import Cookies, read_cookie, set_cookie
from hubbub.server.http.streams import Stream
from hubbub.server.responses import respond_to_call
from hubbub.server.server import Server
from hubbub.server.subscriptions import RESOURCE_UPDATED

if TYPE_CHECKING:
    from hubbub.server.http.post import IncomingMessage


class PlainDialect:
    """Serves callers that do not speak MCP."""

    def __init__(self, server: Server, cookies: Cookies) -> None:
        self._server = server
        self._cookies = cookies

    def identify_caller(self, exchange: HttpExchange, principal: Principal) -> tuple[Caller, HeaderList]:
        """Identify the caller by its cookie; also return the header that sets a new one if it has none of ours."""
        value = read_cookie(exchange.headers.get(b"cookie"))
        headers: HeaderList = ()
        if value is None or not self._cookies.is_issued(value):
            value = self._cookies.issue()
            headers = (set_cookie(value, exchange),)
        return Caller(revision=PLAIN, principal=principal, scope=value, address=exchange.client), headers

    async def call(self, incoming: IncomingMessage) -> None:
        """Answer one call; a disconnect cancels it."""
        exchange = incoming.exchange
        caller, headers = self.identify_caller(exchange, incoming.principal)
        exchange.watch(cancel=True)
        try:
            back = CallStream(exchange, PLAIN, "json")
            response, _ = await respond_to_call(self._server.peer, incoming.call(caller, back), self._server.identity)
        except asyncio.CancelledError:
            if exchange.is_disconnected:
                return
            raise
        finally:
            exchange.unwatch()
        await exchange.respond(200, response, headers)

    async def listen(self, exchange: HttpExchange, principal: Principal, stream: Stream) -> None:
        """Stream every change to a plain caller."""
        caller, headers = self.identify_caller(exchange, principal)
        listener = _PlainListener(stream, caller)
        self._server.broadcaster.add(listener)
        try:
            await exchange.start_stream(headers)
            await stream.pump(exchange, 0)
        finally:
            self._server.broadcaster.remove(listener)


class _PlainListener:
    """Appends every change of a list to a stream; plain callers cannot subscribe to resources."""

    scope = None
    watching: tuple[str, ...] = ()

    def __init__(self, stream: Stream, caller: Caller) -> None:
        self._stream = stream
        self.caller = caller
        self.principal = caller.principal.name

    def handle_change(self, note: Notification) -> None:
        if note.method != RESOURCE_UPDATED:
            self._stream.append(encode_notification(note.method, note.params))
