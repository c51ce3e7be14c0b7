"""Explain why a connected peer exchanges no messages: it is not admitted. Pure."""

from __future__ import annotations

from typing import Final

from hubbub.packs.peers import limits
from hubbub.packs.peers.names import strip_unprintable
from hubbub.packs.peers.room import PeerView, Room

_NEXT_STEP: Final = (
    "Check join_token, join_token_secret, allow_peer_stream_ids and require_session_mac at both ends, "
    "then call vdo_sync_announce; vdo_sync_peers shows the result"
)


def explain_unadmitted(room: Room, target: str | None) -> str | None:
    """Explain which connected peers are not admitted, why, and what to do; for all peers if `target` is None.

    Return None if the target is absent or admitted. Without a target, return None if any peer is admitted.
    """
    found = None if target is None else room.find(target)
    candidates = list(room.peers) if target is None else [] if found is None else [found]
    connected = [peer for peer in candidates if peer.is_connected]
    if not connected or any(peer.is_admitted for peer in connected):
        return None
    named = "; ".join(
        f"{_display_name(peer)} is connected but not admitted ({_reason(peer)})"
        for peer in connected[: limits.ADMISSION_PEERS]
    )
    more = len(connected) - limits.ADMISSION_PEERS
    return f"{named}{f'; and {more} more' if more > 0 else ''}. {_NEXT_STEP}"


def admission_note(room: Room, target: str | None) -> dict[str, str]:
    """Return the explanation as a field of a result; empty if there is nothing to explain."""
    text = explain_unadmitted(room, target)
    return {} if text is None else {"note": text}


def _display_name(peer: PeerView) -> str:
    return _quote(peer.stream_id or peer.uuid)


def _reason(peer: PeerView) -> str:
    if peer.rejected_reason is not None:
        return f"reason: {_quote(peer.rejected_reason)}"
    return "it has not sent a hello yet" if peer.handshake == "discovered" else "its handshake is not finished"


def _quote(text: str) -> str:
    clean = " ".join(strip_unprintable(text).replace('"', "'").split())
    return f'"{clean[: limits.ADMISSION_REASON_CHARACTERS]}"'
