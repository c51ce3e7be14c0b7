"""Replies in the form of the caller's revision.

Peers answer once, in full; this module takes away or rewrites what a revision does
not know and adds what it demands. Nothing else looks at revisions to decide
what a result looks like.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw

from hubbub.errors import ToolError
from hubbub.protocol.content import Audio, Content, EmbeddedResource, ResourceContents, ResourceLink, Text
from hubbub.protocol.model import Implementation, RawReply, Reply
from hubbub.protocol.passed import shape_passed
from hubbub.protocol.revisions import Revision
from hubbub.protocol.wire import (
    InitializeReply,
    PromptEntry,
    PromptReply,
    PromptsReply,
    ResourceEntry,
    ResourcesReply,
    TemplateEntry,
    TemplatesReply,
    ToolEntry,
    ToolReply,
)

Entry = TypeVar("Entry", ResourceEntry, TemplateEntry, PromptEntry)

SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
_COMPLETE = Raw(b'"complete"')
_NULL = Raw(b"null")
_encode = msgspec.json.Encoder().encode


def identity_meta(info: Implementation) -> dict[str, Any]:
    """The `_meta` by which a server names itself in every modern result."""
    return {SERVER_INFO_KEY: Raw(_encode(info))}


def shape(reply: Reply, revision: Revision, identity: dict[str, Any]) -> Any:
    """The reply as an object to encode for this revision.

    Raises:
        ToolError: the reply is a failed tool call and the dialect has no result for that.
    """
    if isinstance(reply, ToolReply):
        _shape_tool_reply(reply, revision)
    elif isinstance(reply, RawReply):
        return _shape_raw(reply, revision, identity)
    elif isinstance(reply, PromptReply) and not revision.resource_links:
        for message in reply.messages:
            message.content = _older_content(message.content, revision)
    elif not revision.icons:
        _take_newer_names_away(reply, revision)
    if revision.result_type:
        if reply.result_type is UNSET:
            reply.result_type = "complete"
        reply.meta = identity if reply.meta is UNSET else identity | reply.meta
    if not revision.caching:
        reply.ttl_ms = reply.cache_scope = UNSET
    if not revision.is_mcp:
        reply.meta = UNSET
    return reply


def _take_newer_names_away(reply: Reply, revision: Revision) -> None:
    """Titles, icons and the like, which entries and servers had not from the start."""
    if isinstance(reply, ResourcesReply):
        reply.resources = [_older_entry(entry, revision) for entry in reply.resources]
    elif isinstance(reply, TemplatesReply):
        reply.resource_templates = [_older_entry(entry, revision) for entry in reply.resource_templates]
    elif isinstance(reply, PromptsReply):
        reply.prompts = [_older_entry(entry, revision) for entry in reply.prompts]
    elif isinstance(reply, InitializeReply):
        info = reply.server_info
        reply.server_info = Implementation(info.name, info.version, info.title if revision.titles else UNSET)


def _older_entry(entry: Entry, revision: Revision) -> Entry:
    entry = msgspec.structs.replace(entry)
    if not revision.titles:
        entry.title = entry.meta = UNSET
    if not isinstance(entry, TemplateEntry):
        entry.icons = UNSET
    return entry


def _shape_tool_reply(reply: ToolReply, revision: Revision) -> None:
    structured = reply.structured_content
    if structured is not UNSET and not isinstance(structured, Raw):
        structured = reply.structured_content = Raw(_encode(structured))
    if reply.content is UNSET:
        reply.content = [] if structured is UNSET else [Text(_as_text(structured, revision))]
    if not revision.is_mcp and reply.is_error is True:
        raise failure_in(reply)
    if structured is not UNSET:
        if revision.structured == "none":
            reply.structured_content = UNSET
        elif revision.structured == "object" and memoryview(structured)[0] != ord("{"):
            reply.structured_content = Raw(b'{"result":' + bytes(structured) + b"}")
    if not revision.resource_links:
        reply.content = [_older_content(item, revision) for item in reply.content]


def bare_result(reply: Reply) -> Reply:
    """What a tool returned, without the wrapping of `tools/call`: data, or text, or content, or null."""
    if not isinstance(reply, ToolReply) or reply.is_error is True:
        return reply
    if reply.structured_content is not UNSET:
        return RawReply(body=Raw(_encode(reply.structured_content)))
    content = [] if reply.content is UNSET else reply.content
    if not content:
        return RawReply(body=_NULL)
    if len(content) == 1 and isinstance(content[0], Text):
        return RawReply(body=Raw(_encode(content[0].text)))
    return reply


def _as_text(structured: Raw, revision: Revision) -> str:
    text = bytes(structured)
    return (text if revision.is_mcp else msgspec.json.format(text, indent=2)).decode()


def failure_in(reply: ToolReply) -> ToolError:
    """A result that says `isError`, as the error that the plain dialect makes of it."""
    content = [] if reply.content is UNSET else reply.content
    return ToolError(next((item.text for item in content if isinstance(item, Text)), "The tool failed"))


def _older_content(item: Content, revision: Revision) -> Content:
    """Content that came after a revision, in words that revision has."""
    if isinstance(item, ResourceLink):
        return Text(f"{item.name}: {item.uri}")
    if isinstance(item, Audio) and not revision.audio:
        contents = ResourceContents("data:audio", mime_type=item.mime_type, blob=item.data)
        return EmbeddedResource(contents)
    return item


def _shape_raw(reply: RawReply, revision: Revision, identity: dict[str, Any]) -> Any:
    if reply.revision is not None:
        return shape_passed(reply, revision, identity)
    if not revision.result_type:
        return reply.body
    members = msgspec.json.decode(reply.body, type=dict[str, Raw])
    members.setdefault("resultType", _COMPLETE)
    meta = msgspec.json.decode(members["_meta"], type=dict[str, Raw]) if "_meta" in members else {}
    return members | {"_meta": identity | meta}


def shape_tool_entry(entry: ToolEntry, wrapped_output: dict[str, Any] | None, revision: Revision) -> ToolEntry:
    """A tool's list entry with the fields that the revision knows."""
    entry = msgspec.structs.replace(entry)
    if revision.structured == "none":
        entry.output_schema = UNSET
    elif revision.structured == "object" and wrapped_output is not None:
        entry.output_schema = wrapped_output
    if not revision.annotations:
        entry.annotations = UNSET
    if not revision.titles:
        entry.title = entry.meta = UNSET
    if not revision.icons:
        entry.icons = UNSET
    return entry
