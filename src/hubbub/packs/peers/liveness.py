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
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.inbound import InboundRouter
from hubbub.packs.peers.outbound import MessageSender
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.signalling_handler import SignallingHandler
from hubbub.packs.peers.wire import Heartbeat, Hello

_HEARTBEATS_PER_HELLO: Final = 4


class LivenessMonitor:
    """Periodic task that pings peers, sends heartbeats and settles claims of names."""

    def __init__(
        self,
        context: MeshContext,
        outbound: MessageSender,
        signalling_handler: SignallingHandler,
        inbound: InboundRouter,
    ) -> None:
        self._context = context
        self._outbound = outbound
        self._signalling_handler = signalling_handler
        self._inbound = inbound
        self._task: asyncio.Task[None] | None = None
        self._heartbeats = 0
        self.heartbeat_sent_at = 0.0
        """Unix time of the last heartbeat sent on any channel; 0 if there was none."""
        self._last_tick = self._last_heartbeat = context.clock()

    def start(self) -> None:
        """Start the periodic task."""
        self._last_tick = self._last_heartbeat = self._context.clock()
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
        was_suspended = now - self._last_tick > limits.PEER_STALL_S
        self._last_tick = now
        for peer in self._context.roster:
            self._check_peer(peer, was_suspended=was_suspended)
        self._signalling_handler.retry_unanswered(now)
        if now - self._last_heartbeat >= self._context.options.heartbeat_s:
            self._last_heartbeat = now
            self._heartbeats += 1
            if self._heartbeats % _HEARTBEATS_PER_HELLO == 0:
                self._repeat_hello()
            self.send_heartbeat()

    def _check_peer(self, peer: Peer, *, was_suspended: bool) -> None:
        if was_suspended:
            peer.mark_alive()
            send_ping(peer)
        elif peer.silent_s > limits.PEER_SILENCE_TIMEOUT_S and (peer.answers_pings or peer.auth.capabilities.hubbub_v1):
            for link in peer.open_links:
                self._context.end_link(link, "no sign of life")
        elif _needs_ping(peer):
            send_ping(peer)
        if peer.claim is not None:
            self._check_claim(peer)

    def _check_claim(self, claimant: Peer) -> None:
        assert claimant.claim is not None
        name = claimant.claim[0].from_stream_id
        for rival in self._context.roster:
            if rival is not claimant and rival.auth.stream_id == name:
                send_ping(rival)
        self._inbound.settle_claim(claimant)

    def _repeat_hello(self) -> None:
        """Send a hello again, without an event: a caller that waits for events must not be woken by our own routine."""
        for peer in self._context.roster:
            if peer.link is not None:
                self._outbound.send_to_peer(peer, Hello.kind, self._context.trust.hello())

    def send_heartbeat(self, to: Container[str] | None = None) -> bool:
        """Send a heartbeat to all admitted peers, or to these uuids only; return whether any channel took it."""
        context = self._context
        payload = {"room": context.options.room, "stream_id": context.options.stream_id}
        digest = context.listener.state_digest()
        sent = []
        for peer in context.roster:
            is_recipient = peer.link is not None and (to is None or peer.uuid in to)
            if is_recipient and context.trust.admits(peer.auth):
                sends_digest = digest is not None and peer.auth.capabilities.hubbub_v1
                extra = {"state_digest": digest} if sends_digest else {}
                sent.append(self._outbound.send_to_peer(peer, Heartbeat.kind, {**payload, **extra}))
        if any(sent):
            self.heartbeat_sent_at = time.time()
        return any(sent)


def _needs_ping(peer: Peer) -> bool:
    delay_s = limits.PEER_PING_PUBLISHER_DELAY_S if "publisher" in peer.links else 0.0
    return peer.silent_s > limits.PEER_PING_S + delay_s and peer.since_ping_s > limits.PEER_PING_S


def send_ping(peer: Peer) -> None:
    """Request a sign of life; a peer that has answered once counts as dead when it stops answering."""
    peer.last_pinged_at = peer.clock()
    for link in peer.open_links:
        try:
            link.send(f'{{"ping":{int(time.time() * 1000)}}}')
        except PeersError:
            pass
