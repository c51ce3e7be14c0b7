"""From a call to the bytes of its answer: the one place where errors become messages."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from hubbub.errors import HubbubError, ToolFailure
from hubbub.ports import Peer
from hubbub.protocol.error_forms import INTERNAL_ERROR, error_object, failure_reply
from hubbub.protocol.jsonrpc import ErrorObject, encode_error, encode_result
from hubbub.protocol.model import Call
from hubbub.protocol.revisions import NEWEST_LEGACY, Revision
from hubbub.protocol.shape import shape
from hubbub.server.threads import is_being_cancelled

logger = logging.getLogger("hubbub.server")


async def answer(peer: Peer, call: Call, identity: dict[str, Any]) -> tuple[bytes, HubbubError | None]:
    """The encoded response to a call, and the error it carries if it carries one."""
    revision = call.caller.revision
    try:
        try:
            reply = await peer.request(call)
        except ToolFailure as failure:
            if call.method != "tools/call" or not (revision.is_mcp or failure.as_result):
                raise
            reply = failure.result or failure_reply(failure, call.params.name)
            if not revision.is_mcp:
                revision = NEWEST_LEGACY  # the pack's contract has one form for every caller
        return encode_result(call.id, shape(reply, revision, identity)), None
    except HubbubError as error:
        return _encode_error(call, error, revision), error
    except asyncio.CancelledError:
        if is_being_cancelled():
            raise
        return _internal_error(call)
    except Exception:
        return _internal_error(call)


def _encode_error(call: Call, error: HubbubError, revision: Revision) -> bytes:
    form = error_object(error, revision)
    try:
        return encode_error(call.id, form)
    except Exception:  # JSON cannot carry its data or its text, but the caller waits for an answer.
        logger.exception("the error of %s cannot be written", call.method)
        message = form.message.encode(errors="replace").decode()
        return encode_error(call.id, ErrorObject(form.code, message))


def _internal_error(call: Call) -> tuple[bytes, HubbubError]:
    logger.exception("%s failed", call.method)
    wrong = HubbubError("Internal error")
    return encode_error(call.id, ErrorObject(INTERNAL_ERROR, wrong.message)), wrong
