"""Trim and validate arguments before they are looked up or stored."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.model import PageRequest

RESERVED_EVENTS: Final = ("campaign.", "participant.", "actor.", "session.", "roll.")
"""Event types that only the backend writes, so that callers cannot forge rolls."""
_EVENT_TYPE_PATTERN: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")
_PAGE_TOKEN: Final = re.compile(r"[0-9]{1,18}")


def validate_id(text: str, what: str) -> str:
    """Return a trimmed id; `what` names it in messages. Does not check that it exists."""
    return _validate_length(text.strip(), f"{what} id", max_characters=limits.MAX_ID_CHARACTERS, is_required=True)


def validate_name(text: str, what: str) -> str:
    """Return a trimmed, required name."""
    return _validate_length(text.strip(), what, max_characters=limits.MAX_NAME_CHARACTERS, is_required=True)


def validate_optional_name(text: str, what: str) -> str:
    """Return a trimmed name, which may be empty."""
    return _validate_length(text.strip(), what, max_characters=limits.MAX_NAME_CHARACTERS)


def validate_long_text(text: str, what: str) -> str:
    """Return a longer text unchanged, if it is within the limit."""
    return _validate_length(text, what, max_characters=limits.MAX_TEXT_CHARACTERS)


def validate_event_type(text: str) -> str:
    """Return an event type that callers may write."""
    kind = _validate_length(
        text.strip(), "event type", max_characters=limits.MAX_EVENT_TYPE_CHARACTERS, is_required=True
    )
    if not _EVENT_TYPE_PATTERN.fullmatch(kind):
        raise InvalidArgument(f"event type {kind!r} must be lower-case words with dots between them, like note.added")
    if f"{kind}.".startswith(RESERVED_EVENTS):
        raise InvalidArgument(f"event type {kind!r} is reserved for events of the server; choose another type")
    return kind


def validate_event_data(data: dict[str, Any], max_bytes: int | None = None) -> dict[str, Any]:
    """Return the data of an event, if it is within the size limit and serializable as JSON."""
    max_bytes = limits.MAX_EVENT_BYTES if max_bytes is None else max_bytes
    try:
        size = len(msgspec.json.encode(data))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"event data must be JSON: {error}") from error
    if size > max_bytes:
        raise InvalidArgument(f"event data must have at most {max_bytes} bytes as JSON, not {size}")
    return data


def resolve_page_size(page: PageRequest) -> int:
    """Return the number of records on a page."""
    return min(page.size, limits.MAX_PAGE_SIZE) if page.size > 0 else limits.DEFAULT_PAGE_SIZE


def parse_page_token(page: PageRequest) -> int | None:
    """Return the position after which a page begins; None for the first page."""
    if not page.token:
        return None
    if not _PAGE_TOKEN.fullmatch(page.token):
        raise InvalidArgument(
            f"page token {page.token[:20]!r} is invalid; use the next_page_token of the previous page"
        )
    return int(page.token)


def validate_characters(text: str, what: str) -> str:
    """Return a text, if databases and messages can hold its characters."""
    if "\0" in text or (not text.isascii() and _has_surrogates(text)):
        raise InvalidArgument(f"{what} must not contain NUL characters or unpaired surrogates")
    return text


def _validate_length(text: str, what: str, *, max_characters: int, is_required: bool = False) -> str:
    if is_required and not text:
        raise InvalidArgument(f"{what} is required")
    if len(text) > max_characters:
        raise InvalidArgument(f"{what} must have at most {max_characters} characters, not {len(text)}")
    return validate_characters(text, what)


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
