"""Formats answers of servers for people: text as it is, other content saved to files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from hubbub.cli.saved_files import file_stem, save_file
from hubbub.client.results import Block
from hubbub.protocol.content import Audio, EmbeddedResource, Image, ResourceContents, ResourceLink, Text
from hubbub.protocol.results import ToolResult


def tool_lines(result: ToolResult, tool: str, folder: str) -> Iterator[str]:
    """Format the result of a call; structured content that is only repeated as text is shown as JSON."""
    content = result.content if result.content is not UNSET else []
    if result.structured_content is not UNSET and _repeats_structured(content, result.structured_content):
        yield format_json(result.structured_content)
    else:
        yield from block_lines(content, tool, folder)


def failure_lines(result: ToolResult, tool: str, folder: str) -> Iterator[str]:
    """Format a failed call: the error message of Hubbub's servers, otherwise the whole result."""
    match result.content:
        case [Text(text=text)]:
            data = _decode_json(text)
        case _:
            data = result.structured_content
    match data:
        case {"error": {"message": str(message)}}:
            yield f"{tool} failed: {message}"
        case _:
            text_output = "\n".join(tool_lines(result, tool, folder))
            yield f"{tool} failed: {text_output or 'the server gave no reason'}"


def block_lines(blocks: Iterable[Any], stem: str, folder: str) -> Iterator[str]:
    for block in blocks:
        match block:
            case Text(text=text):
                yield text
            case Image(data=data, mime_type=mime_type):
                yield _save_content("image", data, stem, mime_type, folder)
            case Audio(data=data, mime_type=mime_type):
                yield _save_content("audio", data, stem, mime_type, folder)
            case EmbeddedResource(resource=resource):
                yield from resource_lines([resource], folder)
            case ResourceLink(uri=uri, name=name):
                yield f"link: {name} {uri}"
            case Block(fields=fields):
                yield format_json(fields)
            case _:
                yield format_json(block)


def resource_lines(contents: Iterable[ResourceContents], folder: str) -> Iterator[str]:
    for each in contents:
        if isinstance(each.text, str):
            yield each.text
        elif isinstance(each.blob, bytes):
            mime_type = each.mime_type if isinstance(each.mime_type, str) else ""
            yield _save_content("resource", each.blob, file_stem(each.uri), mime_type, folder)


def format_json(value: Any) -> str:
    """Format a value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _repeats_structured(content: list[Any], structured: Any) -> bool:
    match content:
        case []:
            return True
        case [Text(text=text)]:
            return bool(_decode_json(text) == structured)
    return False


def _decode_json(text: str) -> Any:
    """Decode text that is JSON; return other text unchanged."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text


def _save_content(kind: str, data: bytes, stem: str, mime_type: str, folder: str) -> str:
    path = save_file(data, stem=stem, mime_type=mime_type, folder=folder)
    return f"{kind} saved: {path} ({mime_type or 'unknown type'}, {len(data)} bytes)"
