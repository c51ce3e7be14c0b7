"""Notices who is gone, and lets the others know that we are there.

A quiet peer is asked (`ping`), and taken for dead when it does not answer. If our own
process stood still meanwhile, everybody gets another chance.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

from hubbub import bounds
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.link import Link
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.room import Listener, RoomOptions
from hubbub.packs.peers.roster import Roster
from hubbub.packs.peers.trust import Trust
from hubbub.packs.peers.wire import Heartbeat

_TICK_S: Final = 0.5
_STOOD_STILL_S: Final = 3.0
_HELLO_EVERY: Final = 4


class Watched(Protocol):
    """What the watch needs of the mesh."""

    options: RoomOptions
    listener: Listener
    trust: Trust
    roster: Roster

    def say(self, peer: Peer, kind: str, payload: Mapping[str, Any]) -> bool:
        """Send an envelope to one peer."""

    def event(self, type: str, **fields: Any) -> None:
        """Tell the upper half."""

    def drop(self, peer: Peer, link: Link, reason: str) -> None:
        """End a connection."""

    def greet(self, peer: Peer) -> None:
        """Say hello."""

    def settle_claim(self, peer: Peer) -> None:
        """Decide about a name that two claim."""

    def unanswered(self, stream_id: str) -> None:
        """Somebody did not answer our wish for a connection."""


class Watch:
    """One task that looks around."""

    def __init__(self, mesh: Watched) -> None:
        self._mesh = mesh
        self._task: asyncio.Task[None] | None = None
        self._asked: dict[str, float] = {}
        self._beats = 0

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def asked(self, stream_id: str) -> None:
        """We asked somebody for a connection."""
        self._asked[stream_id] = time.monotonic()

    async def _run(self) -> None:
        last = beaten = time.monotonic()
        while True:
            await asyncio.sleep(_TICK_S)
            now = time.monotonic()
            stood_still = now - last > _STOOD_STILL_S
            last = now
            for peer in self._mesh.roster:
                self._look_after(peer, stood_still=stood_still)
            self._look_for_answers(now)
            if now - beaten >= self._mesh.options.heartbeat_s:
                beaten = now
                self._beat()

    def _look_after(self, peer: Peer, *, stood_still: bool) -> None:
        for link in list(peer.links.values()):
            if not link.is_open:
                continue
            if stood_still:
                link.note_life()
                ping(link)
            elif link.silent_s > bounds.PEER_DEAD_S and (peer.answers_pings or peer.standing.capabilities.hubbub_v1):
                self._mesh.drop(peer, link, "no sign of life")
            elif _is_quiet(link):
                ping(link)
        if peer.claim is not None:
            self._contest(peer)

    def _contest(self, claimant: Peer) -> None:
        assert claimant.claim is not None
        name = claimant.claim[0].from_stream_id
        for rival in self._mesh.roster:
            if rival is not claimant and rival.standing.stream_id == name and rival.link is not None:
                ping(rival.link)
        self._mesh.settle_claim(claimant)

    def _look_for_answers(self, now: float) -> None:
        late = [stream for stream, moment in self._asked.items() if now - moment > bounds.PEER_ANSWER_S]
        for stream_id in late:
            del self._asked[stream_id]
            self._mesh.unanswered(stream_id)

    def _beat(self) -> None:
        mesh = self._mesh
        self._beats += 1
        payload = {"room": mesh.options.room, "stream_id": mesh.options.stream_id}
        digest = mesh.listener.state_digest()
        sent = []
        for peer in mesh.roster:
            if peer.link is None:
                continue
            if self._beats % _HELLO_EVERY == 0:
                mesh.greet(peer)
            if mesh.trust.admits(peer.standing):
                is_told = digest is not None and peer.standing.capabilities.hubbub_v1
                extra = {"state_digest": digest} if is_told else {}
                sent.append(mesh.say(peer, Heartbeat.kind, {**payload, **extra}))
        mesh.event("heartbeat_sent", ok=any(sent))


def _is_quiet(link: Link) -> bool:
    later_s = bounds.PEER_PING_LATER_S if link.role == "publisher" else 0.0
    return link.silent_s > bounds.PEER_PING_S + later_s and link.unasked_s > bounds.PEER_PING_S


def ping(link: Link) -> None:
    """Ask for a sign of life; who answers once is taken for dead when it does not answer later."""
    link.note_question()
    try:
        link.send(f'{{"ping":{int(time.time() * 1000)}}}')
    except PeersError:
        pass
