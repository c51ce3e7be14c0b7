"""Converts an MCP result to text for a model: its blocks in order, then its structured content.

Text stays text; other blocks are described in brackets. Works on plain JSON, so that blocks of unknown types do not
fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

_STRUCTURED_LABEL: Final = "structuredContent:"
_NOT_JSON: Final = object()


def plain_blocks(content: Any) -> list[dict[str, Any]]:
    """The content of a result as plain JSON; values that are not blocks are left out."""
    if not isinstance(content, Sequence) or isinstance(content, str | bytes):
        return []
    return [block for item in content if (block := _to_plain(item)) is not None]


def summarize(content: Sequence[Mapping[str, Any]], structured: Any, *, has_structured: bool) -> str:
    """The text of a result: its blocks, then its structured content unless a text block already contains it."""
    parts = [line for block in content if (line := _describe_block(block)) is not None]
    if has_structured and not _is_in_text(structured, content):
        parts += ["", _STRUCTURED_LABEL, msgspec.json.encode(structured).decode()]
    return "\n".join(parts).strip()


def _is_in_text(structured: Any, content: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a text block already is the structured content as JSON, as the specification recommends."""
    values = [structured]
    if isinstance(structured, Mapping) and structured.keys() == {"result"}:
        values.append(structured["result"])  # How SDKs wrap results that are not objects.
    for block in content:
        text = block.get("text") if block.get("type") == "text" and not _is_for_user_only(block) else None
        if isinstance(text, str) and (text in values[1:] or _decode(text) in values):
            return True
    return False


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _NOT_JSON


def decoded_bytes(data: Any) -> int:
    """Size in bytes of base64 data after decoding."""
    if isinstance(data, bytes):
        return len(data)
    if not isinstance(data, str):
        return 0
    return len(data.rstrip("=\n\r ")) * 3 // 4


def _to_plain(item: Any) -> dict[str, Any] | None:
    if isinstance(item, Mapping):
        return dict(item)
    # A block that the client could not decode keeps all its members.
    fields = getattr(item, "fields", None)
    if isinstance(fields, Mapping):
        return dict(fields)
    converted = msgspec.to_builtins(item) if isinstance(item, msgspec.Struct) else None
    return converted if isinstance(converted, dict) else None


def _describe_block(block: Mapping[str, Any]) -> str | None:
    kind = str(block.get("type", ""))
    if _is_for_user_only(block):
        return f"[{kind}: for the user only]"
    if kind == "text":
        text = block.get("text")
        return text if isinstance(text, str) else None
    if kind in ("image", "audio"):
        return f"[{kind}: {block.get('mimeType') or 'unknown type'}, {decoded_bytes(block.get('data'))} bytes]"
    if kind == "resource_link":
        return _describe_link(block)
    if kind == "resource":
        return _describe_resource(block)
    return f"[content: type={kind}]"


def _is_for_user_only(block: Mapping[str, Any]) -> bool:
    annotations = block.get("annotations")
    audience = annotations.get("audience") if isinstance(annotations, Mapping) else None
    return isinstance(audience, list) and bool(audience) and "assistant" not in audience


def _describe_link(block: Mapping[str, Any]) -> str:
    parts = [str(part) for part in (block.get("uri") or block.get("url"), block.get("name")) if part]
    return " ".join(["[resource_link", *parts]) + "]"


def _describe_resource(block: Mapping[str, Any]) -> str:
    inner = block.get("resource")
    contents = inner if isinstance(inner, Mapping) else block
    uri = contents.get("uri") or contents.get("url")
    head = f"[resource {uri}]" if uri else "[resource]"
    if isinstance(contents.get("text"), str):
        return f"{head}\n{contents['text']}"
    if contents.get("blob") is not None:
        kind = contents.get("mimeType") or "unknown type"
        return f"{head[:-1]}: {kind}, {decoded_bytes(contents['blob'])} bytes]"
    return head
