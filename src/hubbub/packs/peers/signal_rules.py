"""What a signalling server does with a message: the rules, without any network.

Each client gets a UUID, which it never states itself; rooms know nothing of each other;
whatever has a UUID and no request is handed on with the sender's in its place. Bounds
keep one client, one address and one room from taking it all. `signal_server` calls it.
"""

from __future__ import annotations

import uuid
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeGuard

import msgspec

from hubbub import bounds
from hubbub.packs.peers.javascript import Unreadable, parse

TAKEN: Final = "Stream ID is already in use."
"""The original looks for these words."""


class Parted(Exception):
    """This client is not served any longer; the text is told to it."""


class SignalLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is served."""

    clients: int = bounds.SIGNAL_CLIENTS
    clients_of_one_address: int = bounds.SIGNAL_CLIENTS_OF_ONE_ADDRESS
    clients_of_one_room: int = bounds.SIGNAL_CLIENTS_OF_ONE_ROOM
    messages: int = bounds.SIGNAL_MESSAGES
    messages_s: float = bounds.SIGNAL_MESSAGES_S


class Client:
    """Somebody connected."""

    def __init__(self, address: str) -> None:
        self.uuid = str(uuid.uuid4())
        self.address = address
        self.room: str | None = None
        self.stream_id: str | None = None
        self.times: deque[float] = deque()
        """When its last messages came."""

    @property
    def listed(self) -> dict[str, str]:
        """As others in its room see it."""
        return {"UUID": self.uuid} if self.stream_id is None else {"UUID": self.uuid, "streamID": self.stream_id}


Delivery: TypeAlias = tuple[Client, dict[str, Any]]


class Switchboard:
    """Who is there, and who hears what."""

    def __init__(self, limits: SignalLimits | None = None, *, clock: Callable[[], float]) -> None:
        self._limits = limits or SignalLimits()
        self._clock = clock
        self._clients: dict[str, Client] = {}
        self._addresses: Counter[str] = Counter()
        self._rooms: dict[str, dict[str, Client]] = {}
        self.handed_on = 0
        self.refused = 0

    @property
    def clients(self) -> int:
        """How many are connected."""
        return len(self._clients)

    @property
    def rooms(self) -> int:
        """How many rooms have somebody in them."""
        return len(self._rooms)

    def arrive(self, address: str) -> Client:
        """Somebody connects.

        Raises: Parted, if there is no room for them.
        """
        if len(self._clients) >= self._limits.clients:
            raise self._refusal("too many clients; try again later")
        if self._addresses[address] >= self._limits.clients_of_one_address:
            raise self._refusal("too many clients of one address")
        client = Client(address)
        self._clients[client.uuid] = client
        self._addresses[address] += 1
        return client

    def depart(self, client: Client) -> None:
        """Forget somebody. Nobody is told: no client understands it."""
        if self._clients.pop(client.uuid, None) is None:
            return
        self._leave(client)
        self._addresses[client.address] -= 1
        if not self._addresses[client.address]:
            del self._addresses[client.address]

    def receive(self, client: Client, text: str | bytes) -> list[Delivery]:
        """What is to be said to whom because of this message.

        Raises: Parted, if the client has to go.
        """
        self._count(client)
        try:
            message = parse(text)
        except Unreadable:
            raise self._refusal("that was not JSON") from None
        if not isinstance(message, dict):
            raise self._refusal("that was not an object")
        match message.get("request"):
            case "joinroom":
                return self._join(client, message.get("roomid"))
            case "seed":
                return self._seed(client, message.get("streamID"))
            case "play":
                return self._play(client, message.get("streamID"))
            case None if "UUID" in message:
                return self._hand_on(client, message)
            case None if message.get("leave") is True:
                self._leave(client)
        return []

    # -- the rules ---------------------------------------------------------------

    def _join(self, client: Client, room: object) -> list[Delivery]:
        if not _is_name(room):
            return [(client, _error("roomid must be a short text"))]
        members = self._rooms.get(room, {})
        if client.uuid not in members:
            if len(members) >= self._limits.clients_of_one_room:
                self.refused += 1
                return [(client, _error("The room is full"))]
            self._leave(client)
            members = self._rooms.setdefault(room, {})
            client.room = room
            members[client.uuid] = client
        others = [other for other in members.values() if other is not client]
        # `seeding`: that we answer a `seed`, which no client of others expects.
        listing = {"request": "listing", "list": [other.listed for other in others], "seeding": True}
        return [(client, listing), *((other, {"request": "someonejoined", **client.listed}) for other in others)]

    def _seed(self, client: Client, stream_id: object) -> list[Delivery]:
        if not _is_name(stream_id):
            return [(client, _error("streamID must be a short text"))]
        if client.room is None:
            return [(client, _error("join a room first"))]
        others = [other for other in self._rooms[client.room].values() if other is not client]
        if any(other.stream_id == stream_id for other in others):
            self.refused += 1
            return [(client, {"request": "alert", "message": TAKEN})]
        client.stream_id = stream_id
        news = {"request": "videoaddedtoroom", **client.listed}
        return [(client, {"request": "seeded", "streamID": stream_id}), *((other, news) for other in others)]

    def _play(self, client: Client, stream_id: object) -> list[Delivery]:
        for other in self._rooms.get(client.room or "", {}).values():
            if other.stream_id == stream_id and other is not client and stream_id is not None:
                return [(other, {"request": "offerSDP", "UUID": client.uuid})]
        return []

    def _hand_on(self, client: Client, message: dict[str, Any]) -> list[Delivery]:
        to = message["UUID"]
        other = self._rooms.get(client.room or "", {}).get(to) if isinstance(to, str) else None
        if other is None or other is client:
            return []
        self.handed_on += 1
        return [(other, {**message, "UUID": client.uuid})]

    def _leave(self, client: Client) -> None:
        if client.room is not None:
            members = self._rooms[client.room]
            del members[client.uuid]
            if not members:
                del self._rooms[client.room]
        client.room = client.stream_id = None

    def _count(self, client: Client) -> None:
        now, times = self._clock(), client.times
        times.append(now)
        while times[0] <= now - self._limits.messages_s:
            times.popleft()
        if len(times) > self._limits.messages:
            raise self._refusal("too many messages")

    def _refusal(self, reason: str) -> Parted:
        self.refused += 1
        return Parted(reason)


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= bounds.SIGNAL_NAME_CHARACTERS


def _error(message: str) -> dict[str, Any]:
    return {"request": "error", "message": message}
