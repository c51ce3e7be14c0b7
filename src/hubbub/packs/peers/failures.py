"""What can go wrong between peers. Each is a `ToolError`, so that a tool lets it pass."""

from __future__ import annotations

from hubbub.errors import ToolError


class PeersError(ToolError):
    """Something between two peers did not work."""


class EngineMissing(PeersError):
    """No WebRTC library is installed, or not the one that was asked for."""


class ChannelClosed(PeersError):
    """The channel to the other end is closed, or not open yet."""


class FrameTooLarge(PeersError):
    """One message is larger than the other end takes."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a message of {size} bytes is larger than the {limit} that the other end takes; send less")
        self.size, self.limit = size, limit


class QueueFull(PeersError):
    """The other end reads too slowly; wait with `drain` before sending more."""


class NegotiationFailed(PeersError):
    """Two ends could not agree on a connection: an SDP that cannot be read, or no way between them."""


class SignallingFailed(PeersError):
    """The signalling server cannot be reached, or does not let us in."""


class StreamIdTaken(SignallingFailed):
    """Somebody else in the room has our stream id."""


class WireError(PeersError):
    """What the other end sent is not what its kind promises."""


class StateFull(PeersError):
    """The shared state has no room for one more key."""
