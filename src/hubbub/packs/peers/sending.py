"""Send data and envelopes to one peer, or to all admitted peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from hubbub.packs.peers.context import MeshContext
from hubbub.packs.peers.failures import ChannelClosed, FrameTooLarge, QueueFull
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.room import Sent
from hubbub.packs.peers.wire import Hello, original_swallows, pipe_frame

MakeFrame: TypeAlias = Callable[[Peer], str | None]
"""Builds the frame for one peer; None if that peer would lose it."""


class Sending:
    """Sends messages over the text channels of a mesh."""

    def __init__(self, context: MeshContext) -> None:
        self._context = context
        self._roster = context.roster
        self._trust = context.trust

    def data(self, data: Any, to: str | None) -> Sent:
        """Send application data."""
        text, is_swallowed = pipe_frame(data), original_swallows(data)

        def frame(peer: Peer) -> str | None:
            return None if is_swallowed and not peer.standing.capabilities.hubbub_v1 else text

        return self._told(self._each(frame, to), to)

    def envelope(self, kind: str, payload: Mapping[str, Any], to: str | None) -> Sent:
        """Send an envelope, encoded for each peer."""
        return self._told(self._each(lambda peer: self._trust.frame(peer.standing, kind, payload), to), to)

    def hello(self, to: str | None) -> Sent:
        """Send a hello, also to peers that are not admitted."""
        sent = self._each(lambda _: self._trust.frame(None, Hello.kind, self._trust.hello()), to, is_hello=True)
        for uuid in sent.to:
            self._context.event("sync_hello_sent", ok=True, target_uuid=uuid)
        return sent

    def say(self, peer: Peer, kind: str, payload: Mapping[str, Any]) -> bool:
        """Send an envelope to one peer, admitted or not; return whether its channel accepted it."""
        is_signed = not kind.startswith("sync.") or kind.endswith("_ack")
        return self._one(peer, self._trust.frame(peer.standing if is_signed else None, kind, payload)) is None

    def greet(self, peer: Peer) -> None:
        """Send a hello to one peer."""
        ok = self.say(peer, Hello.kind, self._trust.hello())
        self._context.event("sync_hello_sent", ok=ok, target_uuid=peer.uuid)

    def _one(self, peer: Peer, text: str) -> str | None:
        """Send a frame to one peer; return why it failed, or None."""
        link = peer.link
        if link is None:
            return "no_open_data_channel"
        try:
            link.send(text)
        except FrameTooLarge as error:
            self._context.event("send_error", message=error.message)
            return "too_large"
        except QueueFull as error:
            self._context.event("send_error", message=error.message)
            return "queue_full"
        except ChannelClosed:
            return "no_open_data_channel"
        return None

    def _each(self, frame: MakeFrame, to: str | None, *, is_hello: bool = False) -> Sent:
        if to is None:
            connected = [peer for peer in self._roster if peer.link is not None]
            admitted = [peer for peer in connected if is_hello or self._admits(peer)]
            meant = admitted or connected  # If no peer is admitted, each failure reports that.
        else:
            chosen = self._roster.find(to)
            if chosen is None:
                return Sent((), {to: "no_open_data_channel"})
            meant = [chosen]
        sent: list[str] = []
        failed: dict[str, str] = {}
        for peer in meant:
            problem = self._try(peer, frame, is_hello=is_hello)
            if problem is None:
                sent.append(peer.uuid)
            else:
                failed[peer.uuid] = problem
        return Sent(tuple(sent), failed)

    def _try(self, peer: Peer, frame: MakeFrame, *, is_hello: bool) -> str | None:
        if peer.link is None:
            return "no_open_data_channel"
        if not is_hello and not self._admits(peer):
            return "not_admitted"
        text = frame(peer)
        return "undeliverable" if text is None else self._one(peer, text)

    def _admits(self, peer: Peer) -> bool:
        return peer.claim is None and self._trust.admits(peer.standing)

    def _told(self, sent: Sent, to: str | None) -> Sent:
        if not sent.ok:
            nobody = "no_open_data_channel" if self._context.state == "connected" else "not_connected"
            reason = next((problem for problem in sent.failed.values() if problem != "no_open_data_channel"), nobody)
            self._context.event("send_rejected", reason=reason, target=to)
        return sent
