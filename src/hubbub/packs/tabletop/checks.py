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
_EVENT_TYPE: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")
_TOKEN: Final = re.compile(r"[0-9]{1,18}")


def identifier(given: str, what: str) -> str:
    """Return a trimmed id; `what` names it in messages. Does not check that it exists."""
    return _text(given.strip(), f"{what} id", most=limits.TABLE_ID_CHARACTERS, is_required=True)


def name(given: str, what: str) -> str:
    """Return a trimmed, required name."""
    return _text(given.strip(), what, most=limits.TABLE_NAME_CHARACTERS, is_required=True)


def optional_name(given: str, what: str) -> str:
    """Return a trimmed name, which may be empty."""
    return _text(given.strip(), what, most=limits.TABLE_NAME_CHARACTERS)


def prose(given: str, what: str) -> str:
    """Return a longer text unchanged, if it is within the limit."""
    return _text(given, what, most=limits.TABLE_TEXT_CHARACTERS)


def event_type(given: str) -> str:
    """Return an event type that callers may write."""
    kind = _text(given.strip(), "event type", most=limits.TABLE_EVENT_TYPE_CHARACTERS, is_required=True)
    if not _EVENT_TYPE.fullmatch(kind):
        raise InvalidArgument("event type must be lower-case words with dots between them, as note.added")
    if f"{kind}.".startswith(RESERVED_EVENTS):
        raise InvalidArgument(f"events of type {kind} are written by the server itself; choose another type")
    return kind


def event_data(data: dict[str, Any], most: int | None = None) -> dict[str, Any]:
    """Return the data of an event, if it is within the size limit and serializable as JSON."""
    most = limits.TABLE_EVENT_BYTES if most is None else most
    try:
        size = len(msgspec.json.encode(data))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"event data must be JSON: {error}") from error
    if size > most:
        raise InvalidArgument(f"event data may have at most {most} bytes as JSON, not {size}")
    return data


def page_size(page: PageRequest) -> int:
    """Return the number of records on a page."""
    return min(page.size, limits.TABLE_LARGEST_PAGE) if page.size > 0 else limits.TABLE_PAGE


def page_start(page: PageRequest) -> int | None:
    """Return the position after which a page begins; None for the first page."""
    if not page.token:
        return None
    if not _TOKEN.fullmatch(page.token):
        raise InvalidArgument("page token must be the next_page_token of an earlier page")
    return int(page.token)


def text(given: str, what: str) -> str:
    """Return a text, if databases and messages can hold its characters."""
    if "\0" in given or (not given.isascii() and _has_surrogates(given)):
        raise InvalidArgument(f"{what} must be text, without NUL characters and halves of surrogate pairs")
    return given


def _text(given: str, what: str, *, most: int, is_required: bool = False) -> str:
    if is_required and not given:
        raise InvalidArgument(f"{what} is required")
    if len(given) > most:
        raise InvalidArgument(f"{what} may have at most {most} characters, not {len(given)}")
    return text(given, what)


def _has_surrogates(given: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in given)
