"""The signalling protocol: messages to and from a signalling server, through which two peers find each other.

Messages are JSON objects; sender and recipient are UUIDs that the server assigns. This module has the interface and the
message types; `signalling_client` implements the client, `signalling_router` the server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

import msgspec

from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import WireError
from hubbub.packs.peers.js_json import JsonError, convert, replace_lone_surrogates

OutgoingMessage: TypeAlias = Mapping[str, Any]
WireName: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.SIGNAL_NAME_CHARACTERS)]

DEFAULT_HOST: Final = "ws://127.0.0.1:8765"
_CREDENTIALS_AND_QUERY: Final = re.compile(r"(?<=//)[^/?#]*@|[?#].*", re.DOTALL)


def redact_host(host: str) -> str:
    """Return the URL of a server for display, without credentials, query and fragment."""
    return _CREDENTIALS_AND_QUERY.sub("", host)


class Member(msgspec.Struct, frozen=True):
    """A member of the room, as the server lists it."""

    uuid: WireName = msgspec.field(name="UUID")
    stream_id: WireName | None = msgspec.field(name="streamID", default=None)
    """As on the wire: with the suffix derived from the password."""


class Listing(msgspec.Struct, frozen=True):
    """The members of the room when we entered it."""

    members: tuple[Member, ...]
    confirms_seed: bool = False
    """Whether the server confirms our stream id; only Hubbub's does."""


class MemberJoined(msgspec.Struct, frozen=True):
    """A member joined, or stated its stream id."""

    member: Member


class PlayRequest(msgspec.Struct, frozen=True):
    """A peer requests an offer from us."""

    uuid: str


class Description(msgspec.Struct, frozen=True):
    """An offer or an answer; still encrypted if the room has a password."""

    uuid: str
    session: str
    description: Any
    vector: str | None
    stream_id: str | None


class Candidates(msgspec.Struct, frozen=True):
    """ICE candidates; encrypted if the room has a password. `local` are a publisher's, `remote` are a viewer's."""

    uuid: str
    session: str
    side: Literal["local", "remote"]
    candidates: Any
    vector: str | None


class RestartRequest(msgspec.Struct, frozen=True):
    """A viewer requests an ICE restart."""

    uuid: str


class Alert(msgspec.Struct, frozen=True):
    """A notice of the server; an error if `is_error`."""

    message: str
    is_error: bool = False


class Departure(msgspec.Struct, frozen=True):
    """The server reports that a client left: `bye`, `hangup`."""

    uuid: str


class FallbackData(msgspec.Struct, frozen=True):
    """Application data from a peer without a channel to us; the server could read and change it."""

    uuid: str
    data: Any


IncomingMessage: TypeAlias = (
    Listing | MemberJoined | PlayRequest | Description | Candidates | RestartRequest | Alert | Departure | FallbackData
)


class Signalling(Protocol):
    """One room at one signalling server; the connection to it may be lost and restored."""

    on_message: Callable[[IncomingMessage], None]
    """Called with each message of the server or a member; with a `Listing` on every entry into the room."""
    on_lost: Callable[[str, float], None]
    """Called with the reason and the seconds until the next attempt, after a loss and after each failed attempt."""
    on_rejoined: Callable[[], None]
    """Called when we are in the room again after a loss."""

    @property
    def is_joined(self) -> bool:
        """Whether we are in the room."""

    async def join(self) -> Listing:
        """Connect for the first time, join the room and state our stream id.

        Raises: SignallingFailed, StreamIdTaken; all connections are closed then.
        """

    def send(self, message: OutgoingMessage) -> None:
        """Send a message. While disconnected, the newest messages are queued and sent after reconnecting."""

    async def close(self) -> None:
        """Leave the room, and do not reconnect."""


def read_message(fields: object) -> IncomingMessage | None:
    """Parse a message of the server; return None if it has no meaning for us.

    Raises:
        WireError: it does not match the format of its kind.
    """
    if not isinstance(fields, dict):
        raise WireError("a signalling message must be an object")
    request = fields.get("request")
    try:
        match request:
            case "listing" | "transferred":
                return Listing(_read_members(fields.get("list")), fields.get("seeding") is True)
            case "someonejoined" | "videoaddedtoroom":
                return MemberJoined(convert(fields, Member))
            case "offerSDP" | "play":
                return PlayRequest(_read_uuid(fields))
            case "alert" | "error":
                message = replace_lone_surrogates(str(fields.get("message", ""))[: limits.SIGNAL_ALERT_CHARACTERS])
                return Alert(message, request == "error")
            case "bye" | "hangup":
                return Departure(_read_uuid(fields))
            case None:
                return _read_peer_message(fields)
    except JsonError as error:
        raise WireError(f"signalling {request or 'message'}: {error}") from error
    return None


def _read_members(listed: object) -> tuple[Member, ...]:
    """Parse a list of members, skipping malformed ones."""
    found = []
    for item in listed if isinstance(listed, list) else []:
        try:
            found.append(convert(item, Member))
        except JsonError:
            continue
    return tuple(found)


def _read_peer_message(fields: dict[str, Any]) -> IncomingMessage | None:
    if "UUID" not in fields:
        return None
    uuid = _read_uuid(fields)
    if "description" in fields:
        return Description(
            uuid,
            _read_name(fields, "session"),
            fields["description"],
            _read_optional_name(fields, "vector"),
            _read_optional_name(fields, "streamID"),
        )
    if "candidates" in fields:
        side = fields.get("type")
        if side not in ("local", "remote"):
            raise WireError("the type of candidates must be local or remote")
        return Candidates(
            uuid, _read_name(fields, "session"), side, fields["candidates"], _read_optional_name(fields, "vector")
        )
    if fields.get("iceRestartRequest"):
        return RestartRequest(uuid)
    if "pipe" in fields and fields.get("__fallback") is True:
        return FallbackData(uuid, fields["pipe"])
    return Departure(uuid) if fields.get("bye") else None


def _read_uuid(fields: dict[str, Any]) -> str:
    return _read_name(fields, "UUID")


def _read_name(fields: dict[str, Any], name: str) -> str:
    found: str = convert(fields.get(name), WireName)
    return found


def _read_optional_name(fields: dict[str, Any], name: str) -> str | None:
    found: str | None = convert(fields.get(name), WireName | None)
    return found
