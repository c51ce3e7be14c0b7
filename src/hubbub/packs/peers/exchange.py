"""What the signalling server and those behind it say, and what is done about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hubbub import bounds
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.finder import Finder
from hubbub.packs.peers.link import Link, Role
from hubbub.packs.peers.names import WireNames
from hubbub.packs.peers.negotiator import Negotiator
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.roster import Roster
from hubbub.packs.peers.sealing import SealBroken
from hubbub.packs.peers.signalling import (
    Alert,
    Candidates,
    Described,
    Incoming,
    Joined,
    Listing,
    Member,
    PlayRequest,
    RestartRequest,
)
from hubbub.packs.peers.wire import Control


class Exchange:
    """Takes what comes from the signalling server, and what channels say about their own connection."""

    def __init__(
        self,
        roster: Roster,
        names: WireNames,
        finder: Finder,
        negotiator: Negotiator,
        event: Callable[..., None],
    ) -> None:
        self._roster = roster
        self._names = names
        self._finder = finder
        self._negotiator = negotiator
        self._event = event
        self._told_at = -bounds.PEERS_TOO_MANY_S

    def take(self, message: Incoming) -> None:
        """One message. That somebody is gone is seen by their channel: anybody could say so here."""
        match message:
            case Listing():
                for member in message.members:
                    self._give_name_to(member)
                self._finder.entered(message)
                for member in message.members:
                    self._moved(member.uuid)
            case Joined(member):
                self._give_name_to(member)
                self._finder.came(member)
                self._moved(member.uuid)
            case PlayRequest(address):
                peer = self._beginner(address)
                if peer is not None:
                    self._negotiator.publish_to(peer)
                    self._forget_if_unconnected(peer)
            case Described():
                self._described(message)
            case Candidates(address, session, side):
                found = self._roster.link_of(address, session, "viewer" if side == "local" else "publisher")
                if found is not None:
                    self._negotiator.add_candidates(found[1], message.candidates, message.vector)
            case RestartRequest(address):
                peer = self._roster.at(address)
                link = None if peer is None else peer.links.get("publisher")
                if peer is not None and link is not None:
                    self._restart(peer, link)
            case Alert(text):
                self._event("sdk_error", detail={"message": text})

    def control(self, peer: Peer, link: Link, control: Control) -> None:
        """What a channel says about its own connection."""
        fields, vector = control.fields, control.fields.get("vector")
        vector = vector if isinstance(vector, str) else None
        match control.kind:
            case "description" if self._negotiator.may_begin(peer.address):
                opened = self._opened(fields["description"], vector)
                if opened is not None:
                    self._negotiator.renew(peer, link, *opened)
            case "candidate" | "candidates":
                self._negotiator.add_candidates(link, fields[control.kind], vector)
            case "restart" if link.role == "publisher":
                self._restart(peer, link)

    def _restart(self, peer: Peer, link: Link) -> None:
        if self._negotiator.may_begin(peer.address):
            self._negotiator.restart(peer, link)

    def _give_name_to(self, member: Member) -> None:
        """Whoever said this name only in an offer, and no hello, does not have it: the server says who does."""
        name = None if member.stream_id is None else self._names.clear(member.stream_id)
        for peer in self._roster:
            if peer.standing.stream_id is None and peer.listed == name and peer.address != member.uuid:
                peer.listed = None

    def _moved(self, address: str) -> None:
        """Somebody we are connected to may have another address since the server was restarted."""
        stream_id = self._finder.stream_of(address)
        if stream_id is not None and self._roster.at(address) is None:
            for peer in self._roster.named(stream_id):
                peer.address = address

    def _beginner(self, address: str) -> Peer | None:
        """The peer of an address that begins an exchange; None if it may not."""
        if not self._negotiator.may_begin(address):
            return None
        known = self._roster.at(address)
        if known is not None:
            return known
        if self._roster.is_full:
            self._tell_that_it_is_full(address)
            return None
        return self._roster.add(address, self._finder.stream_of(address))

    def _tell_that_it_is_full(self, address: str) -> None:
        """Now and then: whoever is at the door could push out what those inside said."""
        now = time.monotonic()
        if now - self._told_at >= bounds.PEERS_TOO_MANY_S:
            self._told_at = now
            self._event("connection_failed", detail={"uuid": address, "reason": "too many peers"})

    def _forget_if_unconnected(self, peer: Peer) -> None:
        """The engine made no connection: the ICE servers cannot be used."""
        if not peer.links:
            self._roster.remove(peer)
            self._event("connection_failed", detail={"uuid": peer.uuid, "reason": "the ICE servers cannot be used"})

    def _described(self, described: Described) -> None:
        opened = self._opened(described.description, described.vector)
        if opened is None:
            return
        kind, sdp = opened
        role: Role = "publisher" if kind == "answer" else "viewer"
        found = self._roster.link_of(described.uuid, described.session, role)
        if found is not None and kind == "answer" and not found[1].is_described:
            self._negotiator.accept(found[1], sdp)
        elif found is not None:
            if self._negotiator.may_begin(described.uuid):
                self._negotiator.renew(*found, kind, sdp)
        elif kind == "offer" and described.stream_id is not None:
            self._offered(described, self._names.clear(described.stream_id), sdp)

    def _offered(self, described: Described, stream_id: str | None, sdp: str) -> None:
        if stream_id is None or not self._finder.wants(stream_id):
            return
        if self._finder.holders.get(stream_id, described.uuid) != described.uuid:
            return  # The name of somebody else.
        peer = self._beginner(described.uuid)
        if peer is not None:
            peer.listed = peer.listed or stream_id
            self._negotiator.view(peer, described.session, sdp)
            self._forget_if_unconnected(peer)

    def _opened(self, description: Any, vector: str | None) -> tuple[str, str] | None:
        try:
            return self._negotiator.read_description(description, vector)
        except (SealBroken, PeersError):
            return None
