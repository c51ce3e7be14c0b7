"""Views of admitted peers, and envelopes about files."""

from __future__ import annotations

from typing import Any

from hubbub.packs.peers.room import PeerView
from hubbub.packs.peers.wire import Capabilities, Envelope


def make_peer(number: int, *, is_hubbub: bool = True) -> PeerView:
    return PeerView(
        uuid=f"u{number}",
        stream_id=f"s{number}",
        is_connected=True,
        handshake="ready",
        is_authenticated=True,
        rejected_reason=None,
        has_key=True,
        is_admitted=True,
        has_bulk=False,
        capabilities=Capabilities(hubbub_v1=is_hubbub),
        last_seen=0,
        last_heartbeat=0,
        max_message_size=262_144,
    )


def make_envelope(kind: str, payload: dict[str, Any]) -> Envelope:
    return Envelope(kind=f"file.{kind}", ts=0, nonce="", room="r", from_stream_id="s", payload=payload)
