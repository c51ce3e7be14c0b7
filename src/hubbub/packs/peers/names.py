"""Names of rooms and streams, in clear and as the signalling server sees them, and names of files, made safe to show.

Pure. Names that peers give are never part of a path.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata
from typing import Final, Literal
from urllib.parse import quote

from hubbub.packs.peers import limits

DEFAULT_PASSWORD: Final = "someEncryptionKey123"
SALT: Final = "vdo.ninja"
_UNRESERVED: Final = "-_.!~*'()"
_NOT_WORD: Final = re.compile(r"[^A-Za-z0-9_]+")
_BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_SESSION_CHARACTERS: Final = 8
_SUFFIX_CHARACTERS: Final = 6
_ROOM_ID_CHARACTERS: Final = 16
_TRANSFER_ID: Final = re.compile(r"[!-~]{1,128}", re.ASCII)
_DEFAULT_FILE_NAME: Final = "file.bin"


def sanitize(text: str) -> str:
    """Return a valid room name or stream id: ASCII letters, digits and `_`; empty if none are left."""
    return _NOT_WORD.sub("_", text.strip()).strip("_")


def make_id(prefix: str) -> str:
    """Return a random id: `prefix_` and eight hex digits."""
    return f"{prefix}_{secrets.token_hex(4)}"


def make_session_id() -> str:
    """Return a random id for one negotiation between a publisher and a viewer."""
    return "".join(secrets.choice(_BASE36) for _ in range(_SESSION_CHARACTERS))


def is_transfer_id(transfer_id: str) -> bool:
    """Return whether a text is a valid transfer id."""
    return _TRANSFER_ID.fullmatch(transfer_id) is not None


def strip_unprintable(text: str) -> str:
    """Remove control characters, directional marks and lone surrogates."""
    return "".join(letter for letter in text if unicodedata.category(letter)[0] != "C")


def display_name(name: str) -> str:
    """Return a file name from a peer without folders and without characters that could mislead a reader."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    cut = strip_unprintable(last).strip()[: limits.FILE_NAME_CHARACTERS]
    return _DEFAULT_FILE_NAME if cut.strip(".") == "" else cut


class WireNames:
    """Room and stream ids as the signalling server sees them, for one password."""

    def __init__(self, password: str | Literal[False] | None = None) -> None:
        self.password = _effective_password(password)
        """None if nothing is hashed or encrypted."""
        digest = "" if self.password is None else hashlib.sha256((self.password + SALT).encode()).hexdigest()
        self._suffix = digest[:_SUFFIX_CHARACTERS]

    def room_id(self, room: str) -> str:
        """Return the hash of a room name; the name itself if there is no password."""
        short = room[: limits.ROOM_NAME_CHARACTERS]
        if self.password is None:
            return short
        return hashlib.sha256((short + self.password + SALT).encode()).hexdigest()[:_ROOM_ID_CHARACTERS]

    def wire_stream_id(self, stream_id: str) -> str:
        """Return a stream id with the suffix of the password."""
        return stream_id[: limits.PEER_NAME_CHARACTERS] + self._suffix

    def plain_stream_id(self, wire_id: str) -> str | None:
        """Return the stream id behind a wire id; None if it was made with another password."""
        if not wire_id.endswith(self._suffix) or len(wire_id) == len(self._suffix):
            return None
        return wire_id.removesuffix(self._suffix)

    @property
    def key(self) -> bytes | None:
        """The key that descriptions and ICE candidates are encrypted with."""
        return None if self.password is None else hashlib.sha256((self.password + SALT).encode()).digest()


def _effective_password(password: str | Literal[False] | None) -> str | None:
    if password is False:
        return None
    trimmed = (password or "").strip()
    return quote(trimmed or DEFAULT_PASSWORD, safe=_UNRESERVED, encoding="utf-8")
