"""How errors are written on the wire: one table of codes, statuses and data.

An error may have a different code in each era (contract 001 defines those of the plain era).
A class without a row uses the row of its nearest ancestor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from hubbub import errors
from hubbub.protocol.calls import Call
from hubbub.protocol.content import Text
from hubbub.protocol.jsonrpc import NULL, ErrorObject, encode_error
from hubbub.protocol.results import ToolResult
from hubbub.protocol.revisions import Revision

logger = logging.getLogger("hubbub.server")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND = -32002
URL_ELICITATION_REQUIRED = -32042
_RESOURCE_METHODS = ("resources/read", "resources/subscribe")
_NON_TOOL_METHODS = (*_RESOURCE_METHODS, "prompts/get", "completion/complete")
"""Methods whose handlers raise `ToolFailure` but which are not tools."""
_RESOURCE_MISSING_CODES = (RESOURCE_NOT_FOUND, INVALID_PARAMS)
"""Codes for a missing resource in both eras; some official legacy servers do not use the legacy code."""
_MODERN_ONLY_CODES = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)
"""Codes of the modern era; older callers get `INVALID_REQUEST` instead."""
_decode_error = msgspec.json.Decoder(ErrorObject).decode


class ErrorRule(msgspec.Struct, frozen=True):
    """How one kind of error is written in each era, and its HTTP status."""

    modern: int
    legacy: int
    plain: int
    status: int = 200
    data: Callable[[Any], Any] | None = None


def _same_code(code: int, status: int = 200, data: Callable[[Any], Any] | None = None) -> ErrorRule:
    return ErrorRule(code, code, code, status, data)


def _failure_data(error: errors.ToolFailure) -> dict[str, Any] | None:
    data: dict[str, Any] = {}
    if error.code is not None:
        data["code"] = error.code
    if error.data is not None:
        data["data"] = error.data
    return data or None


def _resource_data(error: errors.ResourceNotFound) -> dict[str, Any]:
    return {"uri": error.uri} if error.code is None else {"uri": error.uri, "code": error.code}


ERROR_RULES: dict[type[errors.HubbubError], ErrorRule] = {
    errors.HubbubError: _same_code(INTERNAL_ERROR),
    errors.ParseError: _same_code(PARSE_ERROR, 400),
    errors.InvalidRequest: _same_code(INVALID_REQUEST, 400),
    errors.MessageTooLarge: _same_code(INVALID_REQUEST, 413, lambda error: {"limit": error.limit}),
    errors.MethodNotFound: _same_code(METHOD_NOT_FOUND, 404),
    errors.InvalidParams: _same_code(INVALID_PARAMS, 400, lambda error: error.data),
    errors.InsufficientScope: _same_code(
        INVALID_REQUEST, 403, lambda error: {"reason": "insufficient_scope", "scopes": error.scopes}
    ),
    errors.HeaderMismatch: _same_code(HEADER_MISMATCH, 400),
    errors.MissingCapability: ErrorRule(
        MISSING_CAPABILITY,
        INVALID_REQUEST,
        INVALID_REQUEST,
        400,
        lambda error: {"requiredCapabilities": error.required},
    ),
    errors.UrlElicitationRequired: ErrorRule(
        INVALID_REQUEST,
        URL_ELICITATION_REQUIRED,
        INVALID_REQUEST,
        200,
        lambda error: {"elicitations": error.elicitations},
    ),
    errors.UnsupportedVersion: ErrorRule(
        UNSUPPORTED_VERSION,
        INVALID_REQUEST,
        INVALID_REQUEST,
        400,
        lambda error: {"supported": error.supported, "requested": error.requested},
    ),
    errors.MethodNotAllowed: _same_code(INVALID_REQUEST, 405),
    errors.SessionRequired: _same_code(INVALID_REQUEST, 400),
    errors.SessionNotFound: _same_code(INVALID_REQUEST, 404),
    errors.ToolNotFound: ErrorRule(
        INVALID_PARAMS,
        INVALID_PARAMS,
        -32000,
        200,
        lambda error: {"toolName": error.name, "availableTools": error.available},
    ),
    errors.PromptNotFound: _same_code(INVALID_PARAMS, 200, lambda error: {"promptName": error.name}),
    errors.ResourceNotFound: ErrorRule(INVALID_PARAMS, RESOURCE_NOT_FOUND, -32001, 200, _resource_data),
    # In the MCP eras a failed tool is a result; these codes are for failed prompts and resources.
    errors.ToolFailure: ErrorRule(INTERNAL_ERROR, INTERNAL_ERROR, -32002, 200, _failure_data),
    errors.ArgumentsInvalid: ErrorRule(INVALID_PARAMS, INVALID_PARAMS, -32003, 200, _failure_data),
    errors.UpstreamUnavailable: ErrorRule(INTERNAL_ERROR, INTERNAL_ERROR, -32002, 200, lambda error: error.data),
    errors.QuotaExceeded: ErrorRule(INVALID_REQUEST, INVALID_REQUEST, -32002, 429, lambda error: error.data),
    errors.RateLimited: _same_code(INVALID_REQUEST, 429, lambda error: {"retryAfter": error.retry_after_s}),
    errors.Overloaded: _same_code(INTERNAL_ERROR, 503, lambda error: {"reason": "overloaded", "limit": error.limit}),
    errors.AuditUnavailable: _same_code(INTERNAL_ERROR, 503, lambda error: {"reason": "audit_unavailable"}),
}


def find_rule(error: errors.HubbubError) -> ErrorRule:
    """The row of the table for this error."""
    return next(ERROR_RULES[kind] for kind in type(error).__mro__ if kind in ERROR_RULES)


def error_object(error: errors.HubbubError, revision: Revision, method: str = "") -> ErrorObject:
    """The error of a method as a caller of this revision expects it."""
    if isinstance(error, errors.RemoteError):
        return ErrorObject(error.code, error.message, UNSET if error.data is None else error.data)
    if isinstance(error, errors.ToolFailure) and error.plain_code is not None:
        return _with_fixed_code(error, error.plain_code)
    form = find_rule(error)
    era = revision.era
    if era == "plain" and method in _NON_TOOL_METHODS and isinstance(error, errors.ToolFailure):
        era = "legacy"  # the plain error codes are for tools only
    code = int(getattr(form, era))
    data = form.data(error) if form.data else None
    return ErrorObject(code, error.message, UNSET if data is None else data)


def error_response(identifier: Raw, error: errors.HubbubError, revision: Revision, method: str = "") -> bytes:
    """Encode the response to a request that failed: the only place where an error becomes a message."""
    if isinstance(error, errors.IdInUse):
        identifier = NULL  # the sender would match it to the other request with this id
    form = error_object(error, revision, method)
    try:
        return encode_error(identifier, form)
    except Exception:  # Its data or text cannot be encoded, but the caller needs an answer.
        logger.exception("the error of %s cannot be encoded; its data was left out", method or "a message")
        message = form.message.encode(errors="replace").decode()
        return encode_error(identifier, ErrorObject(form.code, message))


def remote_error(raw: Raw | bytes, sender: str, hide: Callable[[Any], Any] = lambda value: value) -> errors.RemoteError:
    """Decode the `error` member of a response; `hide` removes secrets from its text and data."""
    try:
        error = _decode_error(raw)
    except (msgspec.DecodeError, RecursionError):
        return errors.RemoteError(INTERNAL_ERROR, f"The {sender} answered with an invalid error object")
    return errors.RemoteError(error.code, hide(error.message), None if error.data is UNSET else hide(error.data))


def _with_fixed_code(error: errors.ToolFailure, plain_code: int) -> ErrorObject:
    """Build the error of a tool with its own code: data unchanged, and `INVALID_PARAMS` for invalid arguments."""
    code = INVALID_PARAMS if isinstance(error, errors.ArgumentsInvalid) else plain_code
    return ErrorObject(code, error.message, UNSET if error.data is None else error.data)


def translate_error(error: errors.RemoteError, call: Call, source: Revision) -> errors.HubbubError:
    """Convert the error of a server of one revision for a caller of another."""
    if call.method in _RESOURCE_METHODS and error.code in _RESOURCE_MISSING_CODES:
        missing = errors.ResourceNotFound(call.params.uri)
        missing.message = error.message
        return missing
    if error.code in _MODERN_ONLY_CODES and source.era == "modern" and call.caller.revision.era != "modern":
        return errors.RemoteError(INVALID_REQUEST, error.message, error.data)
    return error


def http_status(error: errors.HubbubError) -> int:
    """The status of an HTTP answer that carries this error."""
    return find_rule(error).status


def failure_reply(error: errors.ToolFailure, tool: str | None) -> ToolResult:
    """Return a failed tool call as a result, the form of the MCP eras; `tool` is None if the call names none."""
    details: dict[str, Any] = {"type": error.kind, "message": error.message}
    if tool is not None:
        details["tool"] = tool
    details |= _failure_data(error) or {}
    failure = {"ok": False, "error": details}
    if error.has_schema:
        # Clients of both eras check failures against the output schema too, and hide those that
        # do not match from the model; text is not checked.
        return ToolResult(content=[Text(msgspec.json.encode(failure).decode())], is_error=True)
    return ToolResult(structured_content=failure, is_error=True)
