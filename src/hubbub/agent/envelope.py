"""The contract's envelope, which every tool call returns, whichever executor runs it.

    {ok, tool_name, data, warnings: [{code, message}], errors: [{code, message, ...}]}

An error says whether a retry can help and whether the tool may have run in spite of the error. `hubbub.agent.failures`
maps exceptions to errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from hubbub import bounds
from hubbub.agent.untrusted_text import clean_text


class ToolWarning(TypedDict):
    """A warning about the result of a call."""

    code: str
    message: str


class ToolProblem(TypedDict):
    """Why a call failed."""

    code: str
    message: str
    retryable: NotRequired[bool]
    """Whether the same call may be repeated: it did not run, and may succeed later."""
    may_have_executed: NotRequired[bool]
    """Whether the tool may have run although no result was received."""
    rpc_code: NotRequired[int]
    """The JSON-RPC error code of the server."""


class ToolEnvelope(TypedDict):
    """The outcome of one call."""

    ok: bool
    tool_name: str
    data: dict[str, Any]
    warnings: list[ToolWarning]
    errors: list[ToolProblem]


def make_problem(
    code: str, message: str, *, retryable: bool = False, may_have_executed: bool = False, rpc_code: int | None = None
) -> ToolProblem:
    """Make an error; its message may quote a server, so it is cleaned and bounded.

    A call that may have run is never marked as retryable, even if the caller asks for it.
    """
    found = ToolProblem(
        code=code,
        message=clean_text(message, bounds.PROBLEM_CHARACTERS),
        retryable=retryable and not may_have_executed,
        may_have_executed=may_have_executed,
    )
    if rpc_code is not None:
        found["rpc_code"] = rpc_code
    return found


def success_envelope(tool_name: str, data: Mapping[str, Any]) -> ToolEnvelope:
    """Make the envelope of a call that succeeded."""
    return ToolEnvelope(ok=True, tool_name=tool_name, data=dict(data), warnings=[], errors=[])


def error_envelope(tool_name: str, *errors: ToolProblem, data: Mapping[str, Any] | None = None) -> ToolEnvelope:
    """Make the envelope of a call that failed."""
    return ToolEnvelope(ok=False, tool_name=tool_name, data=dict(data or {}), warnings=[], errors=list(errors))


def as_envelope(tool_name: str, value: Any) -> ToolEnvelope:
    """Convert the return value of an application's executor to an envelope; any value is accepted."""
    if not isinstance(value, Mapping) or not isinstance(value.get("ok"), bool):
        return success_envelope(tool_name, {"value": value})
    data = value.get("data")
    return ToolEnvelope(
        ok=value["ok"],
        tool_name=tool_name,
        data=dict(data) if isinstance(data, Mapping) else ({} if data is None else {"value": data}),
        warnings=_entries(value.get("warnings")),
        errors=_entries(value.get("errors")),
    )


def list_error_codes(envelope: ToolEnvelope) -> list[str]:
    return [str(error.get("code", "")) for error in envelope["errors"]]


def _entries(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        return []
    return [dict(item) if isinstance(item, Mapping) else {"code": "", "message": str(item)} for item in value]
