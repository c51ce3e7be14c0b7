"""The stateless era over HTTP: each POST is independent, and its headers must agree with its body."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from hubbub.errors import HeaderMismatch, HubbubError
from hubbub.protocol.error_forms import http_status
from hubbub.protocol.headers import check_parameters, decode_value
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.ladder import modern_caller
from hubbub.protocol.model import Caller
from hubbub.protocol.revisions import Revision
from hubbub.server.answer import answer, respond_error
from hubbub.server.http.call_stream import CallStream, ResponseMode, mode_for
from hubbub.server.server import Server

if TYPE_CHECKING:
    from hubbub.server.http.post import Incoming

_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Modern:
    """Serves modern calls."""

    def __init__(self, server: Server, mode: ResponseMode) -> None:
        self._server = server
        self._mode = mode

    async def call(self, incoming: Incoming, revision: Revision) -> None:
        """Answer one call; a disconnect cancels it."""
        exchange = incoming.exchange
        caller = modern_caller(incoming.meta, revision, incoming.principal, exchange.client)
        try:
            self._check_headers(incoming, caller)
        except HubbubError as error:
            await respond_error(exchange, error, revision, incoming.id)
            return
        # A listen request gets only notifications, so JSON alone would send it nothing.
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

    def _check_headers(self, incoming: Incoming, caller: Caller) -> None:
        headers, method = incoming.exchange.headers, incoming.method
        if headers.get(b"mcp-method") != method:
            raise HeaderMismatch(f"The header Mcp-Method must be {method!r}, the method of the body")
        if isinstance(incoming.params, HubbubError):
            return
        member = _NAMED_BY.get(method)
        if member is None:
            return
        name = getattr(incoming.params, member)
        sent = headers.get(b"mcp-name")
        is_plain = sent == name and name.isascii() and name.isidentifier()  # the usual case, without decoding
        if not is_plain and (sent is None or decode_value(sent) != name):
            raise HeaderMismatch(f"The header Mcp-Name must be {name!r}, the `{member}` of the body")
        if method == "tools/call":
            self._check_parameter_headers(self._server.tool_headers(name, caller), incoming.params.arguments, headers)

    def _check_parameter_headers(
        self, wanted: Mapping[str, tuple[str, ...]], arguments: msgspec.Raw, headers: Headers
    ) -> None:
        if not wanted:
            return
        try:
            given = msgspec.json.decode(arguments, type=dict)
        except msgspec.DecodeError:
            return  # the tool reports what is wrong with its arguments
        check_parameters(wanted, given, lambda header: headers.get(header.lower().encode()))
