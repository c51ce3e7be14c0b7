"""HTTP answers that are no success, read for what they mean to a client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import HttpError, HubbubError, MessageError, RemoteError, SessionLost
from hubbub.net.answer import Answer
from hubbub.ports import as_it_is
from hubbub.protocol.error_forms import METHOD_NOT_FOUND
from hubbub.protocol.jsonrpc import Envelope, ErrorObject, decode_envelope

_ABOUT_THE_CALLER = (401, 403, 407, 429, 503)
"""Statuses that say more than any body can: who asks, and when to come back."""


async def refusal(
    answer: Answer,
    limit: int,
    *,
    has_session: bool,
    mask: Callable[[str], str] = str,
    hide: Callable[[Any], Any] = as_it_is,
) -> HubbubError:
    """The error that an answer stands for: a lost session, the server's own error, or the status.

    Raises:
        TransportError: its body is too large, or breaks off.
    """
    body = await answer.read(limit)
    error = _rpc_error(body, hide)
    if has_session and _means_lost_session(answer.status, error):
        return SessionLost()
    if error is not None and answer.status not in _ABOUT_THE_CALLER:
        remote = RemoteError(error.code, error.message, None if error.data is UNSET else error.data)
        remote.status = answer.status
        return remote
    data: dict[str, Any] = {"body": mask(body[: bounds.ERROR_BODY_BYTES].decode(errors="replace"))}
    for name, header in (("www_authenticate", "WWW-Authenticate"), ("retry_after", "Retry-After")):
        if answer.header(header):
            data[name] = hide(answer.header(header))
    if error is not None:
        data["error"] = {"code": error.code, "message": error.message}
    return HttpError(_message(answer, error), answer.status, data)


def _message(answer: Answer, error: ErrorObject | None) -> str:
    if 300 <= answer.status < 400:
        return f"The server answered with a redirect (status {answer.status}), which is never followed"
    told = f": {error.message}" if error is not None else ""
    return f"The server answered with status {answer.status}{told}"


def _rpc_error(body: bytes, hide: Callable[[Any], Any]) -> ErrorObject | None:
    try:
        envelope = decode_envelope(body)
        if isinstance(envelope, Envelope) and envelope.error is not UNSET:
            error = msgspec.json.decode(envelope.error, type=ErrorObject)
            return ErrorObject(error.code, hide(error.message), hide(error.data))
    except (MessageError, msgspec.DecodeError):
        pass
    return None


def _means_lost_session(status: int, error: ErrorObject | None) -> bool:
    """404 says so, unless it is about the method; some servers say it with 400 and words."""
    if status == 404:
        return error is None or error.code != METHOD_NOT_FOUND
    return status == 400 and error is not None and "session" in error.message.lower()
