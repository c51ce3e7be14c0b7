"""How two ends come to a connection: offers, answers and addresses, sealed with the room's password.

A publisher offers when it is asked to, a viewer answers. Both name their exchange with
the publisher's session id; what belongs to another one is ignored. How often one
address may begin is bounded.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

from hubbub import bounds
from hubbub.packs.peers.descriptions import check_description
from hubbub.packs.peers.engine import Candidate, Engine
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.link import Link, LinkOwner, Role
from hubbub.packs.peers.names import WireNames, session_id
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.room import RoomOptions
from hubbub.packs.peers.sealing import SealBroken, seal, unseal

_CANDIDATE_CHARACTERS: Final = 1024
_ADDRESSES: Final = 10_000


class Floor(Protocol):
    """What the negotiator needs of the mesh."""

    def tell(self, message: dict[str, Any]) -> None:
        """Say something to the signalling server."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something meanwhile."""


class Negotiator:
    """Makes connections."""

    def __init__(
        self,
        options: RoomOptions,
        names: WireNames,
        engine: Engine,
        floor: Floor,
        owner: LinkOwner,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._names = names
        self._engine = engine
        self._floor = floor
        self._owner = owner
        self._clock = clock
        self._begun: dict[str, deque[float]] = {}

    def may_begin(self, address: str) -> bool:
        """Whether this address may begin one more exchange; counts it."""
        if len(self._begun) > _ADDRESSES:
            self._begun.clear()
        now, times = self._clock(), self._begun.setdefault(address, deque(maxlen=bounds.PEER_OFFERS))
        if len(times) == bounds.PEER_OFFERS and times[0] > now - bounds.PEER_OFFERS_S:
            return False
        times.append(now)
        return True

    # -- publisher -----------------------------------------------------------------------

    def publish_to(self, peer: Peer) -> None:
        """Somebody asked us for a connection."""
        link = self._make(peer, "publisher", session_id())
        if link is not None:
            self._floor.spawn(self._guarded(link, lambda: self._offer(peer, link)))

    async def _offer(self, peer: Peer, link: Link) -> None:
        self._describe(peer, link, "offer", await link.connection.offer())
        await link.settled()

    # -- viewer --------------------------------------------------------------------------

    def view(self, peer: Peer, session: str, offer: str) -> None:
        """The offer that we asked for is here."""
        link = self._make(peer, "viewer", session)
        if link is not None:
            self._floor.spawn(self._guarded(link, lambda: self._answer(peer, link, offer)))

    async def _answer(self, peer: Peer, link: Link, offer: str) -> None:
        answer = await link.connection.answer(offer)
        self._describe(peer, link, "answer", answer)
        await self._described(link)
        await link.settled()

    # -- both ----------------------------------------------------------------------------

    def read_description(self, description: Any, vector: str | None) -> tuple[str, str]:
        """Kind and SDP of a description.

        Raises: PeersError, SealBroken.
        """
        opened = self._open(description, vector)
        kind = opened.get("type") if isinstance(opened, dict) else None
        if not isinstance(opened, dict) or kind not in ("offer", "answer"):
            raise SealBroken("it is no description")
        return kind, check_description(opened.get("sdp"))

    def accept(self, link: Link, answer: str) -> None:
        """The answer to our offer is here."""
        if not link.is_described:
            self._floor.spawn(self._accept(link, answer))

    async def _accept(self, link: Link, answer: str) -> None:
        try:
            await link.connection.accept(answer)
            await self._described(link)
        except PeersError as error:
            await link.close(error.message)

    def renew(self, peer: Peer, link: Link, kind: str, sdp: str) -> None:
        """The other end looks for another way on a connection that there is."""
        self._floor.spawn(self._renew(peer, link, kind, sdp))

    async def _renew(self, peer: Peer, link: Link, kind: str, sdp: str) -> None:
        try:
            if kind == "answer":
                await link.connection.accept(sdp)
            else:
                self._describe(peer, link, "answer", await link.connection.answer(sdp))
        except PeersError:
            pass  # The way there was, if it still works, goes on.

    def restart(self, peer: Peer, link: Link) -> None:
        """A viewer wants another way to us."""
        self._floor.spawn(self._restart(peer, link))

    async def _restart(self, peer: Peer, link: Link) -> None:
        try:
            self._describe(peer, link, "offer", await link.connection.offer(restart=True))
        except PeersError:
            pass

    def add_candidates(self, link: Link, sealed: Any, vector: str | None) -> None:
        """Addresses of the other end; those that cannot be read are ignored."""
        try:
            opened = self._open(sealed, vector)
        except SealBroken:
            return
        found = [
            Candidate(item["candidate"], str(item.get("sdpMid") or "0")[:16])
            for item in (opened if isinstance(opened, list) else [opened])[: bounds.PEER_CANDIDATES]
            if isinstance(item, dict) and isinstance(item.get("candidate"), str)
        ]
        link.early.extend(item for item in found if len(item.candidate) <= _CANDIDATE_CHARACTERS)
        del link.early[bounds.PEER_CANDIDATES :]
        if link.is_described:
            self._floor.spawn(self._described(link))

    def send_candidate(self, peer: Peer, link: Link, candidate: Candidate) -> None:
        """Tell one more address of ours."""
        said = {"candidate": candidate.candidate, "sdpMid": candidate.mid, "sdpMLineIndex": candidate.line}
        sealed, vector = self._seal([said])
        side = "local" if link.role == "publisher" else "remote"
        message = {"UUID": peer.address, "type": side, "candidates": sealed, "session": link.session}
        self._floor.tell(message if vector is None else {**message, "vector": vector})

    async def _described(self, link: Link) -> None:
        link.is_described = True
        while link.early and not link.is_closed:
            await link.connection.add_candidate(link.early.pop(0))

    def _make(self, peer: Peer, role: Role, session: str) -> Link | None:
        options = self._options
        try:
            connection = self._engine.connection(options.ice_servers, relay_only=options.force_turn)
            link = Link(self._owner, connection, role, session, clock=self._clock)
        except PeersError:
            return None
        previous = peer.links.get(role)
        peer.links[role] = link
        if previous is not None:
            self._floor.spawn(previous.close("another connection took its place"))
        return link

    async def _guarded(self, link: Link, work: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(bounds.PEER_CONNECT_S):
                await work()
        except PeersError as error:
            await link.close(error.message)
        except TimeoutError:
            await link.close("no way to the other end was found in time")

    def _describe(self, peer: Peer, link: Link, kind: str, sdp: str) -> None:
        sealed, vector = self._seal({"type": kind, "sdp": sdp})
        owner = self._options.stream_id if link.role == "publisher" else peer.listed or peer.stream_id or ""
        message = {
            "UUID": peer.address,
            "session": link.session,
            "streamID": self._names.stream(owner),
            "description": sealed,
        }
        self._floor.tell(message if vector is None else {**message, "vector": vector})

    def _seal(self, value: Any) -> tuple[Any, str | None]:
        key = self._names.key
        return (value, None) if key is None else seal(key, value)

    def _open(self, value: Any, vector: str | None) -> Any:
        key = self._names.key
        return value if key is None else unseal(key, value, vector)
