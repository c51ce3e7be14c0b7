"""The interface to WebRTC that the pack needs: connections with data channels.

Two libraries implement it, each wrapped by one module that is loaded for the first connection: `engine_wrtc` (fast,
from wheels) and `engine_aiortc` (pure Python). Everything here runs on the event loop's thread; callbacks are plain
functions, called in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import EngineMissing, NegotiationFailed

State: TypeAlias = Literal["new", "connecting", "connected", "disconnected", "failed", "closed"]
"""The state of a connection, with the names that browsers use."""

ENGINES: Final = ("wrtc", "aiortc")
"""In order of preference."""
_MODULES: Final = {"wrtc": "hubbub.packs.peers.engine_wrtc", "aiortc": "hubbub.packs.peers.engine_aiortc"}
_LIBRARIES: Final = {"wrtc": "webrtc", "aiortc": "aiortc"}
_DEFAULT_MAX_MESSAGE_BYTES: Final = 65536
"""Default of `max-message-size` (RFC 8841, section 6.1)."""
_SIZE_LINE: Final = re.compile(r"^a=max-message-size:([0-9]{1,18})\s*$", re.MULTILINE | re.ASCII)
_REQUIRED_LINES: Final = tuple(
    re.compile(f"^{line}", re.MULTILINE) for line in ("v=0", "m=application ", "a=ice-ufrag:", "a=fingerprint:")
)


class IceServer(msgspec.Struct, frozen=True):
    """A STUN or TURN server: `stun:host:3478`, `turn:host:3478?transport=tcp`."""

    url: str
    username: str = ""
    credential: str = ""


class Candidate(msgspec.Struct, frozen=True):
    """One ICE candidate."""

    candidate: str
    mid: str = "0"
    line: int = 0


class Channel(Protocol):
    """One ordered, reliable channel. Channels from `on_channel` are open already; call `wait_open` for others."""

    label: str
    on_message: Callable[[bytes | str], None]
    """Called in order, without loss. Messages that arrive before it is set are queued."""
    on_open: Callable[[], None]
    """Called once, when messages can be sent; not for channels that `on_channel` delivers."""
    on_close: Callable[[], None]
    """Called once, whichever end closed the channel."""

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""

    @property
    def max_message_size(self) -> int:
        """The largest message that both ends accept."""

    @property
    def buffered_amount(self) -> int:
        """Bytes queued for sending."""

    async def wait_open(self) -> None:
        """Wait until it is open. The caller sets the deadline.

        Raises: ChannelClosed.
        """

    def send(self, data: bytes | str) -> None:
        """Queue one message.

        Raises: FrameTooLarge, ChannelClosed, QueueFull (more than `limits.PEER_QUEUE_BYTES` are queued
            already).
        """

    async def drain(self, low: int | None = None) -> None:
        """Wait until at most `low` bytes are queued for sending; by default `limits.PEER_LOW_WATER_BYTES`.

        Raises: ChannelClosed.
        """

    def close(self) -> None:
        """Close the channel; queued messages may still be sent."""


class Connection(Protocol):
    """One connection to one peer, with any number of channels."""

    on_candidate: Callable[[Candidate], None]
    """Called with each ICE candidate of ours that is found after the description was made."""
    on_channel: Callable[[Channel], None]
    """Called with each channel that the other end opened."""
    on_state: Callable[[State], None]

    @property
    def state(self) -> State:
        """The current state."""

    def create_channel(self, label: str) -> Channel:
        """Create a channel, before the offer or at any later time.

        Raises: ChannelClosed, NegotiationFailed.
        """

    async def offer(self, *, restart: bool = False) -> str:
        """Return our offer, an SDP with the ICE candidates found so far. `restart`: perform an ICE restart.

        Raises: NegotiationFailed.
        """

    async def answer(self, offer_sdp: str) -> str:
        """Return our answer to an offer.

        Raises: NegotiationFailed.
        """

    async def accept(self, answer_sdp: str) -> None:
        """Apply the answer to our offer.

        Raises: NegotiationFailed.
        """

    async def add_candidate(self, candidate: Candidate) -> None:
        """Add an ICE candidate of the other end; a malformed one is ignored."""

    async def close(self) -> None:
        """Close the connection and all its channels, and call their `on_close`. Further calls do nothing."""


class Engine(Protocol):
    """A WebRTC library, wrapped."""

    name: str

    def connection(self, ice_servers: Sequence[IceServer] = (), *, relay_only: bool = False) -> Connection:
        """Create a connection; `relay_only`: connect through a TURN server or not at all.

        Raises: NegotiationFailed, if the URL of a server is invalid.
        """


def available_engines() -> list[str]:
    """Return the engines whose library is installed, in order of preference."""
    return [name for name in ENGINES if find_spec(_LIBRARIES[name]) is not None]


def load_engine(name: str = "auto") -> Engine:
    """Load the engine of that name; `auto` loads the first that is installed.

    Raises:
        EngineMissing: its library is not installed.
    """
    found = available_engines()
    chosen = next(iter(found), "") if name == "auto" else name
    if chosen not in found:
        what = "a WebRTC library" if name == "auto" else f"the engine {name!r}"
        extra = "peers-aiortc" if name == "aiortc" else "peers"
        raise EngineMissing(
            f"the peers pack needs {what}: install Hubbub with its extra {extra!r} "
            f"(in a clone: pip install -e '.[{extra}]')"
        )
    engine: Engine = import_module(_MODULES[chosen]).ENGINE
    return engine


def check_sdp(sdp: object) -> str:
    """Return a session description that is safe to pass to an engine.

    Raises:
        NegotiationFailed: it is too large, or describes no data channels.
    """
    if not isinstance(sdp, str) or len(sdp) > limits.PEER_DESCRIPTION_BYTES or "\0" in sdp:
        raise NegotiationFailed("the other end sent no session description, or one that is too large")
    if not all(line.search(sdp) for line in _REQUIRED_LINES):
        raise NegotiationFailed("the other end's description has no data channels")
    return sdp


def read_max_message_size(remote_sdp: str) -> int:
    """Return the largest message that both ends accept, given the description of the other end."""
    size_line = _SIZE_LINE.search(remote_sdp)
    if size_line is None:
        return _DEFAULT_MAX_MESSAGE_BYTES
    return min(int(size_line[1]) or limits.PEER_FRAME_BYTES, limits.PEER_FRAME_BYTES)
