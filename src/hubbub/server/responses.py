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
    try:
        return encode_result(call.id, shape(await peer.request(call), call.caller.revision, identity)), None
    except BaseException as error:
        return respond_to_error(call, error, identity)


def respond_to_error(call: Call, error: BaseException, identity: dict[str, Any]) -> tuple[bytes, HubbubError | None]:
    """Return the encoded response to a call that raised an exception, and the error in it, if any.

    Raises: the exception, if it ends the call without a response.
    """
    revision = call.caller.revision
    if isinstance(error, ToolFailure) and call.method == "tools/call" and (revision.is_mcp or error.as_result):
        if not revision.is_mcp:
            revision = NEWEST_LEGACY  # the pack's contract has one form for every caller
        tool = None if isinstance(call.params, HubbubError) else call.params.name
        try:
            return encode_result(call.id, shape(error.result or failure_reply(error, tool), revision, identity)), None
        except Exception as failure:
            error = failure
    if isinstance(error, HubbubError):
        return error_response(call.id, error, revision, call.method), error
    if isinstance(error, asyncio.CancelledError):
        if is_being_cancelled():
            raise error
    elif not isinstance(error, Exception | KeyboardInterrupt | SystemExit):  # of handlers: only signals end the process
        raise error
    logger.error("%s failed", call.method, exc_info=error)
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
