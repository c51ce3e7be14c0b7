"""The last check before a tool's output goes to the model: its size as JSON.

MCP results were cut to fit before; an application's own tools may return anything, also values that are not JSON,
are nested without end or are far too large. Such output is replaced by an error, so that the model is informed and the
conversation stays valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.agent.envelope import ToolEnvelope, error_envelope, make_problem
from hubbub.agent.nesting import levels

TOOL_OUTPUT_TOO_LARGE: Final = "TOOL_OUTPUT_TOO_LARGE"
TOOL_OUTPUT_SERIALIZATION_ERROR: Final = "TOOL_OUTPUT_SERIALIZATION_ERROR"


class LimitedOutput(msgspec.Struct, frozen=True):
    """An envelope that fits, and its JSON."""

    envelope: ToolEnvelope
    text: str
    bytes: int
    was_replaced: bool


def limit_output(envelope: ToolEnvelope, max_bytes: int) -> LimitedOutput:
    """Return the envelope for the model: within the limit, and each part of a result only once."""
    envelope = _drop_duplicate_content(envelope)
    reason = _find_excess(envelope, max_bytes)
    if reason is not None:
        return _replace_output(envelope, TOOL_OUTPUT_TOO_LARGE, f"The output of the tool has {reason}")
    try:
        encoded = msgspec.json.encode(envelope)
        text = encoded.decode()
    except (TypeError, ValueError, RecursionError) as error:
        detail = f"The output of the tool cannot be encoded as JSON ({type(error).__name__})"
        return _replace_output(envelope, TOOL_OUTPUT_SERIALIZATION_ERROR, detail)
    if len(encoded) > max_bytes:
        return _replace_output(
            envelope,
            TOOL_OUTPUT_TOO_LARGE,
            f"The output of the tool has {len(encoded)} bytes, more than {max_bytes}; ask for less",
        )
    return LimitedOutput(envelope, text, len(encoded), False)


def _drop_duplicate_content(envelope: ToolEnvelope) -> ToolEnvelope:
    """Remove the blocks and the structured content of an MCP result: `data.text` has the same content."""
    data = envelope["data"]
    mcp = data.get("mcp")
    if "text" not in data or not isinstance(mcp, Mapping):
        return envelope
    origin = {key: value for key, value in mcp.items() if key not in ("content", "structured_content")}
    return {**envelope, "data": {**data, "mcp": origin}}


def _replace_output(envelope: ToolEnvelope, code: str, message: str) -> LimitedOutput:
    found = error_envelope(envelope["tool_name"], make_problem(code, message, may_have_executed=True))
    encoded = msgspec.json.encode(found)
    return LimitedOutput(found, encoded.decode(), len(encoded), True)


def _find_excess(value: Any, max_bytes: int) -> str | None:
    """Why a value is too large to be encoded; None if it is not."""
    nodes = size = 0
    for depth, level in enumerate(levels(value)):
        if depth >= bounds.TOOL_OUTPUT_DEPTH:
            return f"more than {bounds.TOOL_OUTPUT_DEPTH} levels"
        nodes += len(level)
        if nodes > bounds.TOOL_OUTPUT_NODES:
            return f"more than {bounds.TOOL_OUTPUT_NODES} values"
        size += sum(len(item) for item in level if isinstance(item, str | bytes))
        if size > max_bytes:
            return f"more than {max_bytes} bytes; ask for less"
    return None
