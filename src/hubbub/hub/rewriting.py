"""Calls under other names: what the hub calls a tool is not always what its server calls it.

Parameters are taken apart one level deep; arguments stay as they came.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from hubbub.protocol.model import NO_META, Call, RawReply, Reply
from hubbub.protocol.params import CallToolParams, ReadResourceParams
from hubbub.protocol.shape import bare_result
from hubbub.protocol.wire import ReadReply

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_contents = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def renamed(call: Call, name: str) -> Call:
    """The same call of a tool or a prompt that has another name there."""
    return _with(call, replace(call.params, name=name), name=name)


def readdressed(call: Call, uri: str) -> Call:
    """The same read of a resource that has another URI there."""
    return _with(call, replace(call.params, uri=uri), uri=uri)


def reading(call: Call, uri: str) -> Call:
    """The read of a resource, in the name of who asks something else about it."""
    raw = Raw(_encode({"uri": uri}))
    return replace(call, method="resources/read", raw=raw, params=ReadResourceParams(uri=uri), meta=NO_META)


def referring(call: Call, **members: str) -> Call:
    """The same completion for a prompt or template that is called otherwise there."""
    reference = replace(call.params.ref, **members)
    return _with(call, replace(call.params, ref=reference), ref={**_decode(_decode(call.raw)["ref"]), **members})


def with_arguments(call: Call, name: str, arguments: Raw) -> Call:
    """The same call, but of another tool with other arguments."""
    return _with(call, replace(call.params, name=name, arguments=arguments), name=name, arguments=arguments)


def called_by_name(call: Call, name: str) -> Call:
    """A tool that was called as a method: what were the parameters are its arguments."""
    arguments = call.raw.copy()
    raw = Raw(_encode({"name": name, "arguments": arguments}))
    return replace(call, method="tools/call", raw=raw, params=CallToolParams(name=name, arguments=arguments))


def bare(reply: Reply) -> Reply:
    """What a tool returned, without the wrapping of `tools/call`; a failure stays one."""
    if not isinstance(reply, RawReply):
        return bare_result(reply)
    members = _decode(reply.body)
    if bytes(members.get("isError", b"")) == b"true":
        return reply
    if "structuredContent" in members:
        return RawReply(body=members["structuredContent"])
    try:
        content = _decode_contents(members["content"])
    except (KeyError, msgspec.DecodeError):
        return reply
    if not content:
        return RawReply(body=Raw(b"null"))
    is_text = len(content) == 1 and bytes(content[0].get("type", b"")) == b'"text"'
    return RawReply(body=content[0]["text"]) if is_text and "text" in content[0] else reply


def with_uri(reply: Reply, own: str, shown: str) -> Reply:
    """The contents of a resource under the URI that the caller knows it by."""
    if isinstance(reply, ReadReply):
        for content in reply.contents:
            if content.uri == own:
                content.uri = shown
        return reply
    if not isinstance(reply, RawReply):
        return reply
    try:
        members = _decode(reply.body)
        contents = _decode_contents(members["contents"])
        for item in contents:
            if msgspec.json.decode(item.get("uri", b"null")) == own:
                item["uri"] = Raw(_encode(shown))
    except (KeyError, msgspec.DecodeError):
        return reply  # not what a read gives, and not ours to mend
    return replace(reply, body=Raw(_encode({**members, "contents": contents})))


def _with(call: Call, params: Any, **members: Any) -> Call:
    return replace(call, params=params, raw=Raw(_encode({**_decode(call.raw), **members})))
