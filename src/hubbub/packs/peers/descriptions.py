"""What we look at in a session description (SDP) before an engine sees it. Pure."""

from __future__ import annotations

import re
from typing import Final

from hubbub import bounds
from hubbub.packs.peers.failures import NegotiationFailed

_UNSAID_BYTES: Final = 65536
"""What an end takes that does not say it (RFC 8841, section 6.1)."""
_SIZE_LINE: Final = re.compile(r"^a=max-message-size:([0-9]{1,18})\s*$", re.MULTILINE | re.ASCII)
_NEEDED: Final = tuple(
    re.compile(f"^{line}", re.MULTILINE) for line in ("v=0", "m=application ", "a=ice-ufrag:", "a=fingerprint:")
)


def check_description(sdp: object) -> str:
    """A description that may be given to an engine.

    Raises:
        NegotiationFailed: it is too large, or describes no data channels.
    """
    if not isinstance(sdp, str) or len(sdp) > bounds.PEER_DESCRIPTION_BYTES or "\0" in sdp:
        raise NegotiationFailed("the other end sent no description, or one that is too large")
    if not all(line.search(sdp) for line in _NEEDED):
        raise NegotiationFailed("the other end's description has no data channels")
    return sdp


def largest_message(remote_sdp: str) -> int:
    """The largest message that both ends take, given the description of the other."""
    said = _SIZE_LINE.search(remote_sdp)
    if said is None:
        return _UNSAID_BYTES
    return min(int(said[1]) or bounds.PEER_FRAME_BYTES, bounds.PEER_FRAME_BYTES)
