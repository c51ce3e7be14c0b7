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
from hubbub.packs.peers.encryption import DecryptionFailed, decrypt, encrypt
from hubbub.packs.peers.engine import Candidate, check_sdp
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.link import Link, Role
from hubbub.packs.peers.names import make_session_id
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.signalling import OutgoingMessage


class Negotiator:
    """Creates and negotiates connections."""

    def __init__(
        self, context: MeshContext, signal: Callable[[OutgoingMessage], None], attach: Callable[[Peer, Link], None]
    ) -> None:
        self._context = context
        self._options = context.options
        self._names = context.names
        self._send_signal = signal
        self._attach = attach
        self._started_at: dict[str, deque[float]] = {}

    def may_start(self, address: str) -> bool:
        """Return whether this address may start one more exchange, and count it."""
        if len(self._started_at) > limits.PEER_OFFER_ADDRESSES:
            self._started_at.clear()
        now, times = self._context.clock(), self._started_at.setdefault(address, deque(maxlen=limits.PEER_OFFERS))
        if len(times) == limits.PEER_OFFERS and times[0] > now - limits.PEER_OFFERS_S:
            return False
        times.append(now)
        return True

    # -- publisher -----------------------------------------------------------------------

    def offer_to(self, peer: Peer, *, is_requested: bool) -> None:
        """Offer a connection; an unsolicited offer is withdrawn if it is not answered soon."""
        link = self._make_link(peer, "publisher", make_session_id())
        if link is not None:
            self._context.spawn(
                self._run_with_timeout(link, lambda: self._offer(peer, link, is_requested=is_requested))
            )

    async def _offer(self, peer: Peer, link: Link, *, is_requested: bool) -> None:
        self._send_description(peer, link, "offer", await link.connection.offer())
        wait_s = limits.PEER_CONNECT_S if is_requested else limits.PEER_RESPONSE_TIMEOUT_S
        timer = asyncio.get_running_loop().call_later(wait_s, self._withdraw, link)
        try:
            await link.wait_open()
        finally:
            timer.cancel()

    def _withdraw(self, link: Link) -> None:
        if not link.is_described:
            self._context.spawn(link.close("the offer was not answered"))

    # -- viewer --------------------------------------------------------------------------

    def answer_offer(self, peer: Peer, session: str, offer: str) -> None:
        """Handle an offer of a connection, requested or not."""
        link = self._make_link(peer, "viewer", session)
        if link is not None:
            self._context.spawn(self._run_with_timeout(link, lambda: self._answer(peer, link, offer)))

    async def _answer(self, peer: Peer, link: Link, offer: str) -> None:
        answer = await link.connection.answer(offer)
        self._send_description(peer, link, "answer", answer)
        await self._add_early_candidates(link)
        await link.wait_open()

    # -- both roles ----------------------------------------------------------------------

    def read_description(self, description: Any, vector: str | None) -> tuple[str, str]:
        """Return the kind and SDP of a description.

        Raises: PeersError.
        """
        decrypted = self._decrypt(description, vector)
        kind = decrypted.get("type") if isinstance(decrypted, dict) else None
        if not isinstance(decrypted, dict) or kind not in ("offer", "answer"):
            raise DecryptionFailed("the decrypted data is not a session description")
        return kind, check_sdp(decrypted.get("sdp"))

    def accept(self, link: Link, answer: str) -> None:
        """Apply the answer to our offer."""
        if not link.is_described:
            self._context.spawn(self._accept(link, answer))

    async def _accept(self, link: Link, answer: str) -> None:
        try:
            await link.connection.accept(answer)
            await self._add_early_candidates(link)
        except PeersError as error:
            await link.close(error.message)

    def renegotiate(self, peer: Peer, link: Link, kind: str, sdp: str) -> None:
        """Handle a renegotiation of an existing connection by the other end."""
        self._context.spawn(self._run_renegotiation(peer, link, kind, sdp))

    async def _run_renegotiation(self, peer: Peer, link: Link, kind: str, sdp: str) -> None:
        try:
            if kind == "answer":
                await link.connection.accept(sdp)
            else:
                self._send_description(peer, link, "answer", await link.connection.answer(sdp))
        except PeersError:
            pass  # The existing path stays in use if it still works.

    def restart(self, peer: Peer, link: Link) -> None:
        """Perform an ICE restart that a viewer requested."""
        self._context.spawn(self._restart(peer, link))

    async def _restart(self, peer: Peer, link: Link) -> None:
        try:
            self._send_description(peer, link, "offer", await link.connection.offer(restart=True))
        except PeersError:
            pass

    def add_candidates(self, link: Link, encrypted: Any, vector: str | None) -> None:
        """Add ICE candidates of the other end; malformed ones are ignored."""
        try:
            decrypted = self._decrypt(encrypted, vector)
        except DecryptionFailed:
            return
        found = [
            Candidate(item["candidate"], str(item.get("sdpMid") or "0")[:16])
            for item in (decrypted if isinstance(decrypted, list) else [decrypted])[: limits.PEER_CANDIDATES]
            if isinstance(item, dict) and isinstance(item.get("candidate"), str)
        ]
        link.early_candidates.extend(item for item in found if len(item.candidate) <= limits.PEER_CANDIDATE_CHARACTERS)
        del link.early_candidates[limits.PEER_CANDIDATES :]
        if link.is_described:
            self._context.spawn(self._add_early_candidates(link))

    def _send_candidate(self, peer: Peer, link: Link, candidate: Candidate) -> None:
        """Send one more ICE candidate of ours, unless the connection has ended or was replaced."""
        if peer.links.get(link.role) is not link:
            return
        fields = {"candidate": candidate.candidate, "sdpMid": candidate.mid, "sdpMLineIndex": candidate.line}
        encrypted, vector = self._encrypt([fields])
        side = "local" if link.role == "publisher" else "remote"
        message = {"UUID": peer.address, "type": side, "candidates": encrypted, "session": link.session}
        self._send_signal(message if vector is None else {**message, "vector": vector})

    async def _add_early_candidates(self, link: Link) -> None:
        link.is_described = True
        while link.early_candidates and not link.is_closed:
            await link.connection.add_candidate(link.early_candidates.pop(0))

    def _make_link(self, peer: Peer, role: Role, session: str) -> Link | None:
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
            self._context.spawn(previous.close("another connection replaced this one"))
        return link

    async def _run_with_timeout(self, link: Link, work: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(limits.PEER_CONNECT_S):
                await work()
        except PeersError as error:
            await link.close(error.message)
        except TimeoutError:
            await link.close(f"no network path to the other end was found within {limits.PEER_CONNECT_S:g} seconds")

    def _send_description(self, peer: Peer, link: Link, kind: str, sdp: str) -> None:
        encrypted, vector = self._encrypt({"type": kind, "sdp": sdp})
        owner = self._options.stream_id if link.role == "publisher" else peer.listed_stream_id or peer.stream_id or ""
        message = {
            "UUID": peer.address,
            "session": link.session,
            "streamID": self._names.wire_stream_id(owner),
            "description": encrypted,
        }
        self._send_signal(message if vector is None else {**message, "vector": vector})

    def _encrypt(self, value: Any) -> tuple[Any, str | None]:
        key = self._names.key
        return (value, None) if key is None else encrypt(key, value)

    def _decrypt(self, value: Any, vector: str | None) -> Any:
        key = self._names.key
        return value if key is None else decrypt(key, value, vector)
