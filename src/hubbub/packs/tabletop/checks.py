"""What callers write, trimmed and within bounds, before anything is looked up or kept."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.model import PageRequest

RESERVED_EVENTS: Final = ("campaign.", "participant.", "actor.", "session.", "roll.")
"""Kinds of events that only the keeper itself writes, so that nobody can tell of a roll that never was."""
_EVENT_TYPE: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")
_TOKEN: Final = re.compile(r"[0-9]{1,18}")


def identifier(given: str, what: str) -> str:
    """An id, as `campaign id`; whether there is such a thing is another matter."""
    return _text(given.strip(), f"{what} id", most=bounds.TABLE_ID_CHARACTERS, is_required=True)


def name(given: str, what: str) -> str:
    """A name that must be there."""
    return _text(given.strip(), what, most=bounds.TABLE_NAME_CHARACTERS, is_required=True)


def optional_name(given: str, what: str) -> str:
    """A name that may be empty."""
    return _text(given.strip(), what, most=bounds.TABLE_NAME_CHARACTERS)


def prose(given: str, what: str) -> str:
    """A longer text, kept as it is."""
    return _text(given, what, most=bounds.TABLE_TEXT_CHARACTERS)


def event_type(given: str) -> str:
    """A kind of event that callers may write."""
    kind = _text(given.strip(), "event type", most=bounds.TABLE_EVENT_TYPE_CHARACTERS, is_required=True)
    if not _EVENT_TYPE.fullmatch(kind):
        raise InvalidArgument("event type must be lower-case words with dots between them, as note.added")
    if f"{kind}.".startswith(RESERVED_EVENTS):
        raise InvalidArgument(f"events of type {kind} are written by the server itself; choose another type")
    return kind


def event_data(data: dict[str, Any], most: int = bounds.TABLE_EVENT_BYTES) -> dict[str, Any]:
    """What an event says, if it is not too much and can be kept as JSON."""
    try:
        size = len(msgspec.json.encode(data))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"event data must be JSON: {error}") from error
    if size > most:
        raise InvalidArgument(f"event data may have at most {most} bytes as JSON, not {size}")
    return data


def page_size(page: PageRequest) -> int:
    """How many records to give."""
    return min(page.size, bounds.TABLE_LARGEST_PAGE) if page.size > 0 else bounds.TABLE_PAGE


def page_start(page: PageRequest) -> int | None:
    """The position after which to go on; None for the first page."""
    if not page.token:
        return None
    if not _TOKEN.fullmatch(page.token):
        raise InvalidArgument("page token must be the next_page_token of an earlier page")
    return int(page.token)


def text(given: str, what: str) -> str:
    """Any text, if it is one that databases and messages can hold."""
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
