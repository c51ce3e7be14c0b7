"""Converts replies to the form of the caller's revision, by tables of what older revisions lack.

Peers answer once, in full. Members that a revision does not know are removed or replaced, and those
that it requires are added. The same rules apply to typed replies and to the raw JSON that a hub
forwards, which is decoded no deeper than a rule needs. No other module decides by revision which
members of a result or a list entry are sent. Whether a failed tool is a result or an error is decided
by `server.answer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw

from hubbub.errors import ToolError
from hubbub.protocol.calls import Implementation, RawReply, Reply
from hubbub.protocol.content import CONTENT_TYPES, Content, EmbeddedResource, ResourceContents, Text
from hubbub.protocol.results import (
    InitializeReply,
    PromptReply,
    PromptsReply,
    ResourcesReply,
    TemplatesReply,
    ToolEntry,
    ToolResult,
)
from hubbub.protocol.revisions import NEWEST_MODERN, Revision

Kind = Literal["entry", "tool", "server", "capabilities", "result", "tool result"]
Members = dict[str, Raw]
S = TypeVar("S", bound=msgspec.Struct)

SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
_SPEC_PREFIX = "io.modelcontextprotocol/"
_COMPLETE_RESULT = Raw(b'"complete"')
_NULL = Raw(b"null")
_TRUE = b"true"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Members).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode

# -- the rules ---------------------------------------------------------------------

_ENTRY = {"title": "titles", "_meta": "titles", "icons": "icons"}
_RESULT = {"resultType": "result_type", "ttlMs": "caching", "cacheScope": "caching", "_meta": "is_mcp"}
NEWER_FIELDS: dict[Kind, dict[str, str]] = {
    "entry": _ENTRY,
    "tool": _ENTRY | {"annotations": "annotations", "outputSchema": "structured"},
    "server": {"title": "titles", "description": "icons", "websiteUrl": "icons"},
    "capabilities": {"completions": "completions_flag"},
    "result": _RESULT,
    "tool result": _RESULT | {"structuredContent": "structured", "isError": "is_mcp"},
}
"""Fields that older revisions lack, each with the feature of `Revision` that introduced it."""


def _link_as_text(link: Any) -> Content:
    return Text(f"{link.name}: {link.uri}")


def _audio_as_resource(audio: Any) -> Content:
    return EmbeddedResource(ResourceContents("data:audio", mime_type=audio.mime_type, blob=audio.data))


NEWER_BLOCKS: dict[str, tuple[str, Callable[[Any], Content]]] = {
    "resource_link": ("resource_links", _link_as_text),
    "audio": ("audio", _audio_as_resource),
}
"""Content types that older revisions lack: the feature that introduced each, and how to replace it."""


def _lacks(revision: Revision, feature: str) -> bool:
    return getattr(revision, feature) in (False, "none")


_unknown_cache: dict[tuple[Kind, str], frozenset[str]] = {}
_fields_to_clear: dict[str, dict[type[msgspec.Struct], tuple[Callable[[Any], Any], Any, tuple[str, ...]]]] = {}
"""By revision and type: a function that reads the unknown fields at once, what it reads if none is set, their names."""


def _unknown_fields(kind: Kind, revision: Revision) -> frozenset[str]:
    """The fields, by their names in JSON, that a revision does not know."""
    found = _unknown_cache.get((kind, revision.version))
    if found is None:
        found = frozenset(name for name, feature in NEWER_FIELDS[kind].items() if _lacks(revision, feature))
        _unknown_cache[kind, revision.version] = found
    return found


def _clear_unknown(struct: msgspec.Struct, kind: Kind, revision: Revision) -> None:
    known = _fields_to_clear.get(revision.version)
    if known is None:
        known = _fields_to_clear[revision.version] = {}
    found = known.get(type(struct))
    if found is None:
        unknown = _unknown_fields(kind, revision)
        names = tuple(field.name for field in msgspec.structs.fields(type(struct)) if field.encode_name in unknown)
        unset = UNSET if len(names) == 1 else (UNSET,) * len(names)
        found = known[type(struct)] = (attrgetter(*names) if names else lambda struct: (), unset, names)
    read, unset, names = found
    if read(struct) != unset:
        for name in names:
            setattr(struct, name, UNSET)


def _older_copy(struct: S, kind: Kind, revision: Revision) -> S:
    struct = msgspec.structs.replace(struct)
    _clear_unknown(struct, kind, revision)
    return struct


def _older_structured(structured: Raw, revision: Revision, *, wraps: bool) -> Raw:
    """Wrap structured content in an object if it is not one, or if the tool's schema allows other values."""
    if revision.structured == "object" and (wraps or memoryview(structured)[0] != ord("{")):
        return Raw(b'{"result":' + bytes(structured) + b"}")
    return structured


class _Block(msgspec.Struct, rename="camel"):
    type: str = ""
    text: str = ""
    name: str = ""
    uri: str = ""
    data: str = ""
    mime_type: str = "audio/wav"


_decode_block = msgspec.json.Decoder(_Block).decode
_TAGS: dict[type[msgspec.Struct], str] = {kind: str(kind.__struct_config__.tag) for kind in CONTENT_TYPES}


def _read_block(item: Content | Raw) -> tuple[str, Any]:
    """The type of a content block, and its fields."""
    if not isinstance(item, Raw):
        return _TAGS.get(type(item), ""), item
    try:
        block = _decode_block(item)
    except msgspec.DecodeError:
        return "", item
    return block.type, block


def _older_block(item: Any, revision: Revision) -> Any:
    """A content block, typed or raw; replaced if the revision does not know its type."""
    kind, block = _read_block(item)
    rule = NEWER_BLOCKS.get(kind)
    return item if rule is None or not _lacks(revision, rule[0]) else rule[1](block)


def _older_blocks(content: Iterable[Content | Raw], revision: Revision) -> list[Any]:
    return [_older_block(item, revision) for item in content]


def _build_tool_error(content: Iterable[Content | Raw]) -> ToolError:
    """The error that replaces a failed result in a dialect without `isError`."""
    texts = (block.text for kind, block in map(_read_block, content) if kind == "text")
    return ToolError(next(texts, "The tool failed"))


# -- typed replies -----------------------------------------------------------------


def identity_meta(info: Implementation) -> dict[str, Any]:
    """The `_meta` by which a server names itself in every modern result."""
    return {SERVER_INFO_KEY: Raw(_encode(info))}


def shape(reply: Reply, revision: Revision, identity: dict[str, Any]) -> Any:
    """The reply as an object to encode for this revision.

    Raises:
        ToolError: the reply is a failed tool call and the dialect has no `isError`.
    """
    if isinstance(reply, ToolResult):
        if reply.content is UNSET or reply.structured_content is not UNSET:
            _fill_content(reply, revision)
        if revision is not NEWEST_MODERN:
            _older_tool_reply(reply, revision)
    elif isinstance(reply, RawReply):
        return _shape_raw(reply, revision, identity)
    elif revision is not NEWEST_MODERN:
        _remove_newer(reply, revision)
    if revision.result_type:
        if reply.result_type is UNSET:
            reply.result_type = "complete"
        reply.meta = identity if reply.meta is UNSET else identity | reply.meta
    return reply


def _fill_content(reply: ToolResult, revision: Revision) -> None:
    structured = reply.structured_content
    if structured is not UNSET and not isinstance(structured, Raw):
        structured = reply.structured_content = Raw(_encode(structured))
    if reply.content is UNSET:
        reply.content = [] if structured is UNSET else [Text(_as_text(structured, revision))]


def _remove_newer(reply: Reply, revision: Revision) -> None:
    if isinstance(reply, PromptReply):
        if not revision.resource_links:
            for message in reply.messages:
                message.content = _older_block(message.content, revision)
    elif isinstance(reply, InitializeReply):
        reply.server_info = _older_copy(reply.server_info, "server", revision)
        unknown = _unknown_fields("capabilities", revision)
        reply.capabilities = {name: value for name, value in reply.capabilities.items() if name not in unknown}
    elif isinstance(reply, ResourcesReply):
        reply.resources = [_older_copy(entry, "entry", revision) for entry in reply.resources]
    elif isinstance(reply, TemplatesReply):
        reply.resource_templates = [_older_copy(entry, "entry", revision) for entry in reply.resource_templates]
    elif isinstance(reply, PromptsReply):
        reply.prompts = [_older_copy(entry, "entry", revision) for entry in reply.prompts]
    _clear_unknown_members(reply, "result", revision)


def _clear_unknown_members(reply: Reply, kind: Kind, revision: Revision) -> None:
    _clear_unknown(reply, kind, revision)
    if reply.meta is not UNSET and not revision.result_type:
        reply.meta = _remove_spec_keys(reply.meta) or UNSET


def _older_tool_reply(reply: ToolResult, revision: Revision) -> None:
    assert reply.content is not UNSET
    if reply.is_error is True and not revision.is_mcp:
        raise _build_tool_error(reply.content)
    if reply.structured_content is not UNSET:
        reply.structured_content = _older_structured(reply.structured_content, revision, wraps=reply.wraps)
    if not revision.resource_links:
        reply.content = _older_blocks(reply.content, revision)
    has_newer_members = not (
        reply.structured_content is UNSET
        and reply.is_error is UNSET
        and reply.meta is UNSET
        and reply.result_type is UNSET
        and reply.ttl_ms is UNSET
        and reply.cache_scope is UNSET
    )
    if has_newer_members:
        _clear_unknown_members(reply, "tool result", revision)


def shape_tool_entry(entry: ToolEntry, wrapped_output: dict[str, Any] | None, revision: Revision) -> ToolEntry:
    """A tool's list entry with the fields that the revision knows. Tools cache it, so `shape` does not change it."""
    entry = _older_copy(entry, "tool", revision)
    if revision.structured == "object" and wrapped_output is not None:
        entry.output_schema = wrapped_output
    return entry


def unwrap_result(reply: Reply) -> Reply:
    """What a tool returned, without the wrapping of `tools/call`: data, or text, or content, or null."""
    if not isinstance(reply, ToolResult) or reply.is_error is True:
        return reply
    if reply.structured_content is not UNSET:
        return RawReply(body=Raw(_encode(reply.structured_content)))
    content = [] if reply.content is UNSET else reply.content
    if not content:
        return RawReply(body=_NULL)
    if len(content) == 1 and isinstance(content[0], Text):
        return RawReply(body=Raw(_encode(content[0].text)))
    return reply


def to_tool_error(reply: ToolResult) -> ToolError:
    """Convert a result with `isError` into the error of the plain dialect."""
    return _build_tool_error([] if reply.content is UNSET else reply.content)


def _as_text(structured: Raw, revision: Revision) -> str:
    text = bytes(structured)
    return (text if revision.is_mcp else msgspec.json.format(text, indent=2)).decode()


def _remove_spec_keys(meta: dict[str, Any]) -> dict[str, Any]:
    """`_meta` without the keys of the specification, which only modern results have."""
    return {key: value for key, value in meta.items() if not key.startswith(_SPEC_PREFIX)}


# -- raw replies -------------------------------------------------------------------


def _shape_raw(reply: RawReply, revision: Revision, identity: dict[str, Any]) -> Any:
    source = reply.revision
    if revision.result_type:
        return reply.body if source is not None and source.result_type else _add_modern_members(reply, identity)
    if source is None or (not source.result_type and revision.resource_links):
        return reply.body
    members = _decode(reply.body)
    kind: Kind = "result"
    if "content" in members or "structuredContent" in members:
        kind = "tool result"
        members = _older_tool_result(members, revision, wraps=reply.wraps)
    elif "messages" in members and not revision.resource_links:
        members["messages"] = Raw(
            _encode([_older_message(item, revision) for item in _decode_items(members["messages"])])
        )
    for name in _unknown_fields(kind, revision):
        members.pop(name, None)
    if "_meta" in members:
        remaining = _remove_spec_keys(_decode(members.pop("_meta")))
        if remaining:
            members["_meta"] = Raw(_encode(remaining))
    return members


def _add_modern_members(reply: RawReply, identity: dict[str, Any]) -> Any:
    """Add the members of a modern result to a legacy one."""
    text = bytes(reply.body)
    if text.startswith(b'{"content":') and b'"_meta"' not in text and b'"resultType"' not in text:
        return Raw(b'{"resultType":"complete","_meta":' + _encode(identity) + b"," + text[1:])
    members = _decode(reply.body)
    members.setdefault("resultType", _COMPLETE_RESULT)
    if "contents" in members and reply.revision is not None:
        members.setdefault("ttlMs", Raw(b"0"))
        members.setdefault("cacheScope", Raw(b'"private"'))
    meta = _decode(members["_meta"]) if "_meta" in members else {}
    return members | {"_meta": identity | meta}


def _older_tool_result(members: Members, revision: Revision, *, wraps: bool) -> Members:
    content = members.get("content", Raw(b"[]"))
    if not revision.is_mcp:
        if bytes(members.get("isError", b"")) == _TRUE:
            raise _build_tool_error(_decode_items(content))
        members = {"content": content}  # unknown members are dropped
    structured = members.get("structuredContent")
    if structured is not None:
        members["structuredContent"] = _older_structured(structured, revision, wraps=wraps)
    if not revision.resource_links:
        members["content"] = Raw(_encode(_older_blocks(_decode_items(content), revision)))
    return members


def _older_message(raw: Raw, revision: Revision) -> Any:
    try:
        members = _decode(raw)
        return members | {"content": _older_block(members["content"], revision)}
    except (msgspec.DecodeError, KeyError):
        return raw


def _decode_items(raw: Raw) -> list[Raw]:
    try:
        return _decode_list(raw)
    except msgspec.DecodeError:
        return []


# -- raw list entries --------------------------------------------------------------


def shape_raw_entry(members: Members, source: Revision, revision: Revision) -> Members:
    """A list entry without members that the revision lacks; members of no revision are kept."""
    is_tool = "inputSchema" in members or "outputSchema" in members
    unknown = _unknown_fields("tool" if is_tool else "entry", revision)
    entry = {name: value for name, value in members.items() if name not in unknown}
    output = entry.get("outputSchema")
    if (
        output is not None
        and revision.structured == "object"
        and source.structured == "any"
        and needs_wrapping(members)
    ):
        wrapped = _wrap_schema(output)
        if wrapped is None:
            del entry["outputSchema"]
        else:
            entry["outputSchema"] = wrapped
    return entry


def needs_wrapping(members: Members) -> bool:
    """Whether what this tool returns must be put into an object for revisions that allow only objects."""
    schema = members.get("outputSchema")
    if schema is None:
        return False
    try:
        return bytes(_decode(schema).get("type", b"")) != b'"object"'
    except msgspec.DecodeError:
        return False


def _wrap_schema(schema: Raw) -> Raw | None:
    """The schema of `{"result": value}`; None if it has references that would no longer resolve."""
    inner = _decode(schema)
    wrapper: dict[str, Any] = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    text = bytes(schema).replace(b" ", b"")
    for key in ("$defs", "definitions"):
        if key in inner:
            wrapper[key] = inner.pop(key)
    if text.count(b'"$ref":"#') != text.count(b'"$ref":"#/$defs/') + text.count(b'"$ref":"#/definitions/'):
        return None
    return Raw(_encode(wrapper))
