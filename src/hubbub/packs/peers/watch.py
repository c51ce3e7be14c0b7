"""Detect dead peers, and send heartbeats.

A silent peer is pinged on each of its connections, and counts as dead when nothing arrives on any of them. If our own
process was suspended in the meantime, every peer gets another chance.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container
from typing import Final

from hubbub.packs.peers import limits
from hubbub.packs.peers.context import MeshContext
from hubbub.packs.peers.exchange import Exchange
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.reception import Reception
from hubbub.packs.peers.sending import Sending
from hubbub.packs.peers.wire import Heartbeat, Hello

_HELLO_EVERY: Final = 4


class Watch:
    """Periodic task that pings peers, sends heartbeats and settles claims of names."""

    def __init__(self, context: MeshContext, sending: Sending, exchange: Exchange, reception: Reception) -> None:
        self._context = context
        self._sending = sending
        self._exchange = exchange
        self._reception = reception
        self._task: asyncio.Task[None] | None = None
        self._beats = 0
        self.beaten_at = 0.0
        """Unix time of the last heartbeat sent on any channel; 0 if there was none."""
        self._last_tick = self._last_beat = context.clock()

    def start(self) -> None:
        """Start the periodic task."""
        self._last_tick = self._last_beat = self._context.clock()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop the periodic task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(limits.PEER_CHECK_S)
            self.tick()

    def tick(self) -> None:
        """Do everything that is due now."""
        now = self._context.clock()
        stood_still = now - self._last_tick > limits.PEER_STALL_S
        self._last_tick = now
        for peer in self._context.roster:
            self._look_after(peer, stood_still=stood_still)
        self._exchange.give_up_unanswered(now)
        if now - self._last_beat >= self._context.options.heartbeat_s:
            self._last_beat = now
            self._beats += 1
            if self._beats % _HELLO_EVERY == 0:
                self._repeat_hello()
            self.beat()

    def _look_after(self, peer: Peer, *, stood_still: bool) -> None:
        if stood_still:
            peer.note_life()
            ping(peer)
        elif peer.silent_s > limits.PEER_DEAD_S and (peer.answers_pings or peer.standing.capabilities.hubbub_v1):
            for link in peer.open_links:
                self._context.drop(link, "no sign of life")
        elif _is_quiet(peer):
            ping(peer)
        if peer.claim is not None:
            self._contest(peer)

    def _contest(self, claimant: Peer) -> None:
        assert claimant.claim is not None
        name = claimant.claim[0].from_stream_id
        for rival in self._context.roster:
            if rival is not claimant and rival.standing.stream_id == name:
                ping(rival)
        self._reception.settle_claim(claimant)

    def _repeat_hello(self) -> None:
        """Send a hello again, without an event: a caller that waits for events must not be woken by our own routine."""
        for peer in self._context.roster:
            if peer.link is not None:
                self._sending.say(peer, Hello.kind, self._context.trust.hello())

    def beat(self, to: Container[str] | None = None) -> bool:
        """Send a heartbeat to all admitted peers, or to these uuids only; return whether any channel took it."""
        context = self._context
        payload = {"room": context.options.room, "stream_id": context.options.stream_id}
        digest = context.listener.state_digest()
        sent = []
        for peer in context.roster:
            is_meant = peer.link is not None and (to is None or peer.uuid in to)
            if is_meant and context.trust.admits(peer.standing):
                is_told = digest is not None and peer.standing.capabilities.hubbub_v1
                extra = {"state_digest": digest} if is_told else {}
                sent.append(self._sending.say(peer, Heartbeat.kind, {**payload, **extra}))
        if any(sent):
            self.beaten_at = time.time()
        return any(sent)


def _is_quiet(peer: Peer) -> bool:
    later_s = limits.PEER_PING_LATER_S if "publisher" in peer.links else 0.0
    return peer.silent_s > limits.PEER_PING_S + later_s and peer.unasked_s > limits.PEER_PING_S


def ping(peer: Peer) -> None:
    """Request a sign of life; a peer that has answered once counts as dead when it stops answering."""
    peer.asked_at = peer.clock()
    for link in peer.open_links:
        try:
            link.send(f'{{"ping":{int(time.time() * 1000)}}}')
        except PeersError:
            pass
