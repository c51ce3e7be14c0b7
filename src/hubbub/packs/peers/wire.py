"""Messages on a channel: text frames, `{"pipe": …}` around data, and envelopes in some of them. Pure.

Frames are read and written as JavaScript does (`js_json`), because session MACs are computed over that text. The
payload of each kind of envelope is a struct; unknown fields are kept in `Envelope.payload`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

import msgspec

from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import WireError
from hubbub.packs.peers.js_json import JsonError, convert, parse, stringify

ENVELOPE_MARK: Final = "vdo_mcp_bridge_v1"
KEEP_ALIVE: Final = "bridge.keepalive"
"""The `type` of keep-alive data from VDO.Ninja bridges."""
TEXT_CHANNEL: Final = "sendChannel"
"""The text channel, which every peer has."""
BULK_CHANNEL: Final = "hubbub-bulk"
"""The bulk channel, which two Hubbubs add."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
TransferId: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.FILE_ID_CHARACTERS)]


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of an envelope."""

    kind: ClassVar[str] = ""


# -- sync ----------------------------------------------------------------------


class Capabilities(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a peer supports; the first five are the VDO.Ninja bridge's, which ignores the others."""

    sync_v1: bool = False
    file_transfer_v1: bool = False
    state_v1: bool = False
    resume_v1: bool = False
    session_mac_v1: bool = False
    hubbub_v1: bool = False
    """It is Hubbub: it counts its signed messages, and loses no data that is sent to it."""
    bulk_v1: bool = False
    """It accepts bytes on a bulk channel."""


class Hello(Payload, frozen=True, kw_only=True):
    """Identity and capabilities of a peer."""

    kind = "sync.hello"
    capabilities: Capabilities = Capabilities()
    public_key: str | None = None
    bulk_connections: int = 1
    """How many connections for bytes it wants; Hubbub only."""
    join_token: str | None = None


class HelloAck(Hello, frozen=True, kw_only=True):
    """The reply to a hello."""

    kind = "sync.hello_ack"


class Heartbeat(Payload, frozen=True, kw_only=True):
    """A periodic sign of life."""

    kind = "sync.heartbeat"
    room: str = ""
    stream_id: str = ""
    state_digest: str | None = None
    """Digest of the sender's shared state; Hubbub only. A peer with another digest requests a snapshot."""


class Reject(Payload, frozen=True, kw_only=True):
    """The peer is rejected, with a reason."""

    kind = "sync.reject"
    reason: str = ""


class BulkConnectionOffer(Payload, frozen=True, kw_only=True):
    """Offer of an additional connection for bytes; Hubbub only."""

    kind = "link.offer"
    index: Count
    sdp: str


class BulkConnectionAnswer(BulkConnectionOffer, frozen=True, kw_only=True):
    """The answer to such an offer."""

    kind = "link.answer"


# -- files ---------------------------------------------------------------------


class FileOffer(Payload, frozen=True, kw_only=True):
    """Sender: offers a file."""

    kind = "file.offer"
    transfer_id: TransferId
    name: str = ""
    mime: str = ""
    total_bytes: Count
    total_chunks: Count
    chunk_bytes: Count
    file_hash: str = ""


class FileAccept(Payload, frozen=True, kw_only=True):
    """Receiver: accepts the file from the first missing chunk on."""

    kind = "file.accept"
    transfer_id: TransferId
    next_seq: Count = 0


class FileChunk(Payload, frozen=True, kw_only=True):
    """Sender: one chunk."""

    kind = "file.chunk"
    transfer_id: TransferId
    seq: Count
    data_base64: str
    chunk_hash: str = ""


class FileAck(Payload, frozen=True, kw_only=True):
    """Receiver: acknowledges a chunk."""

    kind = "file.ack"
    transfer_id: TransferId
    seq: Count
    next_seq: Count
    received_bytes: Count = 0


class FileNack(Payload, frozen=True, kw_only=True):
    """Receiver: reports a problem."""

    kind = "file.nack"
    transfer_id: TransferId
    expected_seq: Count = 0
    reason: str = ""


class FileComplete(Payload, frozen=True, kw_only=True):
    """Sender: all chunks were sent."""

    kind = "file.complete"
    transfer_id: TransferId
    total_bytes: Count
    file_hash: str


class FileCompleteAck(Payload, frozen=True, kw_only=True):
    """Receiver: the file is complete and its hash is correct."""

    kind = "file.complete_ack"
    transfer_id: TransferId
    file_hash: str
    total_bytes: Count = 0


class FileResumeReq(Payload, frozen=True, kw_only=True):
    """Sender: requests the receiver's state."""

    kind = "file.resume_req"
    transfer_id: TransferId


class FileResumeState(Payload, frozen=True, kw_only=True):
    """Receiver: its state."""

    kind = "file.resume_state"
    transfer_id: TransferId
    next_seq: Count = 0
    status: str = ""


class FileCancel(Payload, frozen=True, kw_only=True):
    """Either end: cancels the transfer."""

    kind = "file.cancel"
    transfer_id: TransferId
    reason: str = ""


# -- state ---------------------------------------------------------------------


class StatePatch(Payload, frozen=True, kw_only=True):
    """A change of one key."""

    kind = "state.patch"
    key: str
    value: Any = None
    actor: str = ""
    clock: Count
    updated_at: str = ""


class StateSnapshotReq(Payload, frozen=True, kw_only=True):
    """Requests a snapshot."""

    kind = "state.snapshot_req"
    room: str = ""
    requester_stream_id: str = ""


class StateSnapshot(Payload, frozen=True, kw_only=True):
    """A snapshot. The entries are validated one by one, so that a malformed one does not affect the others."""

    kind = "state.snapshot"
    room: str = ""
    stream_id: str = ""
    entries: list[Any] = []
    actor_clock: dict[str, Any] = {}
    generated_at: str = ""


PAYLOAD_TYPES: Final[dict[str, type[Payload]]] = {
    struct.kind: struct
    for struct in (
        Hello,
        HelloAck,
        Heartbeat,
        Reject,
        BulkConnectionOffer,
        BulkConnectionAnswer,
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
    """One message of the bridge protocol."""

    kind: str
    ts: int | float
    nonce: str
    room: str
    from_stream_id: str
    payload: dict[str, Any]
    """As it arrived, for the MAC."""
    mac: str | None = None

    def read_payload(self) -> Payload:
        """Convert the payload to the struct of its kind.

        Raises:
            WireError: the kind is unknown, or the payload is not of that kind.
        """
        struct = PAYLOAD_TYPES.get(self.kind)
        if struct is None:
            raise WireError(f"unknown kind {self.kind[:64]!r}")
        try:
            # The VDO.Ninja bridge writes null for omitted fields, such as the name of a file.
            fields = {name: value for name, value in self.payload.items() if value is not None}
            payload: Payload = convert(fields, struct)
            return payload
        except JsonError as error:
            raise WireError(f"{self.kind}: {error}") from error

    @property
    def is_known(self) -> bool:
        """Whether the kind is a known one."""
        return self.kind in PAYLOAD_TYPES

    @property
    def signed_text(self) -> str:
        """The text that the MAC is computed over."""
        return signed_text(self, stringify(self.payload))


def signed_text(envelope: Envelope, payload_text: str) -> str:
    """Return the text that the MAC of an envelope is computed over, given its payload as text."""
    return (
        f'{{"kind":{stringify(envelope.kind)},"ts":{stringify(envelope.ts)},"nonce":{stringify(envelope.nonce)},'
        f'"room":{stringify(envelope.room)},"from_stream_id":{stringify(envelope.from_stream_id)},'
        f'"payload":{payload_text}}}'
    )


def envelope_frame(signed: str, mac: str | None) -> str:
    """Return the frame of an envelope, given the signed text."""
    tail = "" if mac is None else f',"mac":"{mac}"'
    return f'{{"pipe":{{"__vdo_mcp":"{ENVELOPE_MARK}",{signed[1:-1]}{tail}}}}}'


def read_envelope(data: object) -> Envelope | None:
    """Parse the envelope in a pipe; return None if the data is not an envelope.

    Raises:
        WireError: it is marked as an envelope but malformed.
    """
    if not isinstance(data, dict) or data.get("__vdo_mcp") != ENVELOPE_MARK:
        return None
    try:
        envelope: Envelope = convert(data, Envelope)
        return envelope
    except JsonError as error:
        raise WireError(f"not an envelope: {error}") from error


# -- frames --------------------------------------------------------------------


class Pipe(msgspec.Struct, frozen=True):
    """Application data, or an envelope."""

    data: Any


class Control(msgspec.Struct, frozen=True):
    """A message about the connection itself."""

    kind: ControlKind
    fields: dict[str, Any]


ControlKind: TypeAlias = Literal[
    "description", "candidate", "candidates", "media", "info", "ping", "pong", "bye", "muted", "restart", "other"
]
_CONTROL_FIELDS: Final[tuple[tuple[str, ControlKind], ...]] = (
    # In the order in which the VDO.Ninja bridge looks for them.
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
    """Parse one frame of the text channel.

    Raises:
        WireError: it is not a JSON object, too large or nested too deep.
    """
    if len(text) > limits.PEER_FRAME_BYTES:
        raise WireError("a frame is too large")
    try:
        fields = parse(text)
    except JsonError as error:
        raise WireError(f"not a frame: {error}") from error
    if not isinstance(fields, dict):
        raise WireError("a frame must be an object")
    for name, kind in _CONTROL_FIELDS:
        if name in fields:
            return Control(kind, fields)
    if "pipe" in fields:
        return Pipe(fields["pipe"])
    return Control("restart" if "iceRestartRequest" in fields else "other", fields)


def pipe_frame(data: object) -> str:
    """Return the frame of application data.

    Raises:
        JsonError: JSON cannot represent it.
    """
    return f'{{"pipe":{stringify(data)}}}'


VDO_BRIDGE_DROPPED_TYPES: Final = ("subscribe", "unsubscribe", "channelMessage", "request", "response")


def vdo_bridge_drops(data: object) -> bool:
    """Return whether a VDO.Ninja bridge would silently lose this data."""
    if isinstance(data, dict):
        return data.get("type") in VDO_BRIDGE_DROPPED_TYPES
    return data is None or data is False or data == "" or (isinstance(data, int | float) and not data)
