"""The stateless era over HTTP: each POST is independent, and its headers must agree with its body."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

import msgspec

from hubbub.errors import HeaderMismatch, HubbubError
from hubbub.ports import HttpExchange
from hubbub.protocol.calls import Call, Caller
from hubbub.protocol.dialect import modern_caller
from hubbub.protocol.error_codes import http_status
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.jsonrpc import encode_result
from hubbub.protocol.mcp_headers import check_header_parameters, decode_value
from hubbub.protocol.revisions import Revision
from hubbub.protocol.shape import shape
from hubbub.server.http.call_stream import CallStream, ResponseMode, choose_mode
from hubbub.server.responses import respond_error, respond_to_error
from hubbub.server.server import Server

if TYPE_CHECKING:
    from hubbub.server.http.post import IncomingMessage

_NAME_FIELDS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class ModernDialect:
    """Serves modern calls."""

    def __init__(self, server: Server, mode: ResponseMode) -> None:
        self._server = server
        self._mode = mode

    def call(self, incoming: IncomingMessage, revision: Revision) -> Awaitable[None]:
        """Answer one call; a disconnect cancels it."""
        exchange = incoming.exchange
        caller = modern_caller(incoming.meta, revision, incoming.principal, exchange.client)
        try:
            self._check_headers(incoming, caller)
        except HubbubError as error:
            return respond_error(exchange, error, revision, incoming.id)
        # A listen request gets only notifications, so JSON alone would send it nothing.
        is_listen = incoming.method == "subscriptions/listen"
        mode = "auto" if is_listen else choose_mode(exchange.headers, self._mode)
        stream = CallStream(exchange, revision, mode)
        return self._serve(incoming.call(caller, stream), stream, exchange)

    async def _serve(self, call: Call, stream: CallStream, exchange: HttpExchange) -> None:
        server, status = self._server, 200
        exchange.watch(cancel=True)
        try:
            try:
                reply = await server.peer.request(call)
                response = encode_result(call.id, shape(reply, call.caller.revision, server.identity))
            except BaseException as error:
                response, failure = respond_to_error(call, error, server.identity)
                status = 200 if failure is None else http_status(failure)
        except asyncio.CancelledError:
            exchange.unwatch()
            if exchange.is_disconnected:
                return
            raise
        exchange.unwatch()
        await stream.respond(status, response)

    def _check_headers(self, incoming: IncomingMessage, caller: Caller) -> None:
        headers, method = incoming.exchange.headers, incoming.method
        if headers.get(b"mcp-method") != method:
            raise HeaderMismatch(f"The header Mcp-Method must be {method!r}, the method of the body")
        if isinstance(incoming.params, HubbubError):
            return
        name_field = _NAME_FIELDS.get(method)
        if name_field is None:
            return
        name = getattr(incoming.params, name_field)
        name_header = headers.get(b"mcp-name")
        is_identical = (
            name_header == name and name.isascii() and name.isidentifier()
        )  # the usual case, without decoding
        if not is_identical and (name_header is None or decode_value(name_header) != name):
            raise HeaderMismatch(f"The header Mcp-Name must be {name!r}, the `{name_field}` of the body")
        if method == "tools/call":
            self._check_parameter_headers(self._server.tool_headers(name, caller), incoming.params.arguments, headers)

    def _check_parameter_headers(
        self, parameter_headers: Mapping[str, tuple[str, ...]], arguments: msgspec.Raw, headers: Headers
    ) -> None:
        if not parameter_headers:
            return
        try:
            values = msgspec.json.decode(arguments, type=dict)
        except msgspec.DecodeError:
            return  # the tool reports what is wrong with its arguments
        check_header_parameters(parameter_headers, values, lambda header: headers.get(header.lower().encode()))
