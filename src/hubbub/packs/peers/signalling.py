"""How two ends find each other: what is said to a signalling server, and by it.

Messages are JSON objects; who they are from and for is written as a UUID that the server
gives out. Here are the seam and the shapes; `signalling_client` speaks them,
`signal_rules` is the other end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.packs.peers.failures import WireError
from hubbub.packs.peers.javascript import well_formed

Message: TypeAlias = Mapping[str, Any]
WireName: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=bounds.SIGNAL_NAME_CHARACTERS)]

USUAL_HOST: Final = "ws://127.0.0.1:8765"
_PRIVATE: Final = re.compile(r"(?<=//)[^/?#]*@|[?#].*", re.DOTALL)


def shown_host(host: str) -> str:
    """An address for people: without who logs in there, and how."""
    return _PRIVATE.sub("", host)


class Member(msgspec.Struct, frozen=True):
    """Somebody in the room, as the server lists them."""

    uuid: WireName = msgspec.field(name="UUID")
    stream_id: WireName | None = msgspec.field(name="streamID", default=None)
    """On the wire: with the suffix that the password makes."""


class Listing(msgspec.Struct, frozen=True):
    """Who was in the room when we came."""

    members: tuple[Member, ...]
    is_seeding: bool = False
    """Whether the server answers when we say our stream id; only Hubbub's does."""


class Joined(msgspec.Struct, frozen=True):
    """Somebody came, or said their stream id."""

    member: Member


class PlayRequest(msgspec.Struct, frozen=True):
    """Somebody wants an offer of us."""

    uuid: str


class Described(msgspec.Struct, frozen=True):
    """An offer or an answer; still sealed if the room has a password."""

    uuid: str
    session: str
    description: Any
    vector: str | None
    stream_id: str | None


class Candidates(msgspec.Struct, frozen=True):
    """Addresses; still sealed if the room has a password. `local` come from a publisher, `remote` from a viewer."""

    uuid: str
    session: str
    side: Literal["local", "remote"]
    candidates: Any
    vector: str | None


class RestartRequest(msgspec.Struct, frozen=True):
    """A viewer wants another way to us."""

    uuid: str


class Alert(msgspec.Struct, frozen=True):
    """The server has something to say; an error when `is_error`."""

    message: str
    is_error: bool = False


class Gone(msgspec.Struct, frozen=True):
    """The server says that somebody left: `bye`, `hangup`."""

    uuid: str


Incoming: TypeAlias = Listing | Joined | PlayRequest | Described | Candidates | RestartRequest | Alert | Gone


class Signalling(Protocol):
    """One room at one signalling server; the connection to it may come and go."""

    on_message: Callable[[Incoming], None]
    """What the server or somebody in the room says; `Listing` on every entry into the room."""
    on_lost: Callable[[str, float], None]
    """The connection broke: why, and in how many seconds the next attempt is made. Called for failed attempts too."""
    on_entered: Callable[[], None]
    """We are in the room again, after it was lost."""

    @property
    def is_up(self) -> bool:
        """Whether we are in the room."""

    async def enter(self) -> Listing:
        """Connect, join the room and say our stream id; the first time.

        Raises: SignallingFailed, StreamIdTaken; nothing is left open then.
        """

    def send(self, message: Message) -> None:
        """Send, or keep for later: the newest of what could not be sent is sent when we are back."""

    async def close(self) -> None:
        """Leave for good."""


def read_message(fields: object) -> Incoming | None:
    """What a message of the server means; None if it means nothing to us.

    Raises:
        WireError: it cannot be what it says it is.
    """
    if not isinstance(fields, dict):
        raise WireError("a signalling message must be an object")
    request = fields.get("request")
    try:
        match request:
            case "listing" | "transferred":
                return Listing(_members(fields.get("list")), fields.get("seeding") is True)
            case "someonejoined" | "videoaddedtoroom":
                return Joined(msgspec.convert(fields, Member))
            case "offerSDP" | "play":
                return PlayRequest(_uuid(fields))
            case "alert" | "error":
                message = well_formed(str(fields.get("message", ""))[: bounds.PROBLEM_CHARACTERS])
                return Alert(message, request == "error")
            case "bye" | "hangup":
                return Gone(_uuid(fields))
            case None:
                return _from_a_peer(fields)
    except msgspec.ValidationError as error:
        raise WireError(f"signalling {request or 'message'}: {error}") from error
    return None


def _members(listed: object) -> tuple[Member, ...]:
    """Those that can be read; one that cannot spoils no other."""
    found = []
    for item in listed if isinstance(listed, list) else []:
        try:
            found.append(msgspec.convert(item, Member))
        except msgspec.ValidationError:
            continue
    return tuple(found)


def _from_a_peer(fields: dict[str, Any]) -> Incoming | None:
    if "UUID" not in fields:
        return None
    uuid = _uuid(fields)
    if "description" in fields:
        return Described(
            uuid,
            _text(fields, "session"),
            fields["description"],
            _optional(fields, "vector"),
            _optional(fields, "streamID"),
        )
    if "candidates" in fields:
        side = fields.get("type")
        if side not in ("local", "remote"):
            raise WireError("candidates are local or remote")
        return Candidates(uuid, _text(fields, "session"), side, fields["candidates"], _optional(fields, "vector"))
    if fields.get("iceRestartRequest"):
        return RestartRequest(uuid)
    return Gone(uuid) if fields.get("bye") else None


def _uuid(fields: dict[str, Any]) -> str:
    return msgspec.convert(fields.get("UUID"), WireName)


def _text(fields: dict[str, Any], name: str) -> str:
    return msgspec.convert(fields.get(name), WireName)


def _optional(fields: dict[str, Any], name: str) -> str | None:
    return msgspec.convert(fields.get(name), WireName | None)
