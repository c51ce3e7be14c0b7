"""Formats answers of servers for people: text as it is, other content saved to files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from hubbub.cli.saving import save, stem_of
from hubbub.client.results import Block
from hubbub.protocol.content import Audio, EmbeddedResource, Image, ResourceContents, ResourceLink, Text
from hubbub.protocol.wire import ToolResult


def tool_lines(result: ToolResult, tool: str, folder: str) -> Iterator[str]:
    """Format the result of a call; structured content that is only repeated as text is shown as JSON."""
    content = result.content if result.content is not UNSET else []
    if result.structured_content is not UNSET and _is_only(content, result.structured_content):
        yield pretty(result.structured_content)
    else:
        yield from block_lines(content, tool, folder)


def failure_lines(result: ToolResult, tool: str, folder: str) -> Iterator[str]:
    """Format a failed call: the error message of Hubbub's servers, otherwise the whole result."""
    match result.content:
        case [Text(text=text)]:
            data = _decoded(text)
        case _:
            data = result.structured_content
    match data:
        case {"error": {"message": str(message)}}:
            yield f"{tool} failed: {message}"
        case _:
            said = "\n".join(tool_lines(result, tool, folder))
            yield f"{tool} failed: {said or 'it does not say why'}"


def block_lines(blocks: Iterable[Any], stem: str, folder: str) -> Iterator[str]:
    for block in blocks:
        match block:
            case Text(text=text):
                yield text
            case Image(data=data, mime_type=mime_type):
                yield _saved("image", data, stem, mime_type, folder)
            case Audio(data=data, mime_type=mime_type):
                yield _saved("audio", data, stem, mime_type, folder)
            case EmbeddedResource(resource=resource):
                yield from resource_lines([resource], folder)
            case ResourceLink(uri=uri, name=name):
                yield f"link: {name} {uri}"
            case Block(fields=fields):
                yield pretty(fields)
            case _:
                yield pretty(block)


def resource_lines(contents: Iterable[ResourceContents], folder: str) -> Iterator[str]:
    for each in contents:
        if isinstance(each.text, str):
            yield each.text
        elif isinstance(each.blob, bytes):
            mime_type = each.mime_type if isinstance(each.mime_type, str) else ""
            yield _saved("resource", each.blob, stem_of(each.uri), mime_type, folder)


def pretty(value: Any) -> str:
    """Format a value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _is_only(content: list[Any], structured: Any) -> bool:
    match content:
        case []:
            return True
        case [Text(text=text)]:
            return bool(_decoded(text) == structured)
    return False


def _decoded(text: str) -> Any:
    """Decode text that is JSON; return other text unchanged."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text


def _saved(what: str, data: bytes, stem: str, mime_type: str, folder: str) -> str:
    path = save(data, stem=stem, mime_type=mime_type, folder=folder)
    return f"{what} saved: {path} ({mime_type or 'unknown type'}, {len(data)} bytes)"
