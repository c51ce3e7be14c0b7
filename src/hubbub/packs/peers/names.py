"""Names and what becomes of them on the wire: clear inside the pack, hashed for the signalling server. Pure."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final, Literal
from urllib.parse import quote

from hubbub import bounds

USUAL_PASSWORD: Final = "someEncryptionKey123"
SALT: Final = "vdo.ninja"
_UNRESERVED: Final = "-_.!~*'()"
_NOT_WORD: Final = re.compile(r"[^A-Za-z0-9_]+")
_BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_SESSION_CHARACTERS: Final = 8
_SUFFIX_CHARACTERS: Final = 6
_ROOM_ID_CHARACTERS: Final = 16


def sanitise(text: str) -> str:
    """A name as rooms and streams have it: ASCII letters, digits and `_`; empty if nothing is left."""
    return _NOT_WORD.sub("_", text.strip()).strip("_")


def short_id(prefix: str) -> str:
    """`prefix_` and eight hex digits."""
    return f"{prefix}_{secrets.token_hex(4)}"


def session_id() -> str:
    """The name of one negotiation between a publisher and a viewer."""
    return "".join(secrets.choice(_BASE36) for _ in range(_SESSION_CHARACTERS))


class WireNames:
    """How names of one password look to the signalling server."""

    def __init__(self, password: str | Literal[False] | None = None) -> None:
        self.password = _effective(password)
        """None: nothing is hashed or sealed."""
        digest = "" if self.password is None else hashlib.sha256((self.password + SALT).encode()).hexdigest()
        self._suffix = digest[:_SUFFIX_CHARACTERS]

    def room(self, room: str) -> str:
        """The room's id."""
        short = room[: bounds.ROOM_NAME_CHARACTERS]
        if self.password is None:
            return short
        return hashlib.sha256((short + self.password + SALT).encode()).hexdigest()[:_ROOM_ID_CHARACTERS]

    def stream(self, stream_id: str) -> str:
        """The stream's id."""
        return stream_id[: bounds.PEER_NAME_CHARACTERS] + self._suffix

    def clear(self, wire_id: str) -> str | None:
        """The stream of an id; None if it was made with another password."""
        if not wire_id.endswith(self._suffix) or len(wire_id) == len(self._suffix):
            return None
        return wire_id.removesuffix(self._suffix)

    @property
    def key(self) -> bytes | None:
        """What descriptions and addresses are sealed with."""
        return None if self.password is None else hashlib.sha256((self.password + SALT).encode()).digest()


def _effective(password: str | Literal[False] | None) -> str | None:
    if password is False:
        return None
    trimmed = (password or "").strip()
    return quote(trimmed or USUAL_PASSWORD, safe=_UNRESERVED, encoding="utf-8")
