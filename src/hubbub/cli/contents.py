"""What servers answer, as text for people: text as it is, the rest saved to files and named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from hubbub.cli.saving import save, stem_of
from hubbub.client.results import Block, ToolResult
from hubbub.protocol.content import Audio, EmbeddedResource, Image, ResourceContents, ResourceLink, Text


def tool_lines(result: ToolResult, tool: str, folder: str) -> Iterator[str]:
    """The result of a call. Data that is only repeated as one line of text is shown as data."""
    content = result.content if result.content is not UNSET else []
    if result.structured_content is not UNSET and _is_only(content, result.structured_content):
        yield pretty(result.structured_content)
    else:
        yield from block_lines(content, tool, folder)


def failure_lines(result: ToolResult, tool: str, folder: str) -> Iterator[str]:
    """Why a tool failed: the message of our own servers' data, else whatever it says."""
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
    """Blocks of content, one after the other."""
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
    """The contents of resources."""
    for each in contents:
        if isinstance(each.text, str):
            yield each.text
        elif isinstance(each.blob, bytes):
            mime_type = each.mime_type if isinstance(each.mime_type, str) else ""
            yield _saved("resource", each.blob, stem_of(each.uri), mime_type, folder)


def pretty(value: Any) -> str:
    """JSON for people."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _is_only(content: list[Any], structured: Any) -> bool:
    match content:
        case []:
            return True
        case [Text(text=text)]:
            return bool(_decoded(text) == structured)
    return False


def _decoded(text: str) -> Any:
    """Text that is JSON as its value; anything else as it is."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text


def _saved(what: str, data: bytes, stem: str, mime_type: str, folder: str) -> str:
    path = save(data, stem=stem, mime_type=mime_type, folder=folder)
    return f"{what} saved: {path} ({mime_type or 'unknown type'}, {len(data)} bytes)"
