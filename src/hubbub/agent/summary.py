"""What an MCP result says, as text for a model: its blocks in order, then its structured content.

Text stays text; what is no text is named in brackets with what is known of it. Works on
plain JSON, so that a block of a type nobody knows is no reason to fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

_LABEL: Final = "structuredContent:"


def plain_blocks(content: Any) -> list[dict[str, Any]]:
    """The content of a result as plain JSON; what is no block is left out."""
    if not isinstance(content, Sequence) or isinstance(content, str | bytes):
        return []
    return [block for item in content if (block := _plain(item)) is not None]


def summarise(content: Sequence[Mapping[str, Any]], structured: Any, *, has_structured: bool) -> str:
    """The text of a result. Structured content of any value counts, if there is some."""
    parts = [told for block in content if (told := _told(block)) is not None]
    if has_structured:
        parts += ["", _LABEL, msgspec.json.encode(structured).decode()]
    return "\n".join(parts).strip()


def decoded_bytes(data: Any) -> int:
    """How many bytes a text of base64 stands for."""
    if isinstance(data, bytes):
        return len(data)
    if not isinstance(data, str):
        return 0
    return len(data.rstrip("=\n\r ")) * 3 // 4


def _plain(item: Any) -> dict[str, Any] | None:
    if isinstance(item, Mapping):
        return dict(item)
    # A block that the client could not read as its type keeps everything it held.
    fields = getattr(item, "fields", None)
    if isinstance(fields, Mapping):
        return dict(fields)
    built = msgspec.to_builtins(item) if isinstance(item, msgspec.Struct) else None
    return built if isinstance(built, dict) else None


def _told(block: Mapping[str, Any]) -> str | None:
    kind = str(block.get("type", ""))
    if _is_for_user_only(block):
        return f"[{kind}: for the user only]"
    if kind == "text":
        text = block.get("text")
        return text if isinstance(text, str) else None
    if kind in ("image", "audio"):
        return f"[{kind}: {block.get('mimeType') or 'unknown type'}, {decoded_bytes(block.get('data'))} bytes]"
    if kind == "resource_link":
        return _link(block)
    if kind == "resource":
        return _resource(block)
    return f"[content: type={kind}]"


def _is_for_user_only(block: Mapping[str, Any]) -> bool:
    annotations = block.get("annotations")
    audience = annotations.get("audience") if isinstance(annotations, Mapping) else None
    return isinstance(audience, list) and bool(audience) and "assistant" not in audience


def _link(block: Mapping[str, Any]) -> str:
    parts = [str(part) for part in (block.get("uri") or block.get("url"), block.get("name")) if part]
    return " ".join(["[resource_link", *parts]) + "]"


def _resource(block: Mapping[str, Any]) -> str:
    inner = block.get("resource")
    held = inner if isinstance(inner, Mapping) else block
    uri = held.get("uri") or held.get("url")
    head = f"[resource {uri}]" if uri else "[resource]"
    if isinstance(held.get("text"), str):
        return f"{head}\n{held['text']}"
    if held.get("blob") is not None:
        kind = held.get("mimeType") or "unknown type"
        return f"{head[:-1]}: {kind}, {decoded_bytes(held['blob'])} bytes]"
    return head
