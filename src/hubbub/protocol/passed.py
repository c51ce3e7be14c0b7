"""What only passes through, in the form of the caller's revision: results and list entries as raw JSON.

The same rules as in `shape`, for what a server of another revision has written. It is
taken apart no deeper than a rule needs, and not at all where both speak alike.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from hubbub.errors import ToolError
from hubbub.protocol.model import RawReply
from hubbub.protocol.revisions import Revision

_OURS = "io.modelcontextprotocol/"
_COMPLETE = Raw(b'"complete"')
_TRUE = b"true"
_ONLY_MODERN = ("resultType", "ttlMs", "cacheScope")
_REST = b"}"
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.Encoder().encode


class _Block(msgspec.Struct, rename="camel"):
    type: str = ""
    text: str = ""
    name: str = ""
    uri: str = ""
    data: str = ""
    mime_type: str = "audio/wav"


_decode_block = msgspec.json.Decoder(_Block).decode


def shape_passed(reply: RawReply, revision: Revision, identity: dict[str, Any]) -> Any:
    """The result as an object to encode for this revision.

    Raises:
        ToolError: it is a failed tool call and the dialect has no result for that.
    """
    source = reply.revision
    assert source is not None
    if revision.result_type:
        return reply.body if source.result_type else _modern(reply.body, identity)
    if not source.result_type and revision.resource_links:
        return reply.body
    members = _decode(reply.body)
    for name in _ONLY_MODERN:
        members.pop(name, None)
    _drop_our_meta(members)
    if "content" in members or "structuredContent" in members:
        _older_tool_result(members, revision, wraps=reply.wraps)
    elif "messages" in members and not revision.resource_links:
        members["messages"] = Raw(_encode([_older_message(item, revision) for item in _list(members["messages"])]))
    if not revision.is_mcp:
        members.pop("_meta", None)
    return members


def _modern(body: Raw, identity: dict[str, Any]) -> Any:
    """A legacy result with what a modern one has besides."""
    text = bytes(body)
    if text.startswith(b'{"content":') and b'"_meta"' not in text and b'"resultType"' not in text:
        return Raw(b'{"resultType":"complete","_meta":' + _encode(identity) + b"," + text[1:])
    members = _decode(body)
    members.setdefault("resultType", _COMPLETE)
    if "contents" in members:
        members.setdefault("ttlMs", Raw(b"0"))
        members.setdefault("cacheScope", Raw(b'"private"'))
    meta = _decode(members["_meta"]) if "_meta" in members else {}
    return members | {"_meta": identity | meta}


def _drop_our_meta(members: dict[str, Raw]) -> None:
    meta = members.pop("_meta", None)
    if meta is None:
        return
    kept = {key: value for key, value in _decode(meta).items() if not key.startswith(_OURS)}
    if kept:
        members["_meta"] = Raw(_encode(kept))


def _older_tool_result(members: dict[str, Raw], revision: Revision, *, wraps: bool) -> None:
    content = members.get("content", Raw(b"[]"))
    if not revision.is_mcp:
        if bytes(members.get("isError", b"")) == _TRUE:
            raise ToolError(_first_text(content))
        members.clear()
        members["content"] = content
    structured = members.get("structuredContent")
    if structured is not None:
        if revision.structured == "none":
            del members["structuredContent"]
        elif revision.structured == "object" and (wraps or bytes(structured)[:1] != b"{"):
            members["structuredContent"] = Raw(b'{"result":' + bytes(structured) + _REST)
    if not revision.resource_links:
        members["content"] = Raw(_encode([_older_block(item, revision) for item in _list(content)]))


def _older_message(raw: Raw, revision: Revision) -> Any:
    try:
        members = _decode(raw)
        return members | {"content": _older_block(members["content"], revision)}
    except (msgspec.DecodeError, KeyError):
        return raw


def _older_block(raw: Raw, revision: Revision) -> Any:
    """Content that came after a revision, in words that revision has."""
    try:
        block = _decode_block(raw)
    except msgspec.DecodeError:
        return raw
    if block.type == "resource_link":
        return {"type": "text", "text": f"{block.name}: {block.uri}"}
    if block.type == "audio" and not revision.audio:
        contents = {"uri": "data:audio", "mimeType": block.mime_type, "blob": block.data}
        return {"type": "resource", "resource": contents}
    return raw


def _first_text(content: Raw) -> str:
    for item in _list(content):
        try:
            block = _decode_block(item)
        except msgspec.DecodeError:
            continue
        if block.type == "text":
            return block.text
    return "The tool failed"


def _list(raw: Raw) -> list[Raw]:
    try:
        return _decode_list(raw)
    except msgspec.DecodeError:
        return []


# -- lists -----------------------------------------------------------------------


def entry_for(members: dict[str, Raw], source: Revision, revision: Revision) -> dict[str, Raw]:
    """An entry of any list with the members that the revision knows, and all that nobody knows."""
    entry = dict(members)
    if not revision.annotations:
        entry.pop("annotations", None)
    if not revision.titles:
        entry.pop("title", None)
        entry.pop("_meta", None)
    if not revision.icons:
        entry.pop("icons", None)
    output = entry.get("outputSchema")
    if output is not None:
        if revision.structured == "none":
            del entry["outputSchema"]
        elif revision.structured == "object" and source.structured == "any" and is_wrapped(members):
            wrapped = _wrapped(output)
            if wrapped is None:
                del entry["outputSchema"]
            else:
                entry["outputSchema"] = wrapped
    return entry


def is_wrapped(members: dict[str, Raw]) -> bool:
    """Whether what this tool returns must be put into an object for revisions that allow only objects."""
    schema = members.get("outputSchema")
    if schema is None:
        return False
    try:
        return bytes(_decode(schema).get("type", b"")) != b'"object"'
    except msgspec.DecodeError:
        return False


def _wrapped(schema: Raw) -> Raw | None:
    """The schema of `{"result": value}`; None if it points into itself in a way that would lead astray."""
    inner = _decode(schema)
    whole: dict[str, Any] = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    text = bytes(schema).replace(b" ", b"")
    for key in ("$defs", "definitions"):
        if key in inner:
            whole[key] = inner.pop(key)
    if text.count(b'"$ref":"#') != text.count(b'"$ref":"#/$defs/') + text.count(b'"$ref":"#/definitions/'):
        return None
    return Raw(_encode(whole))
