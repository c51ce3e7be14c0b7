"""What every tool call comes back as, whoever ran it: the contract's envelope.

    {ok, tool_name, data, warnings: [{code, message}], errors: [{code, message, ...}]}

An error says whether trying again can help and whether the tool may have run all the
same. Which exception becomes which error is one table, in `hubbub.agent.failures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from hubbub import bounds
from hubbub.agent.untrusted import clean


class Warned(TypedDict):
    """Something the reader should know."""

    code: str
    message: str


class Problem(TypedDict):
    """Why a call failed."""

    code: str
    message: str
    retryable: NotRequired[bool]
    """Whether the same call may succeed later."""
    may_have_executed: NotRequired[bool]
    """Whether the tool may have done its work although nobody heard of it."""
    rpc_code: NotRequired[int]
    """The number of a server's own error."""


class Envelope(TypedDict):
    """The outcome of one call."""

    ok: bool
    tool_name: str
    data: dict[str, Any]
    warnings: list[Warned]
    errors: list[Problem]


def problem(
    code: str, message: str, *, retryable: bool = False, may_have_executed: bool = False, rpc_code: int | None = None
) -> Problem:
    """An error; its message may quote strangers and is cleaned and bounded."""
    found = Problem(
        code=code,
        message=clean(message, bounds.PROBLEM_CHARACTERS),
        retryable=retryable,
        may_have_executed=may_have_executed,
    )
    if rpc_code is not None:
        found["rpc_code"] = rpc_code
    return found


def succeeded(tool_name: str, data: Mapping[str, Any]) -> Envelope:
    """The envelope of a call that went well."""
    return Envelope(ok=True, tool_name=tool_name, data=dict(data), warnings=[], errors=[])


def failed(tool_name: str, *errors: Problem, data: Mapping[str, Any] | None = None) -> Envelope:
    """The envelope of a call that did not."""
    return Envelope(ok=False, tool_name=tool_name, data=dict(data or {}), warnings=[], errors=list(errors))


def as_envelope(tool_name: str, value: Any) -> Envelope:
    """What an application's own executor returned, as an envelope; any value will do."""
    if not isinstance(value, Mapping) or not isinstance(value.get("ok"), bool):
        return succeeded(tool_name, {"value": value})
    data = value.get("data")
    return Envelope(
        ok=value["ok"],
        tool_name=tool_name,
        data=dict(data) if isinstance(data, Mapping) else ({} if data is None else {"value": data}),
        warnings=_entries(value.get("warnings")),
        errors=_entries(value.get("errors")),
    )


def codes(envelope: Envelope) -> list[str]:
    """The codes of its errors."""
    return [str(error.get("code", "")) for error in envelope["errors"]]


def _entries(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        return []
    return [dict(item) if isinstance(item, Mapping) else {"code": "", "message": str(item)} for item in value]
