"""The last check before a tool's output goes to the model: what it really takes as JSON.

MCP results have been cut to fit before; an application's own tools may return anything,
also what is no JSON, nests without end or is far too much. Such output is replaced
whole by an error, so that the model learns of it and the conversation stays readable.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.agent.envelope import Envelope, failed, problem
from hubbub.agent.nesting import levels

TOOL_OUTPUT_TOO_LARGE: Final = "TOOL_OUTPUT_TOO_LARGE"
TOOL_OUTPUT_SERIALIZATION_ERROR: Final = "TOOL_OUTPUT_SERIALIZATION_ERROR"


class Limited(msgspec.Struct, frozen=True):
    """An envelope that fits, and its JSON."""

    envelope: Envelope
    text: str
    bytes: int
    was_replaced: bool


def limit_output(envelope: Envelope, max_bytes: int = bounds.TOOL_OUTPUT_BYTES) -> Limited:
    """The envelope as the model gets it."""
    reason = _excess(envelope, max_bytes)
    if reason is not None:
        return _replaced(envelope, TOOL_OUTPUT_TOO_LARGE, f"The output of the tool has {reason}")
    try:
        encoded = msgspec.json.encode(envelope)
        text = encoded.decode()
    except (TypeError, ValueError, RecursionError) as error:
        told = f"The output of the tool is no JSON ({type(error).__name__})"
        return _replaced(envelope, TOOL_OUTPUT_SERIALIZATION_ERROR, told)
    if len(encoded) > max_bytes:
        return _replaced(
            envelope,
            TOOL_OUTPUT_TOO_LARGE,
            f"The output of the tool has {len(encoded)} bytes, more than {max_bytes}; ask for less",
        )
    return Limited(envelope, text, len(encoded), False)


def _replaced(envelope: Envelope, code: str, message: str) -> Limited:
    found = failed(envelope["tool_name"], problem(code, message, may_have_executed=True))
    encoded = msgspec.json.encode(found)
    return Limited(found, encoded.decode(), len(encoded), True)


def _excess(value: Any, max_bytes: int) -> str | None:
    """Why the value is too much to even be encoded."""
    seen = size = 0
    for depth, level in enumerate(levels(value)):
        if depth >= bounds.TOOL_OUTPUT_DEPTH:
            return f"more than {bounds.TOOL_OUTPUT_DEPTH} levels"
        seen += len(level)
        if seen > bounds.TOOL_OUTPUT_NODES:
            return f"more than {bounds.TOOL_OUTPUT_NODES} values"
        size += sum(len(item) for item in level if isinstance(item, str | bytes))
        if size > max_bytes:
            return f"more than {max_bytes} bytes; ask for less"
    return None
