"""From a call to the bytes of its answer: the one place where errors become messages."""

from __future__ import annotations

import logging
from typing import Any

from hubbub.errors import HubbubError, ToolFailure
from hubbub.ports import Peer
from hubbub.protocol.error_forms import INTERNAL_ERROR, error_object, failure_reply
from hubbub.protocol.jsonrpc import ErrorObject, encode_error, encode_result
from hubbub.protocol.model import Call
from hubbub.protocol.revisions import NEWEST_LEGACY
from hubbub.protocol.shape import shape

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
            reply = failure_reply(failure, call.params.name, revision)
            if not revision.is_mcp:
                revision = NEWEST_LEGACY  # the pack's contract has one form for every caller
        return encode_result(call.id, shape(reply, revision, identity)), None
    except HubbubError as error:
        return encode_error(call.id, error_object(error, revision)), error
    except Exception:
        logger.exception("%s failed", call.method)
        wrong = HubbubError("Internal error")
        return encode_error(call.id, ErrorObject(INTERNAL_ERROR, wrong.message)), wrong
