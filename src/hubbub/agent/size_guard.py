"""Keeps the envelope of an MCP call within a number of bytes, as it is written.

Takes away the least first: binary data, then everything but text and names, then the
end of the text, then all of it. Each step leaves a warning. Never returns more than
the limit, which has a least value so that an empty envelope fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.agent.envelope import Envelope, Warned
from hubbub.agent.summary import decoded_bytes
from hubbub.errors import SettingsError
from hubbub.store.spill import whole_characters

CONTENT_TRUNCATED: Final = "CONTENT_TRUNCATED"
TEXT_TRUNCATED: Final = "TEXT_TRUNCATED"
TEXT_DROPPED: Final = "TEXT_DROPPED"

_MESSAGES: Final = {
    CONTENT_TRUNCATED: "The content was too large and is described instead",
    TEXT_TRUNCATED: "The text was too large and was cut",
    TEXT_DROPPED: "The text was too large and was left out",
}
_LEAST_TEXT_BYTES: Final = 64
_BINARY: Final = {"image": "data", "audio": "data"}


def check_limit(max_bytes: int) -> int:
    """The limit, if an envelope can live with it.

    Raises: SettingsError.
    """
    least = bounds.LEAST_TOOL_OUTPUT_BYTES
    if type(max_bytes) is not int or max_bytes < least:
        raise SettingsError(f"A limit for tool output is a number of bytes from {least} on, not {max_bytes!r}")
    return max_bytes


def guard(envelope: Envelope, max_bytes: int) -> Envelope:
    """The envelope, or as much of it as fits."""
    if _fits(envelope, max_bytes):
        return envelope
    if "text" not in envelope["data"]:
        return _bare(envelope)
    for step in (_without_binaries, _with_described_content):
        envelope = step(envelope)
        if _fits(envelope, max_bytes):
            return envelope
    keep = max_bytes // 2
    while keep >= _LEAST_TEXT_BYTES:
        cut = _with_text_cut(envelope, keep)
        if _fits(cut, max_bytes):
            return cut
        keep //= 2
    dropped = _without_text(envelope)
    return dropped if _fits(dropped, max_bytes) else _bare(dropped)


def _fits(envelope: Envelope, max_bytes: int) -> bool:
    return len(msgspec.json.encode(envelope)) <= max_bytes


def _changed(envelope: Envelope, warning: str, **mcp: Any) -> Envelope:
    warnings = envelope["warnings"]
    if all(item["code"] != warning for item in warnings):
        warnings = [*warnings, Warned(code=warning, message=_MESSAGES[warning])]
    data = {**envelope["data"], "mcp": {**envelope["data"]["mcp"], **mcp}}
    return {**envelope, "data": data, "warnings": warnings}


def _without_binaries(envelope: Envelope) -> Envelope:
    blocks = envelope["data"]["mcp"]["content"]
    if not any(_holds_binary(block) for block in blocks):
        return envelope
    content = [_described(block) if _holds_binary(block) else block for block in blocks]
    return _changed(envelope, CONTENT_TRUNCATED, content=content)


def _with_described_content(envelope: Envelope) -> Envelope:
    content = [_described(block) for block in envelope["data"]["mcp"]["content"]]
    return _changed(envelope, CONTENT_TRUNCATED, content=content, structured_content=None)


def _with_text_cut(envelope: Envelope, keep: int) -> Envelope:
    changed = _changed(envelope, CONTENT_TRUNCATED, content=[])
    text = envelope["data"]["text"]
    encoded = text.encode(errors="replace")
    if len(encoded) <= keep:
        return changed
    changed = _changed(changed, TEXT_TRUNCATED)
    changed["data"]["text"] = whole_characters(encoded, keep).decode()
    return changed


def _without_text(envelope: Envelope) -> Envelope:
    changed = _changed(envelope, TEXT_DROPPED, content=[])
    changed["data"]["text"] = ""
    return changed


def _bare(envelope: Envelope) -> Envelope:
    """What is left when even names and messages are too long."""
    return Envelope(
        ok=envelope["ok"],
        tool_name=envelope["tool_name"][: bounds.TOOL_KEY_CHARACTERS],
        data={"text": ""},
        warnings=[Warned(code=TEXT_DROPPED, message=_MESSAGES[TEXT_DROPPED])],
        errors=[{**error, "message": ""} for error in envelope["errors"][:1]],
    )


def _holds_binary(block: Mapping[str, Any]) -> bool:
    resource = block.get("resource")
    return block.get("type") in _BINARY or (isinstance(resource, Mapping) and resource.get("blob") is not None)


def _described(block: Mapping[str, Any]) -> dict[str, Any]:
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
