"""Limits the encoded size of the envelope of an MCP call.

Binary data is always replaced by its type and size, because a model cannot read base64. Above the limit, everything
except text and names is removed next, then the end of the text, then all of it. Each step adds a warning. The result
never exceeds the limit, whose minimum is large enough for an empty envelope.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.agent.envelope import ToolEnvelope, ToolWarning
from hubbub.agent.summary import decoded_bytes
from hubbub.errors import SettingsError
from hubbub.store.spill import cut_utf8

BINARY_TRUNCATED: Final = "BINARY_TRUNCATED"
CONTENT_TRUNCATED: Final = "CONTENT_TRUNCATED"
TEXT_TRUNCATED: Final = "TEXT_TRUNCATED"
TEXT_DROPPED: Final = "TEXT_DROPPED"

_MESSAGES: Final = {
    BINARY_TRUNCATED: "Binary data was replaced by its type and size",
    CONTENT_TRUNCATED: "The content was too large and is described instead",
    TEXT_TRUNCATED: "The text was too large and was cut",
    TEXT_DROPPED: "The text was too large and was left out",
}
_MIN_TEXT_BYTES: Final = 64
_BINARY_MEMBERS: Final = {"image": "data", "audio": "data"}


def check_output_limit(max_bytes: int) -> int:
    """Return the limit, if it is large enough for an envelope.

    Raises: SettingsError.
    """
    minimum = bounds.MIN_TOOL_OUTPUT_BYTES
    if type(max_bytes) is not int or max_bytes < minimum:
        raise SettingsError(f"`max_bytes` must be an integer of at least {minimum}, not {max_bytes!r}")
    return max_bytes


def fit_envelope(envelope: ToolEnvelope, max_bytes: int) -> ToolEnvelope:
    """Return the envelope, or as much of it as fits."""
    is_result = "text" in envelope["data"]
    if is_result:
        envelope = _describe_binaries(envelope)
    if _fits(envelope, max_bytes):
        return envelope
    if not is_result:
        return _minimal_envelope(envelope)
    envelope = _describe_content(envelope)
    if _fits(envelope, max_bytes):
        return envelope
    text_bytes = max_bytes
    while text_bytes >= _MIN_TEXT_BYTES:
        truncated = _truncate_text(envelope, text_bytes)
        if _fits(truncated, max_bytes):
            return truncated
        text_bytes //= 2
    dropped = _drop_text(envelope)
    return dropped if _fits(dropped, max_bytes) else _minimal_envelope(dropped)


def _fits(envelope: ToolEnvelope, max_bytes: int) -> bool:
    return len(msgspec.json.encode(envelope)) <= max_bytes


def _replace_content(envelope: ToolEnvelope, warning: str, **mcp: Any) -> ToolEnvelope:
    warnings = envelope["warnings"]
    if all(item["code"] != warning for item in warnings):
        warnings = [*warnings, ToolWarning(code=warning, message=_MESSAGES[warning])]
    data = {**envelope["data"], "mcp": {**envelope["data"]["mcp"], **mcp}}
    return {**envelope, "data": data, "warnings": warnings}


def _describe_binaries(envelope: ToolEnvelope) -> ToolEnvelope:
    blocks = envelope["data"]["mcp"]["content"]
    if not any(_holds_binary(block) for block in blocks):
        return envelope
    content = [describe_block(block) if _holds_binary(block) else block for block in blocks]
    return _replace_content(envelope, BINARY_TRUNCATED, content=content)


def _describe_content(envelope: ToolEnvelope) -> ToolEnvelope:
    content = [describe_block(block) for block in envelope["data"]["mcp"]["content"]]
    return _replace_content(envelope, CONTENT_TRUNCATED, content=content, structured_content=None)


def _truncate_text(envelope: ToolEnvelope, text_bytes: int) -> ToolEnvelope:
    changed = _replace_content(envelope, CONTENT_TRUNCATED, content=[])
    text = envelope["data"]["text"]
    encoded = text.encode(errors="replace")
    if len(encoded) <= text_bytes:
        return changed
    changed = _replace_content(changed, TEXT_TRUNCATED)
    changed["data"]["text"] = cut_utf8(encoded, text_bytes).decode()
    return changed


def _drop_text(envelope: ToolEnvelope) -> ToolEnvelope:
    changed = _replace_content(envelope, TEXT_DROPPED, content=[])
    changed["data"]["text"] = ""
    return changed


def _minimal_envelope(envelope: ToolEnvelope) -> ToolEnvelope:
    """Make a minimal envelope, for names and messages that are too long."""
    return ToolEnvelope(
        ok=envelope["ok"],
        tool_name=envelope["tool_name"][: bounds.TOOL_KEY_CHARACTERS],
        data={"text": ""},
        warnings=[ToolWarning(code=TEXT_DROPPED, message=_MESSAGES[TEXT_DROPPED])],
        errors=[{**error, "message": ""} for error in envelope["errors"][:1]],
    )


def _holds_binary(block: Mapping[str, Any]) -> bool:
    resource = block.get("resource")
    if block.get("type") in _BINARY_MEMBERS:
        return block.get(_BINARY_MEMBERS[block["type"]]) is not None
    return isinstance(resource, Mapping) and resource.get("blob") is not None


def describe_block(block: Mapping[str, Any]) -> dict[str, Any]:
    """The block without its data: its type, names and size."""
    kind = str(block.get("type", ""))
    if kind == "text":
        return {"type": kind, "text": block.get("text")}
    if kind in _BINARY_MEMBERS:
        return {
            "type": kind,
            "mimeType": block.get("mimeType"),
            "bytes": decoded_bytes(block.get(_BINARY_MEMBERS[kind])),
        }
    if kind == "resource_link":
        return {"type": kind, "uri": block.get("uri"), "name": block.get("name")}
    resource = block.get("resource")
    if kind == "resource" and isinstance(resource, Mapping):
        description = {"type": kind, "uri": resource.get("uri"), "mimeType": resource.get("mimeType")}
        return (
            {**description, "bytes": decoded_bytes(resource["blob"])}
            if resource.get("blob") is not None
            else description
        )
    return {"type": kind[: bounds.TITLE_CHARACTERS]}
