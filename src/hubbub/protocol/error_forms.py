"""The wire forms of the error tree: one table of codes, statuses and data.

The same error has another number in each era (contract 001 defines the plain ones).
A class without a row of its own uses that of its nearest ancestor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from hubbub import errors
from hubbub.protocol.content import Text
from hubbub.protocol.jsonrpc import ErrorObject
from hubbub.protocol.model import Call
from hubbub.protocol.revisions import Revision
from hubbub.protocol.wire import ToolReply

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
_OF_RESOURCES = ("resources/read", "resources/subscribe")
_NO_SUCH_RESOURCE = (RESOURCE_NOT_FOUND, INVALID_PARAMS)
"""What servers of both eras answer: official ones of the legacy era do not all use its own number."""
_OLDER = {-32020: INVALID_REQUEST, -32021: INVALID_REQUEST, -32022: INVALID_REQUEST}
"""What came with the modern era, in numbers that were there before."""


class Form(msgspec.Struct, frozen=True):
    """How one kind of error is written in each era, and its HTTP status."""

    modern: int
    legacy: int
    plain: int
    status: int = 200
    data: Callable[[Any], Any] | None = None


def _everywhere(code: int, status: int = 200, data: Callable[[Any], Any] | None = None) -> Form:
    return Form(code, code, code, status, data)


def _failure_data(error: errors.ToolFailure) -> dict[str, Any] | None:
    data: dict[str, Any] = {}
    if error.code is not None:
        data["code"] = error.code
    if error.data is not None:
        data["data"] = error.data
    return data or None


def _missing_data(error: errors.ResourceNotFound) -> dict[str, Any]:
    return {"uri": error.uri} if error.code is None else {"uri": error.uri, "code": error.code}


FORMS: dict[type[errors.HubbubError], Form] = {
    errors.HubbubError: _everywhere(INTERNAL_ERROR),
    errors.ParseError: _everywhere(PARSE_ERROR, 400),
    errors.InvalidRequest: _everywhere(INVALID_REQUEST, 400),
    errors.ArgumentsNoObject: _everywhere(INVALID_PARAMS, 400),
    errors.MessageTooLarge: _everywhere(INVALID_REQUEST, 413, lambda error: {"limit": error.limit}),
    errors.MethodNotFound: _everywhere(METHOD_NOT_FOUND, 404),
    errors.InvalidParams: _everywhere(INVALID_PARAMS, 400, lambda error: error.data),
    errors.HeaderMismatch: _everywhere(-32020, 400),
    errors.MissingCapability: Form(
        -32021, INVALID_REQUEST, INVALID_REQUEST, 400, lambda error: {"requiredCapabilities": error.required}
    ),
    errors.UnsupportedVersion: Form(
        -32022,
        INVALID_REQUEST,
        INVALID_REQUEST,
        400,
        lambda error: {"supported": error.supported, "requested": error.requested},
    ),
    errors.MethodNotAllowed: _everywhere(INVALID_REQUEST, 405),
    errors.SessionRequired: _everywhere(INVALID_REQUEST, 400),
    errors.SessionNotFound: _everywhere(INVALID_REQUEST, 404),
    errors.ToolNotFound: Form(
        INVALID_PARAMS,
        INVALID_PARAMS,
        -32000,
        200,
        lambda error: {"toolName": error.name, "availableTools": error.available},
    ),
    errors.PromptNotFound: _everywhere(INVALID_PARAMS, 200, lambda error: {"promptName": error.name}),
    errors.ResourceNotFound: Form(INVALID_PARAMS, -32002, -32001, 200, _missing_data),
    # In the MCP eras a failed tool is a result; these are the prompts and resources that failed.
    errors.ToolFailure: Form(INTERNAL_ERROR, INTERNAL_ERROR, -32002, 200, _failure_data),
    errors.ArgumentsInvalid: Form(INVALID_PARAMS, INVALID_PARAMS, -32003, 200, _failure_data),
    errors.UpstreamUnavailable: Form(INTERNAL_ERROR, INTERNAL_ERROR, -32002, 200, lambda error: error.data),
    errors.RateLimited: _everywhere(INVALID_REQUEST, 429, lambda error: {"retryAfter": error.retry_after_s}),
    errors.Overloaded: _everywhere(INTERNAL_ERROR, 503, lambda error: {"reason": "overloaded", "limit": error.limit}),
}


def form_of(error: errors.HubbubError) -> Form:
    """The row of the table for this error."""
    return next(FORMS[kind] for kind in type(error).__mro__ if kind in FORMS)


def error_object(error: errors.HubbubError, revision: Revision) -> ErrorObject:
    """The error as a caller of this revision expects it."""
    if isinstance(error, errors.RemoteError):
        return ErrorObject(error.code, error.message, UNSET if error.data is None else error.data)
    if isinstance(error, errors.ToolFailure) and error.plain_code is not None:
        return _with_fixed_code(error, error.plain_code)
    form = form_of(error)
    code = int(getattr(form, revision.era))
    data = form.data(error) if form.data else None
    return ErrorObject(code, error.message, UNSET if data is None else data)


def _with_fixed_code(error: errors.ToolFailure, plain_code: int) -> ErrorObject:
    """A tool with a code of its own is a method of its own: its data are as given, wrong params are wrong params."""
    code = INVALID_PARAMS if isinstance(error, errors.ArgumentsInvalid) else plain_code
    return ErrorObject(code, error.message, UNSET if error.data is None else error.data)


def in_dialect(error: errors.RemoteError, call: Call, source: Revision) -> errors.HubbubError:
    """An error that a server of one revision answered with, as a caller of another is to see it."""
    code, target = error.code, call.caller.revision
    if call.method in _OF_RESOURCES and error.code in _NO_SUCH_RESOURCE:
        missing = errors.ResourceNotFound(call.params.uri)
        missing.message = error.message
        return missing
    if source.era == "modern" and target.era != "modern":
        code = _OLDER.get(code, code)
    if code == error.code:
        return error
    return errors.RemoteError(code, error.message, error.data)


def http_status(error: errors.HubbubError) -> int:
    """The status of an HTTP answer that carries this error."""
    return form_of(error).status


def failure_reply(error: errors.ToolFailure, tool: str) -> ToolReply:
    """A failed tool call as the result that the MCP eras make of it."""
    details: dict[str, Any] = {"type": error.kind, "message": error.message, "tool": tool}
    details |= _failure_data(error) or {}
    failure = {"ok": False, "error": details}
    if error.has_schema:
        # Clients of both eras check failures against the output schema too and, where one
        # does not fit, hide it from the model; text is not checked.
        return ToolReply(content=[Text(msgspec.json.encode(failure).decode())], is_error=True)
    return ToolReply(structured_content=failure, is_error=True)
