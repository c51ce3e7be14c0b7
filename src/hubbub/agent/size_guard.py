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
from hubbub.store.spill import whole_characters

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
_LEAST_TEXT_BYTES: Final = 64
_BINARY: Final = {"image": "data", "audio": "data"}


def check_limit(max_bytes: int) -> int:
    """Return the limit, if it is large enough for an envelope.

    Raises: SettingsError.
    """
    least = bounds.LEAST_TOOL_OUTPUT_BYTES
    if type(max_bytes) is not int or max_bytes < least:
        raise SettingsError(f"A limit for tool output is a number of bytes from {least} on, not {max_bytes!r}")
    return max_bytes


def guard(envelope: ToolEnvelope, max_bytes: int) -> ToolEnvelope:
    """Return the envelope, or as much of it as fits."""
    is_result = "text" in envelope["data"]
    if is_result:
        envelope = _without_binaries(envelope)
    if _fits(envelope, max_bytes):
        return envelope
    if not is_result:
        return _bare(envelope)
    envelope = _with_described_content(envelope)
    if _fits(envelope, max_bytes):
        return envelope
    keep = max_bytes
    while keep >= _LEAST_TEXT_BYTES:
        cut = _with_text_cut(envelope, keep)
        if _fits(cut, max_bytes):
            return cut
        keep //= 2
    dropped = _without_text(envelope)
    return dropped if _fits(dropped, max_bytes) else _bare(dropped)


def _fits(envelope: ToolEnvelope, max_bytes: int) -> bool:
    return len(msgspec.json.encode(envelope)) <= max_bytes


def _changed(envelope: ToolEnvelope, warning: str, **mcp: Any) -> ToolEnvelope:
    warnings = envelope["warnings"]
    if all(item["code"] != warning for item in warnings):
        warnings = [*warnings, ToolWarning(code=warning, message=_MESSAGES[warning])]
    data = {**envelope["data"], "mcp": {**envelope["data"]["mcp"], **mcp}}
    return {**envelope, "data": data, "warnings": warnings}


def _without_binaries(envelope: ToolEnvelope) -> ToolEnvelope:
    blocks = envelope["data"]["mcp"]["content"]
    if not any(_holds_binary(block) for block in blocks):
        return envelope
    content = [describe_block(block) if _holds_binary(block) else block for block in blocks]
    return _changed(envelope, BINARY_TRUNCATED, content=content)


def _with_described_content(envelope: ToolEnvelope) -> ToolEnvelope:
    content = [describe_block(block) for block in envelope["data"]["mcp"]["content"]]
    return _changed(envelope, CONTENT_TRUNCATED, content=content, structured_content=None)


def _with_text_cut(envelope: ToolEnvelope, keep: int) -> ToolEnvelope:
    changed = _changed(envelope, CONTENT_TRUNCATED, content=[])
    text = envelope["data"]["text"]
    encoded = text.encode(errors="replace")
    if len(encoded) <= keep:
        return changed
    changed = _changed(changed, TEXT_TRUNCATED)
    changed["data"]["text"] = whole_characters(encoded, keep).decode()
    return changed


def _without_text(envelope: ToolEnvelope) -> ToolEnvelope:
    changed = _changed(envelope, TEXT_DROPPED, content=[])
    changed["data"]["text"] = ""
    return changed


def _bare(envelope: ToolEnvelope) -> ToolEnvelope:
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
    if block.get("type") in _BINARY:
        return block.get(_BINARY[block["type"]]) is not None
    return isinstance(resource, Mapping) and resource.get("blob") is not None


def describe_block(block: Mapping[str, Any]) -> dict[str, Any]:
    """The block without its data: its type, names and size."""
    kind = str(block.get("type", ""))
    if kind == "text":
        return {"type": kind, "text": block.get("text")}
    if kind in _BINARY:
        return {"type": kind, "mimeType": block.get("mimeType"), "bytes": decoded_bytes(block.get(_BINARY[kind]))}
    if kind == "resource_link":
        return {"type": kind, "uri": block.get("uri"), "name": block.get("name")}
    resource = block.get("resource")
    if kind == "resource" and isinstance(resource, Mapping):
        told = {"type": kind, "uri": resource.get("uri"), "mimeType": resource.get("mimeType")}
        return {**told, "bytes": decoded_bytes(resource["blob"])} if resource.get("blob") is not None else told
    return {"type": kind[: bounds.TITLE_CHARACTERS]}
