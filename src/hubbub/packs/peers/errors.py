"""Errors of the peers pack. Each is a `ToolError`, so that tools need not convert it."""

from __future__ import annotations

from hubbub import ToolError


class PeersError(ToolError):
    """Base of all errors between peers."""


class EngineMissing(PeersError):
    """No WebRTC library is installed, or not the configured one."""


class ChannelClosed(PeersError):
    """The channel to the other end is closed, or not open yet."""


class FrameTooLarge(PeersError):
    """A message is larger than the other end accepts."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"the message has {size} bytes, but the other end accepts {limit}; split it, or send a file")
        self.size, self.limit = size, limit


class QueueFull(PeersError):
    """The other end reads too slowly; wait with `drain` before sending more."""


class NegotiationFailed(PeersError):
    """No connection could be negotiated: an SDP is invalid, or no network path was found."""


class SignallingFailed(PeersError):
    """The signalling server cannot be reached, or refuses us."""


class StreamIdTaken(SignallingFailed):
    """Another client in the room has our stream id."""


class WireError(PeersError):
    """A message of the other end does not match the format of its kind."""


class StateFull(PeersError):
    """The shared state has no room for one more key."""
