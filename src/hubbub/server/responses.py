"""Turns a call into the bytes of its response, and an error into an HTTP response."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from hubbub.errors import HubbubError, InvalidRequest, ToolFailure
from hubbub.ports import Peer
from hubbub.protocol.calls import Call
from hubbub.protocol.error_codes import error_response, failure_reply, http_status
from hubbub.protocol.jsonrpc import NULL, encode_result
from hubbub.protocol.revisions import NEWEST_LEGACY, Revision
from hubbub.protocol.shape import shape
from hubbub.server.threads import is_being_cancelled

if TYPE_CHECKING:
    from hubbub.ports import HttpExchange
    from hubbub.protocol.http_headers import HeaderList
    from hubbub.protocol.refusal import Refusal

logger = logging.getLogger("hubbub.server")


async def respond_to_call(peer: Peer, call: Call, identity: dict[str, Any]) -> tuple[bytes, HubbubError | None]:
    """Return the encoded response to a call, and the error in it, if any."""
    revision = call.caller.revision
    try:
        try:
            reply = await peer.request(call)
        except ToolFailure as failure:
            if call.method != "tools/call" or not (revision.is_mcp or failure.as_result):
                raise
            tool = None if isinstance(call.params, HubbubError) else call.params.name
            reply = failure.result or failure_reply(failure, tool)
            if not revision.is_mcp:
                revision = NEWEST_LEGACY  # the pack's contract has one form for every caller
        return encode_result(call.id, shape(reply, revision, identity)), None
    except HubbubError as error:
        return error_response(call.id, error, revision, call.method), error
    except asyncio.CancelledError:
        if is_being_cancelled():
            raise
        return _internal_error(call)
    except (Exception, KeyboardInterrupt, SystemExit):  # raised by handlers: only signals end the process
        return _internal_error(call)


def _internal_error(call: Call) -> tuple[bytes, HubbubError]:
    logger.exception("%s failed", call.method)
    internal_error = HubbubError("Internal error")
    return error_response(call.id, internal_error, call.caller.revision), internal_error


def respond_error(
    exchange: HttpExchange,
    error: HubbubError,
    revision: Revision = NEWEST_LEGACY,
    identifier: Raw = NULL,
    *,
    status: int | None = None,
    headers: HeaderList = (),
) -> Awaitable[None]:
    """Answer an HTTP request with an error; the status follows from the error unless one is given."""
    body = error_response(identifier, error, revision)
    return exchange.respond(http_status(error) if status is None else status, body, headers)


def respond_refusal(exchange: HttpExchange, refusal: Refusal) -> Awaitable[None]:
    """Answer an HTTP request that was refused."""
    return respond_error(exchange, InvalidRequest(refusal.message), status=refusal.status, headers=refusal.headers)
