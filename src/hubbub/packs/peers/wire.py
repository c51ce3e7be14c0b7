"""What goes over a channel: frames of text, `{"pipe": …}` around data, envelopes in some of them.

Pure. Frames are read as JavaScript reads them and written as it writes them
(`javascript`), because session MACs are made over that text. What a kind of envelope
carries is a struct; fields that nobody here knows are kept in `Envelope.payload`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.packs.peers.failures import WireError
from hubbub.packs.peers.javascript import Unreadable, parse, stringify

MARK: Final = "vdo_mcp_bridge_v1"
CHANNEL: Final = "sendChannel"
"""The channel of text that every end has."""
BULK_CHANNEL: Final = "hubbub-bulk"
"""The channel of bytes that two ends of Hubbub add."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """What an envelope carries."""

    kind: ClassVar[str] = ""


# -- sync ----------------------------------------------------------------------


class Capabilities(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an end can do; the first five are the original's, which ignores the others."""

    sync_v1: bool = False
    file_transfer_v1: bool = False
    state_v1: bool = False
    resume_v1: bool = False
    session_mac_v1: bool = False
    hubbub_v1: bool = False
    """It is Hubbub: it counts its signed messages, and hears everything that is sent."""
    bulk_v1: bool = False
    """It takes bytes on a channel of their own."""


class Hello(Payload, frozen=True, kw_only=True):
    """Who is there."""

    kind = "sync.hello"
    capabilities: Capabilities = Capabilities()
    public_key: str | None = None
    bulk_connections: int = 1
    """How many connections for bytes it would like; Hubbub only."""
    join_token: str | None = None


class HelloAck(Hello, frozen=True, kw_only=True):
    """The answer to it."""

    kind = "sync.hello_ack"


class Heartbeat(Payload, frozen=True, kw_only=True):
    """Still there."""

    kind = "sync.heartbeat"
    room: str = ""
    stream_id: str = ""
    state_digest: str | None = None
    """Of the sender's shared state; Hubbub only. Who has another one asks for a snapshot."""


class Reject(Payload, frozen=True, kw_only=True):
    """Not let in, and why."""

    kind = "sync.reject"
    reason: str = ""


class StrandOffer(Payload, frozen=True, kw_only=True):
    """One more connection for bytes; Hubbub only."""

    kind = "link.offer"
    index: Count
    sdp: str


class StrandAnswer(StrandOffer, frozen=True, kw_only=True):
    """The answer to it."""

    kind = "link.answer"


# -- files ---------------------------------------------------------------------


class FileOffer(Payload, frozen=True, kw_only=True):
    """Sender: a file that is about to come."""

    kind = "file.offer"
    transfer_id: Name
    name: str = ""
    mime: str = ""
    total_bytes: Count
    total_chunks: Count
    chunk_bytes: Count
    file_hash: str = ""


class FileAccept(Payload, frozen=True, kw_only=True):
    """Receiver: go on, from the first missing chunk."""

    kind = "file.accept"
    transfer_id: Name
    next_seq: Count = 0


class FileChunk(Payload, frozen=True, kw_only=True):
    """Sender: one part."""

    kind = "file.chunk"
    transfer_id: Name
    seq: Count
    data_base64: str
    chunk_hash: str = ""


class FileAck(Payload, frozen=True, kw_only=True):
    """Receiver: it is here."""

    kind = "file.ack"
    transfer_id: Name
    seq: Count
    next_seq: Count
    received_bytes: Count = 0


class FileNack(Payload, frozen=True, kw_only=True):
    """Receiver: something is wrong."""

    kind = "file.nack"
    transfer_id: Name
    expected_seq: Count = 0
    reason: str = ""


class FileComplete(Payload, frozen=True, kw_only=True):
    """Sender: that was all."""

    kind = "file.complete"
    transfer_id: Name
    total_bytes: Count
    file_hash: str


class FileCompleteAck(Payload, frozen=True, kw_only=True):
    """Receiver: all is here, and its hash is right."""

    kind = "file.complete_ack"
    transfer_id: Name
    file_hash: str
    total_bytes: Count = 0


class FileResumeReq(Payload, frozen=True, kw_only=True):
    """Sender: how far did we get?"""

    kind = "file.resume_req"
    transfer_id: Name


class FileResumeState(Payload, frozen=True, kw_only=True):
    """Receiver: this far."""

    kind = "file.resume_state"
    transfer_id: Name
    next_seq: Count = 0
    status: str = ""


class FileCancel(Payload, frozen=True, kw_only=True):
    """Either end: let it be."""

    kind = "file.cancel"
    transfer_id: Name
    reason: str = ""


# -- state ---------------------------------------------------------------------


class StatePatch(Payload, frozen=True, kw_only=True):
    """One key, changed."""

    kind = "state.patch"
    key: str
    value: Any = None
    actor: str = ""
    clock: Count
    updated_at: str = ""


class StateSnapshotReq(Payload, frozen=True, kw_only=True):
    """Send me everything."""

    kind = "state.snapshot_req"
    room: str = ""
    requester_stream_id: str = ""


class StateSnapshot(Payload, frozen=True, kw_only=True):
    """Everything. The entries are looked at one by one, so that a bad one spoils no other."""

    kind = "state.snapshot"
    room: str = ""
    stream_id: str = ""
    entries: list[Any] = []
    actor_clock: dict[str, Any] = {}
    generated_at: str = ""


_KINDS: Final[dict[str, type[Payload]]] = {
    struct.kind: struct
    for struct in (
        Hello,
        HelloAck,
        Heartbeat,
        Reject,
        StrandOffer,
        StrandAnswer,
        FileOffer,
        FileAccept,
        FileChunk,
        FileAck,
        FileNack,
        FileComplete,
        FileCompleteAck,
        FileResumeReq,
        FileResumeState,
        FileCancel,
        StatePatch,
        StateSnapshotReq,
        StateSnapshot,
    )
}


# -- envelopes -----------------------------------------------------------------


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the protocol between bridges."""

    kind: str
    ts: int | float
    nonce: str
    room: str
    from_stream_id: str
    payload: dict[str, Any]
    """As it came, for the MAC."""
    mac: str | None = None

    def read(self) -> Payload:
        """The payload as its kind has it.

        Raises:
            WireError: the kind is unknown, or the payload is not of that kind.
        """
        struct = _KINDS.get(self.kind)
        if struct is None:
            raise WireError(f"unknown kind {self.kind[:64]!r}")
        try:
            return msgspec.convert(self.payload, struct)
        except msgspec.ValidationError as error:
            raise WireError(f"{self.kind}: {error}") from error

    @property
    def is_known(self) -> bool:
        """Whether the kind is one of ours."""
        return self.kind in _KINDS

    @property
    def signed_text(self) -> str:
        """What the MAC is made over."""
        return signed_text(self, stringify(self.payload))


def signed_text(envelope: Envelope, payload_text: str) -> str:
    """What the MAC of an envelope is made over, given its payload as text."""
    return (
        f'{{"kind":{stringify(envelope.kind)},"ts":{stringify(envelope.ts)},"nonce":{stringify(envelope.nonce)},'
        f'"room":{stringify(envelope.room)},"from_stream_id":{stringify(envelope.from_stream_id)},'
        f'"payload":{payload_text}}}'
    )


def envelope_frame(signed: str, mac: str | None) -> str:
    """The frame that carries an envelope, given the text that was signed."""
    tail = "" if mac is None else f',"mac":"{mac}"'
    return f'{{"pipe":{{"__vdo_mcp":"{MARK}",{signed[1:-1]}{tail}}}}}'


def read_envelope(data: object) -> Envelope | None:
    """The envelope in a pipe; None if it is anything else.

    Raises:
        WireError: it says that it is one, and is not.
    """
    if not isinstance(data, dict) or data.get("__vdo_mcp") != MARK:
        return None
    try:
        return msgspec.convert(data, Envelope)
    except msgspec.ValidationError as error:
        raise WireError(f"not an envelope: {error}") from error


# -- frames --------------------------------------------------------------------


class Pipe(msgspec.Struct, frozen=True):
    """Data of the application, or an envelope."""

    data: Any


class Control(msgspec.Struct, frozen=True):
    """What ends of a channel tell each other about the connection itself."""

    kind: ControlKind
    fields: dict[str, Any]


ControlKind: TypeAlias = Literal[
    "description", "candidate", "candidates", "media", "info", "ping", "pong", "bye", "muted", "restart", "other"
]
_CONTROLS: Final[tuple[tuple[str, ControlKind], ...]] = (
    # In the order in which the original looks for them.
    ("description", "description"),
    ("candidate", "candidate"),
    ("candidates", "candidates"),
    ("audio", "media"),
    ("video", "media"),
    ("info", "info"),
    ("ping", "ping"),
    ("pong", "pong"),
    ("bye", "bye"),
    ("videoMuted", "muted"),
)


def read_frame(text: str | bytes) -> Pipe | Control:
    """One frame of the channel of text.

    Raises:
        WireError: it is no JSON object, too large or nested too deep.
    """
    if len(text) > bounds.PEER_FRAME_BYTES:
        raise WireError("a frame is too large")
    try:
        fields = parse(text)
    except Unreadable as error:
        raise WireError(f"not a frame: {error}") from error
    if not isinstance(fields, dict):
        raise WireError("a frame must be an object")
    for name, kind in _CONTROLS:
        if name in fields:
            return Control(kind, fields)
    if "pipe" in fields:
        return Pipe(fields["pipe"])
    return Control("restart" if "iceRestartRequest" in fields else "other", fields)


def pipe_frame(data: object) -> str:
    """The frame that carries data of the application.

    Raises:
        Unreadable: it is nothing that JSON knows.
    """
    return f'{{"pipe":{stringify(data)}}}'


SWALLOWED: Final = ("subscribe", "unsubscribe", "channelMessage", "request", "response")


def original_swallows(data: object) -> bool:
    """Whether an end that is not Hubbub would lose this data without a word."""
    if isinstance(data, dict):
        return data.get("type") in SWALLOWED
    return data is None or data is False or data == "" or (isinstance(data, int | float) and not data)
