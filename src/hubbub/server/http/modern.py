"""The stateless era over HTTP: each POST stands for itself, and its headers must agree with its body."""

from __future__ import annotations

import asyncio

import msgspec

from hubbub.errors import HeaderMismatch, HubbubError, InvalidParams
from hubbub.protocol.error_forms import error_object, http_status
from hubbub.protocol.headers import check_parameters, decode_value
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.jsonrpc import encode_error
from hubbub.protocol.ladder import modern_caller
from hubbub.protocol.revisions import Revision
from hubbub.server.answer import answer
from hubbub.server.http.call_stream import CallStream, ResponseMode, mode_for
from hubbub.server.http.incoming import Incoming
from hubbub.server.server import Server

_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Modern:
    """Serves modern calls."""

    def __init__(self, server: Server, mode: ResponseMode) -> None:
        self._server = server
        self._mode = mode

    async def call(self, incoming: Incoming, revision: Revision) -> None:
        """Answer one call; a caller that leaves cancels it."""
        exchange = incoming.exchange
        try:
            self._check_headers(incoming)
        except HubbubError as error:
            body = encode_error(incoming.id, error_object(error, revision))
            await exchange.reply(http_status(error), body)
            return
        caller = modern_caller(incoming.meta, revision, incoming.principal)
        # What listens has nothing to answer, so JSON alone would leave it in silence for ever.
        listens = incoming.method == "subscriptions/listen"
        mode = "auto" if listens else mode_for(exchange.headers, self._mode)
        stream = CallStream(exchange, revision, mode)
        exchange.watch(cancel=True)
        try:
            response, failure = await answer(self._server.peer, incoming.call(caller, stream), self._server.identity)
            exchange.unwatch()
        except asyncio.CancelledError:
            exchange.unwatch()
            if exchange.has_left:
                return
            raise
        await stream.answer(200 if failure is None else http_status(failure), response)

    def _check_headers(self, incoming: Incoming) -> None:
        headers, method = incoming.exchange.headers, incoming.method
        if headers.get(b"mcp-method") != method:
            raise HeaderMismatch(f"The header Mcp-Method must be {method!r}, the method of the body")
        if isinstance(incoming.params, InvalidParams):
            return
        member = _NAMED_BY.get(method)
        if member is None:
            return
        name = getattr(incoming.params, member)
        sent = headers.get(b"mcp-name")
        is_plain = sent == name and name.isascii() and name.isidentifier()  # as most are: there is one way to write it
        if not is_plain and (sent is None or decode_value(sent) != name):
            raise HeaderMismatch(f"The header Mcp-Name must be {name!r}, the `{member}` of the body")
        if method == "tools/call":
            self._check_parameter_headers(name, incoming.params.arguments, headers)

    def _check_parameter_headers(self, name: str, arguments: msgspec.Raw, headers: Headers) -> None:
        wanted = self._server.tool_headers(name)
        if not wanted:
            return
        try:
            given = msgspec.json.decode(arguments, type=dict)
        except msgspec.DecodeError:
            return  # the tool itself says what is wrong with its arguments
        check_parameters(wanted, given, lambda header: headers.get(header.lower().encode()))
