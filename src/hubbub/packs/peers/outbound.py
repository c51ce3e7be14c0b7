"""Send data and envelopes to one peer, or to all admitted peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from hubbub.packs.peers.context import MeshContext
from hubbub.packs.peers.errors import ChannelClosed, FrameTooLarge, QueueFull
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.room import SendResult
from hubbub.packs.peers.wire import Hello, pipe_frame, vdo_bridge_drops

MakeFrame: TypeAlias = Callable[[Peer], str | None]
"""Builds the frame for one peer; None if that peer would lose it."""


class MessageSender:
    """Sends messages over the text channels of a mesh."""

    def __init__(self, context: MeshContext) -> None:
        self._context = context
        self._roster = context.roster
        self._trust = context.trust

    def send_data(self, data: Any, to: str | None) -> SendResult:
        """Send application data."""
        text, is_dropped = pipe_frame(data), vdo_bridge_drops(data)

        def frame(peer: Peer) -> str | None:
            return None if is_dropped and not peer.auth.capabilities.hubbub_v1 else text

        return self._report_rejected(self._send_each(frame, to), to)

    def send_envelope(self, kind: str, payload: Mapping[str, Any], to: str | None) -> SendResult:
        """Send an envelope, encoded for each peer."""
        return self._report_rejected(self._send_each(lambda peer: self._trust.frame(peer.auth, kind, payload), to), to)

    def send_hello(self, to: str | None) -> SendResult:
        """Send a hello, also to peers that are not admitted."""
        sent = self._send_each(lambda _: self._trust.frame(None, Hello.kind, self._trust.hello()), to, is_hello=True)
        for uuid in sent.recipients:
            self._context.emit("sync_hello_sent", ok=True, target_uuid=uuid)
        return sent

    def send_to_peer(self, peer: Peer, kind: str, payload: Mapping[str, Any]) -> bool:
        """Send an envelope to one peer, admitted or not; return whether its channel accepted it."""
        is_signed = not kind.startswith("sync.") or kind.endswith("_ack")
        return self._send_frame(peer, self._trust.frame(peer.auth if is_signed else None, kind, payload)) is None

    def send_hello_to_peer(self, peer: Peer) -> None:
        """Send a hello to one peer, and emit `sync_hello_sent`."""
        ok = self.send_to_peer(peer, Hello.kind, self._trust.hello())
        self._context.emit("sync_hello_sent", ok=ok, target_uuid=peer.uuid)

    def _send_frame(self, peer: Peer, text: str) -> str | None:
        """Send a frame to one peer; return why it failed, or None."""
        link = peer.link
        if link is None:
            return "no_open_data_channel"
        try:
            link.send(text)
        except FrameTooLarge as error:
            self._context.emit("send_error", message=error.message)
            return "too_large"
        except QueueFull as error:
            self._context.emit("send_error", message=error.message)
            return "queue_full"
        except ChannelClosed:
            return "no_open_data_channel"
        return None

    def _send_each(self, frame: MakeFrame, to: str | None, *, is_hello: bool = False) -> SendResult:
        if to is None:
            connected = [peer for peer in self._roster if peer.link is not None]
            admitted = [peer for peer in connected if is_hello or self._admits(peer)]
            targets = admitted or connected  # If no peer is admitted, each failure reports that.
        else:
            chosen = self._roster.find(to)
            if chosen is None:
                return SendResult((), {to: "no_open_data_channel"})
            targets = [chosen]
        sent: list[str] = []
        failed: dict[str, str] = {}
        for peer in targets:
            problem = self._try_peer(peer, frame, is_hello=is_hello)
            if problem is None:
                sent.append(peer.uuid)
            else:
                failed[peer.uuid] = problem
        return SendResult(tuple(sent), failed)

    def _try_peer(self, peer: Peer, frame: MakeFrame, *, is_hello: bool) -> str | None:
        if peer.link is None:
            return "no_open_data_channel"
        if not is_hello and not self._admits(peer):
            return "not_admitted"
        text = frame(peer)
        return "undeliverable" if text is None else self._send_frame(peer, text)

    def _admits(self, peer: Peer) -> bool:
        return peer.claim is None and self._trust.admits(peer.auth)

    def _report_rejected(self, sent: SendResult, to: str | None) -> SendResult:
        if not sent.ok:
            default_reason = "no_open_data_channel" if self._context.state == "connected" else "not_connected"
            reason = next(
                (problem for problem in sent.failed.values() if problem != "no_open_data_channel"), default_reason
            )
            self._context.emit("send_rejected", reason=reason, target=to)
        return sent
