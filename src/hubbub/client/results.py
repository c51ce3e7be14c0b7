"""Decoded results of servers: the structs of `protocol.results`, each with the raw JSON it was made from.

Servers are not always exact. A result that fits its struct is decoded in one pass; otherwise
it is read piece by piece, and invalid pieces are left out (entries of lists) or kept
undecoded (blocks of content).
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub.errors import InvalidResponse, TransportError
from hubbub.protocol import results
from hubbub.protocol.content import Content
from hubbub.protocol.results import DecodedResult, ToolResult

logger = logging.getLogger("hubbub.client")


class Block(msgspec.Struct, frozen=True):
    """Content of an unknown type, or that does not fit its type."""

    type: str
    fields: dict[str, Any]
    """All its members, including `type`."""


class ToolsPage(results.ToolsReply, DecodedResult):
    """One page of `tools/list`."""


class ResourcesPage(results.ResourcesReply, DecodedResult):
    """One page of `resources/list`."""


class TemplatesPage(results.TemplatesReply, DecodedResult):
    """One page of `resources/templates/list`."""


class PromptsPage(results.PromptsReply, DecodedResult):
    """One page of `prompts/list`."""


class ResourceResult(results.ReadReply, DecodedResult):
    """The result of `resources/read`."""


class PromptResult(results.PromptReply, DecodedResult):
    """The result of `prompts/get`. The content of a message may be a `Block`."""


class CompletionResult(results.CompleteReply, DecodedResult):
    """The result of `completion/complete`."""


class ServerInfo(msgspec.Struct, rename="camel"):
    """The name and version that the server reports."""

    name: str = ""
    version: str = ""
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    website_url: str | UnsetType = UNSET


R = TypeVar("R", bound=DecodedResult)
_LIST_MEMBERS: dict[type[DecodedResult], tuple[str, str, type[Any]]] = {
    ToolsPage: ("tools", "tools", results.ToolEntry),
    ResourcesPage: ("resources", "resources", results.ResourceEntry),
    TemplatesPage: ("resourceTemplates", "resource_templates", results.TemplateEntry),
    PromptsPage: ("prompts", "prompts", results.PromptEntry),
    ToolResult: ("content", "content", Any),
    PromptResult: ("messages", "messages", Any),
}


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def decode_result(raw: Raw, kind: type[R]) -> R:
    """Decode a result; leave out or keep undecoded its invalid pieces.

    Raises:
        InvalidResponse: it cannot be decoded as this kind at all.
    """
    try:
        result: R = _decoder(kind).decode(raw)
    except (ValueError, RecursionError) as error:
        try:
            result = _decode_leniently(raw, kind, error)
        except (ValueError, RecursionError):
            raise _invalid_response(kind, error) from None
    _fill_missing_lists(result)
    result.__dict__["raw"] = raw
    return result


def _fill_missing_lists(result: DecodedResult) -> None:
    """Replace missing lists by empty ones, so that callers can iterate over them."""
    match result:
        case ToolResult(content=msgspec.UNSET):
            result.content = []
        case PromptsPage(prompts=prompts):
            for prompt in prompts:
                if prompt.arguments is UNSET:
                    prompt.arguments = []


def _decode_leniently(raw: Raw, kind: type[R], cause: Exception) -> R:
    list_spec = _LIST_MEMBERS.get(kind)
    parts = _decoder(dict[str, Raw]).decode(raw)
    if list_spec is None:
        raise _invalid_response(kind, cause)
    member, attribute, entry = list_spec
    items = _decoder(list[Raw]).decode(parts.pop(member, Raw(b"[]")))
    result: R = _decoder(kind).decode(msgspec.json.encode({**_valid_members(parts, kind), member: []}))
    read = {ToolResult: _read_block, PromptResult: _read_message}.get(kind) or _read_entry
    setattr(result, attribute, [found for item in items if (found := read(item, entry)) is not None])
    return result


def _valid_members(parts: dict[str, Raw], kind: type[R]) -> dict[str, Raw]:
    """Return the members that are valid; an invalid `ttlMs` must not make the whole result fail."""
    valid = {}
    types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name, value in parts.items():
        try:
            _decoder(types.get(name, Any)).decode(value)
        except msgspec.ValidationError:
            logger.warning("a server's result has an invalid member %s; it was left out", name[:64])
            continue
        valid[name] = value
    return valid


def _read_entry(raw: Raw, entry: Any) -> Any:
    try:
        return _decoder(entry).decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        logger.warning("a server's list has an invalid entry; it was left out: %s", error)
        return None


def _read_block(raw: Raw, _: Any) -> Any:
    try:
        return _decoder(Content).decode(raw)
    except (msgspec.DecodeError, RecursionError):
        fields = msgspec.json.decode(raw)
        return Block(str(fields.get("type", "")), fields) if isinstance(fields, dict) else None


def _read_message(raw: Raw, _: Any) -> Any:
    parts = msgspec.json.decode(raw, type=dict[str, Raw])
    role = msgspec.json.decode(parts.get("role", Raw(b'"user"')))
    content = _read_block(parts.get("content", Raw(b"null")), None)
    return None if content is None else results.PromptMessage(str(role), content)


def _invalid_response(kind: type[Any], cause: Exception) -> TransportError:
    return InvalidResponse(f"The server's result is not a valid {kind.__name__}: {cause}")
