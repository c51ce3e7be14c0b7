"""The rules of the signalling server, without I/O: which messages follow from one of a client.

Each client gets a UUID from the server and never states it itself. Rooms are isolated from each other. A message with a
UUID and no request is relayed to that client, with the sender's UUID in its place. Clients without a room reach each
other by stream id only, and never those in a room: to join a room one has to know its name. Limits keep one client, one
address and one room from using up the server. `signal_server` calls it.
"""

from __future__ import annotations

import uuid
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeGuard

import msgspec

from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.js_json import JsonError, parse

STREAM_ID_TAKEN: Final = "Stream ID is already in use."
"""The VDO.Ninja bridge searches for these words."""


class ClientDisconnected(PeersError):
    """The client is disconnected; the text is sent to it as the reason."""


class SignalLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one server."""

    clients: int = msgspec.field(default_factory=lambda: limits.SIGNAL_CLIENTS)
    clients_of_one_address: int = msgspec.field(default_factory=lambda: limits.SIGNAL_CLIENTS_PER_ADDRESS)
    clients_of_one_room: int = msgspec.field(default_factory=lambda: limits.SIGNAL_CLIENTS_PER_ROOM)
    messages: int = msgspec.field(default_factory=lambda: limits.SIGNAL_MESSAGES)
    bytes: int = msgspec.field(default_factory=lambda: limits.SIGNAL_BYTES)
    messages_s: float = msgspec.field(default_factory=lambda: limits.SIGNAL_MESSAGES_S)


class Client:
    """A connected client."""

    def __init__(self, address: str) -> None:
        self.uuid = str(uuid.uuid4())
        self.address = address
        self.room: str | None = None
        self.stream_id: str | None = None
        self.is_active = False
        """Whether it has joined a room, or seeded or requested a stream id."""
        self.recent: deque[tuple[float, int, int]] = deque()
        """Time, count and bytes of its recent messages."""
        self.messages = self.bytes = 0
        """Totals of `recent`."""

    @property
    def listing_entry(self) -> dict[str, str]:
        """The client as others in its room see it."""
        return {"UUID": self.uuid} if self.stream_id is None else {"UUID": self.uuid, "streamID": self.stream_id}


class _Room:
    """Clients that can reach each other."""

    def __init__(self) -> None:
        self.members: dict[str, Client] = {}
        """By UUID."""
        self.streams: dict[str, Client] = {}
        """By stream id."""
        self.director: Client | None = None
        """The first client that claimed the room. Only a title: it has no rights on the server."""

    def add(self, client: Client) -> None:
        self.members[client.uuid] = client
        if client.stream_id is not None:
            self.streams[client.stream_id] = client

    def remove(self, client: Client) -> None:
        del self.members[client.uuid]
        if client.stream_id is not None:
            del self.streams[client.stream_id]
        if self.director is client:
            self.director = None

    def set_stream_id(self, client: Client, stream_id: str) -> None:
        if client.stream_id is not None:
            del self.streams[client.stream_id]
        client.stream_id = stream_id
        self.streams[stream_id] = client

    def others(self, client: Client) -> list[Client]:
        return [other for other in self.members.values() if other is not client]


Delivery: TypeAlias = tuple[Client, dict[str, Any]]


class SignalRouter:
    """The clients and rooms of one server, and the routing of messages between them."""

    def __init__(self, limits: SignalLimits | None = None, *, clock: Callable[[], float]) -> None:
        self._limits = limits or SignalLimits()
        self._clock = clock
        self._clients: dict[str, Client] = {}
        self._addresses: Counter[str] = Counter()
        self._rooms: dict[str, _Room] = {}
        self._roomless = _Room()
        self.relayed = 0
        self.refused = 0

    @property
    def clients(self) -> int:
        """Number of connected clients."""
        return len(self._clients)

    @property
    def rooms(self) -> int:
        """Number of rooms with clients."""
        return len(self._rooms)

    def connect(self, address: str) -> Client:
        """Add a client that connects.

        Raises: ClientDisconnected, if a limit of clients is reached.
        """
        if len(self._clients) >= self._limits.clients:
            raise self._refusal("too many clients; try again later")
        if self._addresses[address] >= self._limits.clients_of_one_address:
            raise self._refusal("too many clients from one address; close some of them")
        client = Client(address)
        self._clients[client.uuid] = client
        self._addresses[address] += 1
        self._roomless.add(client)
        return client

    def disconnect(self, client: Client) -> None:
        """Remove a client. The others are not notified, because clients do not understand such a message."""
        if self._clients.pop(client.uuid, None) is None:
            return
        self._leave(client)
        self._addresses[client.address] -= 1
        if not self._addresses[client.address]:
            del self._addresses[client.address]

    def receive(self, client: Client, text: str | bytes) -> list[Delivery]:
        """Handle a message; return what to send to whom.

        Raises: ClientDisconnected, if the client is to be disconnected.
        """
        if not self._count(client, 1, len(text)):
            raise self._refusal("too many or too large messages; send less")
        try:
            message = parse(text)
        except JsonError:
            raise self._refusal("the message is not valid JSON") from None
        if not isinstance(message, dict):
            raise self._refusal("the message is not a JSON object")
        match message.get("request"):
            case "joinroom":
                return self._join(client, message.get("roomid"), claims=message.get("claim") is True)
            case "seed":
                return self._seed(client, message.get("streamID"))
            case "play":
                return self._play(client, message.get("streamID"))
            case None if message.get("UUID") is not None:
                return self._relay(client, message)
            case None if message.get("__fallback") is True and "pipe" in message:
                return self._broadcast(client, message, len(text))
            case None if message.get("leave") is True:
                self._leave(client)
                client.room = client.stream_id = None
                self._roomless.add(client)
            case None:
                pass
            case unknown:
                return [(client, _error("unsupported_request", f"unknown request {str(unknown)[:40]!r}"))]
        return []

    # -- rules -------------------------------------------------------------------

    def _join(self, client: Client, name: object, *, claims: bool) -> list[Delivery]:
        if not _is_valid_name(name):
            return [(client, _error("invalid_room", f"roomid {_name_rule()}"))]
        room = self._rooms.get(name) or _Room()
        deliveries: list[Delivery] = []
        if client.room != name:
            if len(room.members) >= self._limits.clients_of_one_room:
                self.refused += 1
                return [(client, _error("room_full", "The room is full"))]
            self._leave(client)
            if client.stream_id in room.streams:
                client.stream_id = None
                deliveries.append((client, _alert_taken()))
            self._rooms[name] = room
            client.room, client.is_active = name, True
            room.add(client)
            notification = {"request": "someonejoined", **client.listing_entry}
            deliveries += [(other, notification) for other in room.others(client)]
        # `seeding`: we answer a `seed`; clients of other servers do not expect that.
        listing: dict[str, Any] = {"request": "listing", "seeding": True}
        listing["list"] = [other.listing_entry for other in room.others(client)]
        if claims:
            room.director = room.director or client
            listing["claim"] = room.director is client
        if room.director is not None:
            listing["director"] = room.director.uuid
        return [(client, listing), *deliveries]

    def _seed(self, client: Client, stream_id: object) -> list[Delivery]:
        if not _is_valid_name(stream_id):
            return [(client, _error("invalid_stream_id", f"streamID {_name_rule()}"))]
        current_room, is_new = self._current_room(client), client.stream_id != stream_id
        if current_room.streams.get(stream_id, client) is not client:
            self.refused += 1
            return [(client, _alert_taken())]
        current_room.set_stream_id(client, stream_id)
        client.is_active = True
        recipients = current_room.others(client) if is_new and client.room is not None else []
        notification = {"request": "videoaddedtoroom", **client.listing_entry}
        return [
            (client, {"request": "seeded", "streamID": stream_id}),
            *((other, notification) for other in recipients),
        ]

    def _play(self, client: Client, stream_id: object) -> list[Delivery]:
        if not _is_valid_name(stream_id):
            return [(client, _error("invalid_stream_id", f"streamID {_name_rule()}"))]
        client.is_active = True
        publisher = self._current_room(client).streams.get(stream_id, client)
        return [] if publisher is client else [(publisher, {"request": "offerSDP", "UUID": client.uuid})]

    def _relay(self, client: Client, message: dict[str, Any]) -> list[Delivery]:
        to = message["UUID"]
        other = self._current_room(client).members.get(to) if isinstance(to, str) else None
        if other is None or other is client:
            return []
        self.relayed += 1
        return [(other, {**message, "UUID": client.uuid})]

    def _broadcast(self, client: Client, message: dict[str, Any], size: int) -> list[Delivery]:
        """Relay data to the whole room for a client that has no channel to them."""
        others = [] if client.room is None else self._current_room(client).others(client)
        if not self._count(client, len(others), len(others) * size):
            self.refused += 1
            return [
                (client, _error("rate_limited", "too much data for the whole room; send less, or send to one peer"))
            ]
        self.relayed += len(others)
        return [(other, {**message, "UUID": client.uuid}) for other in others]

    def _current_room(self, client: Client) -> _Room:
        return self._roomless if client.room is None else self._rooms[client.room]

    def _leave(self, client: Client) -> None:
        current_room = self._current_room(client)
        current_room.remove(client)
        if client.room is not None and not current_room.members:
            del self._rooms[client.room]

    def _count(self, client: Client, messages: int, size: int) -> bool:
        """Count what a client sends against its limit; return False, without counting, if it is above it."""
        now, recent = self._clock(), client.recent
        while recent and recent[0][0] <= now - self._limits.messages_s:
            _, count, bytes_ = recent.popleft()
            client.messages -= count
            client.bytes -= bytes_
        if client.messages + messages > self._limits.messages or client.bytes + size > self._limits.bytes:
            return False
        recent.append((now, messages, size))
        client.messages += messages
        client.bytes += size
        return True

    def _refusal(self, reason: str) -> ClientDisconnected:
        self.refused += 1
        return ClientDisconnected(reason)


def _is_valid_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= limits.SIGNAL_NAME_CHARACTERS


def _name_rule() -> str:
    return f"must be a string of 1 to {limits.SIGNAL_NAME_CHARACTERS} characters"


def _error(code: str, message: str) -> dict[str, Any]:
    return {"request": "error", "code": code, "message": message}


def _alert_taken() -> dict[str, Any]:
    return {"request": "alert", "code": "stream_id_taken", "message": STREAM_ID_TAKEN}
