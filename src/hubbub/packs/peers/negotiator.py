"""Negotiation of connections: offers, answers and ICE candidates, encrypted with the room's password.

A publisher offers, requested or not; a viewer answers. A VDO.Ninja bridge learns the stream id of a peer only if it
views that peer, so we offer rather than request an offer. Both name the exchange with the publisher's session id;
messages with another id are ignored. The number of exchanges that one address may start is limited.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from hubbub.packs.peers import limits
from hubbub.packs.peers.context import MeshContext
from hubbub.packs.peers.engine import Candidate, check_description
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.link import Link, Role
from hubbub.packs.peers.names import session_id
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.sealing import SealBroken, seal, unseal
from hubbub.packs.peers.signalling import Message


class Negotiator:
    """Creates and negotiates connections."""

    def __init__(
        self, context: MeshContext, signal: Callable[[Message], None], attach: Callable[[Peer, Link], None]
    ) -> None:
        self._context = context
        self._options = context.options
        self._names = context.names
        self._signal = signal
        self._attach = attach
        self._begun: dict[str, deque[float]] = {}

    def may_begin(self, address: str) -> bool:
        """Return whether this address may start one more exchange, and count it."""
        if len(self._begun) > limits.PEER_OFFER_ADDRESSES:
            self._begun.clear()
        now, times = self._context.clock(), self._begun.setdefault(address, deque(maxlen=limits.PEER_OFFERS))
        if len(times) == limits.PEER_OFFERS and times[0] > now - limits.PEER_OFFERS_S:
            return False
        times.append(now)
        return True

    # -- publisher -----------------------------------------------------------------------

    def publish_to(self, peer: Peer, *, is_asked: bool) -> None:
        """Offer a connection; an unsolicited offer is withdrawn if it is not answered soon."""
        link = self._make(peer, "publisher", session_id())
        if link is not None:
            self._context.spawn(self._guarded(link, lambda: self._offer(peer, link, is_asked=is_asked)))

    async def _offer(self, peer: Peer, link: Link, *, is_asked: bool) -> None:
        self._describe(peer, link, "offer", await link.connection.offer())
        wait_s = limits.PEER_CONNECT_S if is_asked else limits.PEER_ANSWER_S
        timer = asyncio.get_running_loop().call_later(wait_s, self._withdraw, link)
        try:
            await link.settled()
        finally:
            timer.cancel()

    def _withdraw(self, link: Link) -> None:
        if not link.is_described:
            self._context.spawn(link.close("the offer was not answered"))

    # -- viewer --------------------------------------------------------------------------

    def view(self, peer: Peer, session: str, offer: str) -> None:
        """Handle an offer of a connection, requested or not."""
        link = self._make(peer, "viewer", session)
        if link is not None:
            self._context.spawn(self._guarded(link, lambda: self._answer(peer, link, offer)))

    async def _answer(self, peer: Peer, link: Link, offer: str) -> None:
        answer = await link.connection.answer(offer)
        self._describe(peer, link, "answer", answer)
        await self._described(link)
        await link.settled()

    # -- both roles ----------------------------------------------------------------------

    def read_description(self, description: Any, vector: str | None) -> tuple[str, str]:
        """Return the kind and SDP of a description.

        Raises: PeersError.
        """
        opened = self._open(description, vector)
        kind = opened.get("type") if isinstance(opened, dict) else None
        if not isinstance(opened, dict) or kind not in ("offer", "answer"):
            raise SealBroken("it is no description")
        return kind, check_description(opened.get("sdp"))

    def accept(self, link: Link, answer: str) -> None:
        """Apply the answer to our offer."""
        if not link.is_described:
            self._context.spawn(self._accept(link, answer))

    async def _accept(self, link: Link, answer: str) -> None:
        try:
            await link.connection.accept(answer)
            await self._described(link)
        except PeersError as error:
            await link.close(error.message)

    def renew(self, peer: Peer, link: Link, kind: str, sdp: str) -> None:
        """Handle a renegotiation of an existing connection by the other end."""
        self._context.spawn(self._renew(peer, link, kind, sdp))

    async def _renew(self, peer: Peer, link: Link, kind: str, sdp: str) -> None:
        try:
            if kind == "answer":
                await link.connection.accept(sdp)
            else:
                self._describe(peer, link, "answer", await link.connection.answer(sdp))
        except PeersError:
            pass  # The existing path stays in use if it still works.

    def restart(self, peer: Peer, link: Link) -> None:
        """Perform an ICE restart that a viewer requested."""
        self._context.spawn(self._restart(peer, link))

    async def _restart(self, peer: Peer, link: Link) -> None:
        try:
            self._describe(peer, link, "offer", await link.connection.offer(restart=True))
        except PeersError:
            pass

    def add_candidates(self, link: Link, sealed: Any, vector: str | None) -> None:
        """Add ICE candidates of the other end; malformed ones are ignored."""
        try:
            opened = self._open(sealed, vector)
        except SealBroken:
            return
        found = [
            Candidate(item["candidate"], str(item.get("sdpMid") or "0")[:16])
            for item in (opened if isinstance(opened, list) else [opened])[: limits.PEER_CANDIDATES]
            if isinstance(item, dict) and isinstance(item.get("candidate"), str)
        ]
        link.early.extend(item for item in found if len(item.candidate) <= limits.PEER_CANDIDATE_CHARACTERS)
        del link.early[limits.PEER_CANDIDATES :]
        if link.is_described:
            self._context.spawn(self._described(link))

    def _send_candidate(self, peer: Peer, link: Link, candidate: Candidate) -> None:
        """Send one more ICE candidate of ours, unless the connection has ended or was replaced."""
        if peer.links.get(link.role) is not link:
            return
        said = {"candidate": candidate.candidate, "sdpMid": candidate.mid, "sdpMLineIndex": candidate.line}
        sealed, vector = self._seal([said])
        side = "local" if link.role == "publisher" else "remote"
        message = {"UUID": peer.address, "type": side, "candidates": sealed, "session": link.session}
        self._signal(message if vector is None else {**message, "vector": vector})

    async def _described(self, link: Link) -> None:
        link.is_described = True
        while link.early and not link.is_closed:
            await link.connection.add_candidate(link.early.pop(0))

    def _make(self, peer: Peer, role: Role, session: str) -> Link | None:
        options = self._options
        try:
            connection = self._context.engine.connection(options.ice_servers, relay_only=options.force_turn)
            link = Link(connection, role, session, clock=self._context.clock)
        except PeersError:
            return None
        previous = peer.links.get(role)
        peer.links[role] = link
        self._attach(peer, link)
        connection.on_candidate = lambda found: self._send_candidate(peer, link, found)
        if previous is not None:
            previous.detach()
            self._context.spawn(previous.close("another connection took its place"))
        return link

    async def _guarded(self, link: Link, work: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(limits.PEER_CONNECT_S):
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
        self._signal(message if vector is None else {**message, "vector": vector})

    def _seal(self, value: Any) -> tuple[Any, str | None]:
        key = self._names.key
        return (value, None) if key is None else seal(key, value)

    def _open(self, value: Any, vector: str | None) -> Any:
        key = self._names.key
        return value if key is None else unseal(key, value, vector)
