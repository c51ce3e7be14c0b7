"""Turns HTTP error responses of a server into client errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import HttpError, HubbubError, MessageError, RemoteError, SessionLost
from hubbub.net.redirects import describe_redirect
from hubbub.net.response import HttpResponse
from hubbub.ports import hide_nothing
from hubbub.protocol.error_codes import METHOD_NOT_FOUND
from hubbub.protocol.jsonrpc import Envelope, ErrorObject, decode_envelope

_CALLER_STATUSES = (401, 403, 407, 429, 503)
"""Statuses that are reported as such even if the body is a JSON-RPC error: they concern the credential or the load."""


async def error_from_response(
    response: HttpResponse,
    url: str,
    limit: int,
    *,
    has_session: bool,
    mask: Callable[[str], str] = str,
    hide: Callable[[Any], Any] = hide_nothing,
    has_authorizer: bool = False,
) -> HubbubError:
    """Return the error that a response means: a lost session, the server's own error, or the status.

    `has_authorizer`: whether tokens were requested for it.

    Raises:
        TransportError: its body is too large or incomplete.
    """
    body = await response.read(limit)
    error = _rpc_error(body, hide)
    if has_session and _is_session_lost(response.status, error):
        return SessionLost()
    if error is not None and response.status not in _CALLER_STATUSES:
        remote = RemoteError(error.code, error.message, None if error.data is UNSET else error.data)
        remote.status = response.status
        return remote
    data: dict[str, Any] = {"body": mask(body[: bounds.ERROR_BODY_BYTES].decode(errors="replace"))}
    for name, header in (("www_authenticate", "WWW-Authenticate"), ("retry_after", "Retry-After")):
        if response.header(header):
            data[name] = hide(response.header(header))
    if error is not None:
        data["error"] = {"code": error.code, "message": error.message}
    is_text = response.media_type == "text/plain" or response.media_type.endswith("json")
    detail = error.message if error is not None else data["body"] if is_text else ""
    message = _error_message(response, url, detail)
    if response.status == 401 and not has_authorizer:
        message += f"; run `hubbub login {mask(_without_secrets(url))}`, or set `auth` or the header Authorization"
    return HttpError(message, response.status, data)


def _error_message(response: HttpResponse, url: str, detail: str) -> str:
    if 300 <= response.status < 400:
        return describe_redirect(url, response.status, response.header("Location"))
    line = " ".join(detail.split())[: bounds.ERROR_TEXT_CHARACTERS]
    printable = "".join(character for character in line if character.isprintable())
    return f"The server answered with status {response.status}" + (f": {printable}" if printable else "")


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _rpc_error(body: bytes, hide: Callable[[Any], Any]) -> ErrorObject | None:
    try:
        envelope = decode_envelope(body)
        if isinstance(envelope, Envelope) and envelope.error is not UNSET:
            error = msgspec.json.decode(envelope.error, type=ErrorObject)
            return ErrorObject(error.code, hide(error.message), hide(error.data))
    except (MessageError, msgspec.DecodeError):
        pass
    return None


def _is_session_lost(status: int, error: ErrorObject | None) -> bool:
    """Whether the session is lost: 404 unless it is about the method; some servers send 400 and mention the session."""
    if status == 404:
        return error is None or error.code != METHOD_NOT_FOUND
    return status == 400 and error is not None and "session" in error.message.lower()
