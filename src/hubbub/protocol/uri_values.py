"""Percent-encoding, and which decoded values are safe to pass to a handler.

Not `urllib.parse`, because it silently decodes malformed text and takes several
milliseconds to import. Only `uri_template` calls it.
"""

from __future__ import annotations

import re
from typing import Final

from hubbub import bounds

_MALFORMED: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TRIPLET: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_TRIPLETS: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
# Control characters, Unicode line separators and lone surrogates.
_FORBIDDEN_CHARACTERS: Final = frozenset(
    map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0xD800, 0xE000)))
)
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:")


def normalize_uri(uri: str) -> str | None:
    """Normalize a URI to ASCII with upper-case triplets; None if it is not a URI or too long."""
    if len(uri) > bounds.URI_CHARACTERS or _MALFORMED.search(uri):
        return None
    try:
        uri = _NOT_ASCII.sub(lambda found: _percent_encode(found[0]), uri)
    except UnicodeEncodeError:
        return None
    if len(uri) > bounds.URI_CHARACTERS:
        return None
    return _TRIPLET.sub(lambda found: found[0].upper(), uri)


def percent_decode(text: str) -> str | None:
    """Undo percent-encoding once; None if the result is not UTF-8."""
    if _MALFORMED.search(text):
        return None
    return _decode_triplets(text)


def _decode_triplets(text: str) -> str | None:
    try:
        return _TRIPLETS.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(), text)
    except UnicodeDecodeError:
        return None


def _percent_encode(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def is_safe(value: str, *, slashes: bool) -> bool:
    """Whether a value cannot escape its path, even if it is decoded again later."""
    for _ in range(bounds.URI_DECODINGS):
        if not _is_confined(value, slashes=slashes):
            return False
        decoded = _decode_triplets(value)
        if decoded == value:
            return True
        if decoded is None:
            return False
        value = decoded
    return False


def _is_confined(value: str, *, slashes: bool) -> bool:
    if "\\" in value or not _FORBIDDEN_CHARACTERS.isdisjoint(value):
        return False
    # Windows ignores spaces at the end of a segment, so they do not make a different name.
    if value.strip() == "." or any(segment.strip() == ".." for segment in value.split("/")):
        return False
    return not _ABSOLUTE.match(value) if slashes else "/" not in value
