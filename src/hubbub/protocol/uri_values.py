"""Percent-encoding, and which decoded values are safe to hand to a handler.

Own code, because `urllib.parse` decodes what is malformed without a word and costs
several milliseconds at import. Only `uri_template` calls it.
"""

from __future__ import annotations

import re
from typing import Final

from hubbub import bounds

_MALFORMED: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TRIPLET: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_TRIPLETS: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
# Controls, Unicode's own line ends, and halves of surrogate pairs.
_NO_TEXT: Final = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0xD800, 0xE000))))
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def normal(uri: str) -> str | None:
    """Spell a URI in one way: ASCII only, triplets in capitals; None if it is no URI or too long."""
    if len(uri) > bounds.URI_CHARACTERS or _MALFORMED.search(uri):
        return None
    try:
        uri = _NOT_ASCII.sub(lambda found: _escaped(found[0]), uri)
    except UnicodeEncodeError:
        return None
    if len(uri) > bounds.URI_CHARACTERS:
        return None
    return _TRIPLET.sub(lambda found: found[0].upper(), uri)


def decode(text: str) -> str | None:
    """Undo percent-encoding once; None if the result is not UTF-8."""
    if _MALFORMED.search(text):
        return None
    return _decode_triplets(text)


def _decode_triplets(text: str) -> str | None:
    try:
        return _TRIPLETS.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(), text)
    except UnicodeDecodeError:
        return None


def encode(value: str, *, keep: str = "", escape: str = "") -> str:
    """Percent-encode all but unreserved characters and `keep`; always those of `escape`.

    A percent sign is always encoded, unlike in the RFC's `{+name}`: else a value
    would not come back as it was.
    """
    return "".join(
        character
        if (character in _UNRESERVED or character in keep) and character not in escape
        else _escaped(character)
        for character in value
    )


def _escaped(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def is_safe(value: str, *, slashes: bool) -> bool:
    """Whether a value stays in its place, also if someone decodes it again later."""
    for _ in range(bounds.DECODING_ROUNDS):
        if not _stays(value, slashes=slashes):
            return False
        again = _decode_triplets(value)
        if again == value:
            return True
        if again is None:
            return False
        value = again
    return False


def _stays(value: str, *, slashes: bool) -> bool:
    if "\\" in value or not _NO_TEXT.isdisjoint(value):
        return False
    # Windows drops spaces at the end of a segment, so those do not make another name.
    if value.strip() == "." or any(segment.strip() == ".." for segment in value.split("/")):
        return False
    return not _ABSOLUTE.match(value) if slashes else "/" not in value
