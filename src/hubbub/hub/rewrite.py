"""Rewrites calls and replies between the hub's names and those of a server.

Parameters are decoded one level deep; arguments are not decoded.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from hubbub.protocol.calls import NO_META, Call, RawReply, Reply
from hubbub.protocol.params import CallToolParams, ReadResourceParams, fill_arguments
from hubbub.protocol.results import ReadReply
from hubbub.protocol.shape import unwrap_result

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_contents = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def with_name(call: Call, name: str) -> Call:
    """Replace the name of the tool or prompt."""
    return _with_params(call, replace(call.params, name=name), name=name)


def with_resource_uri(call: Call, uri: str) -> Call:
    """Replace the URI of the resource."""
    return _with_params(call, replace(call.params, uri=uri), uri=uri)


def make_read_call(call: Call, uri: str) -> Call:
    """Make a `resources/read` request on behalf of the caller of another request."""
    raw = Raw(_encode({"uri": uri}))
    return replace(call, method="resources/read", raw=raw, params=ReadResourceParams(uri=uri), meta=NO_META)


def with_reference(call: Call, **members: str) -> Call:
    """Replace the name or URI of the prompt or template to complete."""
    reference = replace(call.params.ref, **members)
    return _with_params(call, replace(call.params, ref=reference), ref={**_decode(_decode(call.raw)["ref"]), **members})


def with_arguments(call: Call, name: str, arguments: Raw) -> Call:
    """Replace the tool and its arguments."""
    params = replace(call.params, name=name, arguments=fill_arguments(arguments))
    return _with_params(call, params, name=name, arguments=arguments)


def as_tool_call(call: Call, name: str) -> Call:
    """Turn a method call into `tools/call`: its params become the arguments."""
    arguments = call.raw.copy()
    raw = Raw(_encode({"name": name, "arguments": arguments}))
    params = CallToolParams(name=name, arguments=fill_arguments(arguments))
    return replace(call, method="tools/call", raw=raw, params=params)


def unwrap_reply(reply: Reply) -> Reply:
    """Return the value of a `tools/call` result without its wrapping; errors stay as they are."""
    if not isinstance(reply, RawReply):
        return unwrap_result(reply)
    try:
        members = _decode(reply.body)
        if bytes(members.get("isError", b"")) == b"true":
            return reply
        if "structuredContent" in members:
            return RawReply(body=members["structuredContent"])
        content = _decode_contents(members["content"])
    except (KeyError, msgspec.DecodeError):
        return reply
    if not content:
        return RawReply(body=Raw(b"null"))
    is_text = len(content) == 1 and bytes(content[0].get("type", b"")) == b'"text"'
    return RawReply(body=content[0]["text"]) if is_text and "text" in content[0] else reply


def with_reply_uri(reply: Reply, upstream_uri: str, client_uri: str) -> Reply:
    """Replace the server's URI of a resource with the one that the caller used."""
    if isinstance(reply, ReadReply):
        for content in reply.contents:
            if content.uri == upstream_uri:
                content.uri = client_uri
        return reply
    if not isinstance(reply, RawReply):
        return reply
    try:
        members = _decode(reply.body)
        contents = _decode_contents(members["contents"])
        for item in contents:
            if msgspec.json.decode(item.get("uri", b"null")) == upstream_uri:
                item["uri"] = Raw(_encode(client_uri))
    except (KeyError, msgspec.DecodeError):
        return reply  # not a valid result of a read: forwarded unchanged
    return replace(reply, body=Raw(_encode({**members, "contents": contents})))


def _with_params(call: Call, params: Any, **members: Any) -> Call:
    return replace(call, params=params, raw=Raw(_encode({**_decode(call.raw), **members})))
