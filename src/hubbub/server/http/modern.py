"""The stateless era over HTTP: each POST is independent, and its headers must agree with its body."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec

from hubbub.errors import HeaderMismatch, HubbubError
from hubbub.ports import HttpExchange
from hubbub.protocol.calls import Call, Caller
from hubbub.protocol.error_codes import http_status
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.jsonrpc import encode_result
from hubbub.protocol.mcp_headers import check_header_parameters, decode_value
from hubbub.protocol.revisions import Revision
from hubbub.protocol.shape import shape
from hubbub.server.http.call_stream import CallStream
from hubbub.server.http.post_headers import PostHeaders, ResponseMode
from hubbub.server.responses import respond_error, respond_to_error
from hubbub.server.server import Server

_NAME_FIELDS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class ModernDialect:
    """Serves modern calls."""

    def __init__(self, server: Server, mode: ResponseMode) -> None:
        self._server = server
        self._mode = mode

    def make_stream(self, exchange: HttpExchange, declared: PostHeaders, method: str, revision: Revision) -> CallStream:
        """Make the return path of a call."""
        mode = self._mode
        if method == "subscriptions/listen":
            mode = "auto"  # it gets only notifications, which need a stream
        elif declared.accepts != "auto":
            mode = declared.choose_mode(mode)
        return CallStream(exchange, revision, mode)

    def serve(self, exchange: HttpExchange, call: Call, stream: CallStream) -> Awaitable[None]:
        """Answer one call; a disconnect cancels it."""
        try:
            self._check_headers(exchange.headers, call.method, call.params, call.caller)
        except HubbubError as error:
            return respond_error(exchange, error, call.caller.revision, call.id)
        return self._serve(exchange, call, stream)

    async def _serve(self, exchange: HttpExchange, call: Call, stream: CallStream) -> None:
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

    def _check_headers(self, headers: Headers, method: str, params: Any, caller: Caller) -> None:
        name_field = _NAME_FIELDS.get(method)
        name = None if name_field is None or isinstance(params, HubbubError) else getattr(params, name_field)
        named_call = (method, name)
        if headers.named_call != named_call:  # requests with the same head share the headers
            _compare_names(headers, method, name_field, name)
            headers.named_call = named_call
        if (
            method == "tools/call"
            and name is not None
            and (parameter_headers := self._server.tool_headers(name, caller))
        ):
            _check_parameter_headers(parameter_headers, params.arguments, headers)


def _compare_names(headers: Headers, method: str, name_field: str | None, name: str | None) -> None:
    if headers.get(b"mcp-method") != method:
        raise HeaderMismatch(f"The header Mcp-Method must be {method!r}, the method of the body")
    if name is None:
        return
    name_header = headers.get(b"mcp-name")
    if name_header is None or decode_value(name_header) != name:
        raise HeaderMismatch(f"The header Mcp-Name must be {name!r}, the `{name_field}` of the body")


def _check_parameter_headers(
    parameter_headers: Mapping[str, tuple[str, ...]], arguments: msgspec.Raw, headers: Headers
) -> None:
    try:
        values = msgspec.json.decode(arguments, type=dict)
    except msgspec.DecodeError:
        return  # the tool reports what is wrong with its arguments
    check_header_parameters(parameter_headers, values, lambda header: headers.get(header.lower().encode()))
