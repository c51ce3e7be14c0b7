"""What the pack needs of WebRTC, and nothing more: connections with data channels.

Two libraries can do it, each wrapped by one module and loaded when the first connection
is made: `engine_wrtc` (fast, from wheels) and `engine_aiortc` (pure Python). Everything
here happens on the loop's thread; callbacks are plain functions, called in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.packs.peers.failures import EngineMissing

State: TypeAlias = Literal["new", "connecting", "connected", "disconnected", "failed", "closed"]
"""Of a connection, as browsers name them."""

ENGINES: Final = ("wrtc", "aiortc")
"""By preference."""
_MODULES: Final = {"wrtc": "hubbub.packs.peers.engine_wrtc", "aiortc": "hubbub.packs.peers.engine_aiortc"}
_LIBRARIES: Final = {"wrtc": "webrtc", "aiortc": "aiortc"}


class IceServer(msgspec.Struct, frozen=True):
    """A STUN or TURN server: `stun:host:3478`, `turn:host:3478?transport=tcp`."""

    url: str
    username: str = ""
    credential: str = ""


class Candidate(msgspec.Struct, frozen=True):
    """One address at which an end may be reached."""

    candidate: str
    mid: str = "0"
    line: int = 0


class Channel(Protocol):
    """One ordered, reliable channel. Open when it is handed out by `on_channel`; else see `opened`."""

    label: str
    on_message: Callable[[bytes | str], None]
    """In order, never dropped. What arrives before it is set waits."""
    on_close: Callable[[], None]
    """Once, whoever closed it."""

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""

    @property
    def max_message_size(self) -> int:
        """The largest message that both ends take."""

    @property
    def buffered_amount(self) -> int:
        """Bytes that wait to be sent."""

    async def opened(self) -> None:
        """Wait until it is open. Deadlines are the caller's.

        Raises: ChannelClosed.
        """

    def send(self, data: bytes | str) -> None:
        """Queue one message.

        Raises: FrameTooLarge, ChannelClosed, QueueFull (more than `bounds.PEER_QUEUE_BYTES` wait already).
        """

    async def drain(self, low: int = bounds.PEER_LOW_WATER_BYTES) -> None:
        """Wait until no more than `low` bytes wait to be sent.

        Raises: ChannelClosed.
        """

    def close(self) -> None:
        """Close it; what was queued may still be sent."""


class Connection(Protocol):
    """One connection to one other end, with any number of channels."""

    on_candidate: Callable[[Candidate], None]
    """Addresses of ours that were found after the description was made."""
    on_channel: Callable[[Channel], None]
    """A channel that the other end made; it is open."""
    on_state: Callable[[State], None]

    @property
    def state(self) -> State:
        """How it is now."""

    def create_channel(self, label: str) -> Channel:
        """Make a channel; before the offer, or at any time later.

        Raises: ChannelClosed, NegotiationFailed.
        """

    async def offer(self, *, restart: bool = False) -> str:
        """Our offer, an SDP with the addresses found until then. `restart`: look for a new way.

        Raises: NegotiationFailed.
        """

    async def answer(self, offer_sdp: str) -> str:
        """Our answer to an offer.

        Raises: NegotiationFailed.
        """

    async def accept(self, answer_sdp: str) -> None:
        """Take the answer to our offer.

        Raises: NegotiationFailed.
        """

    async def add_candidate(self, candidate: Candidate) -> None:
        """Take one more address of the other end; one that cannot be read is ignored."""

    async def close(self) -> None:
        """Close it with all its channels; whose `on_close` is called. Does nothing the second time."""


class Engine(Protocol):
    """A WebRTC library."""

    name: str

    def connection(self, ice_servers: Sequence[IceServer] = (), *, relay_only: bool = False) -> Connection:
        """A new connection; `relay_only`: through a TURN server or not at all.

        Raises: NegotiationFailed, if a server's address cannot be read.
        """


def available_engines() -> list[str]:
    """The engines whose library is installed, by preference."""
    return [name for name in ENGINES if find_spec(_LIBRARIES[name]) is not None]


def load_engine(name: str = "auto") -> Engine:
    """The engine of that name; `auto`: the first that is installed.

    Raises:
        EngineMissing: its library is not installed.
    """
    found = available_engines()
    chosen = next(iter(found), "") if name == "auto" else name
    if chosen not in found:
        what = "a WebRTC library" if name == "auto" else f"the engine {name!r}"
        raise EngineMissing(
            f"peers need {what}: pip install 'hubbub[{'peers-aiortc' if name == 'aiortc' else 'peers'}]'"
        )
    engine: Engine = import_module(_MODULES[chosen]).ENGINE
    return engine
