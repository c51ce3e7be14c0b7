"""Options of one session: the arguments of `vdo_connect`, with the settings as defaults.

The tables here are the contract's: names, defaults and largest values. The tool's schema is built from them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from hubbub import ArgumentsInvalid, ToolError
from hubbub.packs.peers import limits, tokens
from hubbub.packs.peers.arguments import Arguments
from hubbub.packs.peers.contract_tool import boolean, integer, string
from hubbub.packs.peers.engine import IceServer
from hubbub.packs.peers.files.options import FileOptions
from hubbub.packs.peers.names import make_id, sanitize
from hubbub.packs.peers.room import RoomOptions
from hubbub.packs.peers.session_security import read_security
from hubbub.packs.peers.settings import PeersSettings
from hubbub.packs.peers.signalling import redact_host

_INTEGER_OPTIONS: Final = {
    # name: (description, default, largest, smallest)
    "heartbeat_ms": ("Time between heartbeats to peers.", 15_000, 120_000, 1),
    "reconnect_ms": ("First delay before reconnecting to the signalling server.", 3000, 30_000, 1),
    "max_reconnect_ms": ("Longest delay before reconnecting.", 30_000, 120_000, 1),
    "join_token_ttl_ms": ("How long a join token that this session creates is valid.", 600_000, 86_400_000, 1),
    "file_chunk_bytes": (
        "Size of the chunks that files are sent in.",
        limits.FILE_CHUNK_BYTES,
        limits.FILE_CHUNK_MAX_BYTES,
        1,
    ),
    "file_max_bytes": ("The largest file to send or receive.", limits.FILE_MAX_BYTES, limits.FILE_MAX_BYTES_CAP, 1),
    "file_ack_timeout_ms": (
        "How long to wait for the acknowledgement of a chunk.",
        1200,
        limits.FILE_ACK_TIMEOUT_MS,
        1,
    ),
    "file_max_retries": ("How often a chunk is retried.", 6, limits.FILE_RETRIES, 0),
    "file_spool_threshold_bytes": ("Received files of this size or more are kept on disk.", 4_194_304, 536_870_912, 1),
    "state_max_keys": ("Maximum number of keys in the shared state.", limits.STATE_KEYS, limits.STATE_KEYS_CAP, 1),
    "state_max_snapshot_entries": (
        "Maximum number of entries in one message of a snapshot.",
        limits.STATE_SNAPSHOT_ENTRIES,
        limits.STATE_SNAPSHOT_ENTRIES_CAP,
        1,
    ),
}

CONNECT_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "room": string("The room to join; its members connect to each other."),
    "stream_id": string("The name of this session in the room; generated if left out."),
    "target_stream_id": string("Connect to this peer only, and wait for it; to all peers if left out."),
    "host": string("The signalling server, ws:// or wss://; from the settings if left out."),
    "password": {
        "type": ["string", "boolean"],
        "description": "Encrypts names and addresses; the same for all members. false: no encryption.",
    },
    "force_turn": boolean("Connect through TURN servers only.", False),
    "label": string("The label that VDO.Ninja bridges show for this session.", default="mcp_bridge"),
    "debug": boolean("Log the types of events.", False),
    "join_token": string("The join token to send to peers; created with the secret if left out."),
    "join_token_secret": string("The secret that signs and verifies join tokens; from the settings if left out."),
    "enforce_join_token": boolean("Accept nothing from peers without a valid join token.", False),
    "allow_peer_stream_ids": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Stream ids of the only peers to accept data from; empty for every peer.",
    },
    "require_session_mac": boolean("Accept files and state only if they are signed.", False),
    "file_spool_dir": string("Folder for received files; a private temporary folder if left out."),
    "keep_spool_files": boolean("Keep received files in it when the session ends.", False),
    **{name: integer(*rest) for name, rest in _INTEGER_OPTIONS.items()},
}


def connect_fields(settings: PeersSettings) -> dict[str, dict[str, Any]]:
    """Return the schema of the arguments of `vdo_connect`, with the operator's security settings as defaults.

    Clients that fill in defaults would otherwise ask for less than the operator demands.
    """
    fields = dict(CONNECT_FIELDS)
    for name in ("enforce_join_token", "require_session_mac"):
        if getattr(settings, name):
            fields[name] = {**fields[name], "default": True, "enum": [True]}
    allowed = list(filter(None, map(sanitize, settings.allow_peer_stream_ids)))
    if allowed:
        fields["allow_peer_stream_ids"] = {
            "type": "array",
            "items": {"type": "string", "enum": allowed},
            "minItems": 1,
            "description": "Stream ids of the only peers to accept data from.",
            "default": allowed,
        }
    return fields


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    room: RoomOptions
    files: FileOptions = msgspec.field(default_factory=FileOptions)
    state_max_keys: int = msgspec.field(default_factory=lambda: limits.STATE_KEYS)
    state_max_snapshot_entries: int = msgspec.field(default_factory=lambda: limits.STATE_SNAPSHOT_ENTRIES)
    has_files: bool = True
    """Whether files are accepted; False if no tool could read them."""
    has_state: bool = True
    is_debugging: bool = False

    def effective_config(self) -> dict[str, Any]:
        """Return the options as `effective_config`, without secrets and passwords."""
        room, files = self.room, self.files
        config = {
            "host": redact_host(room.host),
            "room": room.room,
            "stream_id": room.stream_id,
            "target_stream_id": room.target_stream_id,
            "force_turn": room.force_turn,
            "heartbeat_ms": round(room.heartbeat_s * 1000),
            "reconnect_ms": round(room.reconnect_s * 1000),
            "max_reconnect_ms": round(room.max_reconnect_s * 1000),
            "enforce_join_token": room.enforce_join_token,
            "allow_peer_stream_ids": list(room.allow_peer_stream_ids),
            "require_session_mac": room.require_session_mac,
            "file_chunk_bytes": files.chunk_bytes,
            "file_max_bytes": files.max_bytes,
            "file_ack_timeout_ms": round(files.ack_timeout_s * 1000),
            "file_max_retries": files.max_retries,
            "file_spool_threshold_bytes": files.spool_threshold_bytes,
            "keep_spool_files": files.keep_spool_files,
            "state_max_keys": self.state_max_keys,
            "state_max_snapshot_entries": self.state_max_snapshot_entries,
        }
        return config if files.spool_dir is None else {**config, "file_spool_dir": files.spool_dir}


def read_options(
    arguments: Arguments,
    settings: PeersSettings,
    secrets: Sequence[str] = (),
    *,
    has_files: bool = True,
    has_state: bool = True,
) -> SessionOptions:
    """Combine the arguments of a caller with the settings.

    Raises: ArgumentsInvalid, ToolError.
    """
    numbers = {
        name: arguments.count(name, default_value, maximum, minimum=minimum)
        for name, (_, default_value, maximum, minimum) in _INTEGER_OPTIONS.items()
    }
    capability_flags = {"file_transfer_v1": has_files, "resume_v1": has_files, "state_v1": has_state}
    room = _read_room(arguments, settings, numbers, secrets)
    return SessionOptions(
        room=replace(room, capabilities=frozenset(name for name, is_enabled in capability_flags.items() if is_enabled)),
        files=_read_files(arguments, settings, numbers),
        state_max_keys=numbers["state_max_keys"],
        state_max_snapshot_entries=numbers["state_max_snapshot_entries"],
        has_files=has_files,
        has_state=has_state,
        is_debugging=arguments.flag("debug", False),
    )


def _read_room(
    arguments: Arguments, settings: PeersSettings, numbers: dict[str, int], secrets: Sequence[str]
) -> RoomOptions:
    room, stream_id = _read_name(arguments, "room"), _read_name(arguments, "stream_id") or make_id("mcp_bridge")
    if room is None:
        raise ArgumentsInvalid("room is required")
    target = _read_name(arguments, "target_stream_id")
    security = read_security(arguments, settings, secrets)
    force_turn = arguments.flag("force_turn", False)
    if force_turn and not any(url.startswith("turn") for url in settings.ice_servers):
        raise ToolError(
            "force_turn needs a TURN server, but none is configured; "
            "set HUBBUB_PEERS_ICE_SERVERS to one, such as turn:HOST:PORT"
        )
    return RoomOptions(
        room=room,
        stream_id=stream_id,
        target_stream_id=None if target == stream_id else target,
        host=_check_host(arguments.text("host") or settings.host),
        password=_read_password(arguments["password"]),
        label=(arguments.text("label") or "mcp_bridge")[: limits.PEER_LABEL_CHARACTERS],
        engine=settings.engine,
        ice_servers=_ice_servers(settings),
        force_turn=force_turn,
        heartbeat_s=numbers["heartbeat_ms"] / 1000,
        reconnect_s=numbers["reconnect_ms"] / 1000,
        max_reconnect_s=max(numbers["max_reconnect_ms"], numbers["reconnect_ms"]) / 1000,
        join_token=_read_join_token(arguments, security.secrets, room, stream_id),
        join_token_secrets=security.secrets,
        join_token_ttl_s=numbers["join_token_ttl_ms"] / 1000,
        enforce_join_token=security.enforce_join_token,
        allow_peer_stream_ids=security.allow_peer_stream_ids,
        require_session_mac=security.require_session_mac,
        max_peers=settings.max_peers,
        bulk_connections=settings.bulk_connections,
    )


def _read_files(arguments: Arguments, settings: PeersSettings, numbers: dict[str, int]) -> FileOptions:
    return FileOptions(
        chunk_bytes=max(numbers["file_chunk_bytes"], limits.FILE_CHUNK_MIN_BYTES),
        max_bytes=numbers["file_max_bytes"],
        ack_timeout_s=numbers["file_ack_timeout_ms"] / 1000,
        max_retries=numbers["file_max_retries"],
        spool_dir=arguments.text("file_spool_dir") or None,
        spool_threshold_bytes=numbers["file_spool_threshold_bytes"],
        keep_spool_files=arguments.flag("keep_spool_files", False),
        folders=settings.files,
    )


def _read_name(arguments: Arguments, field: str) -> str | None:
    name = arguments.identifier(field)
    if name is not None and len(name) > limits.SIGNAL_NAME_CHARACTERS:
        raise ArgumentsInvalid(f"invalid {field}: it must have at most {limits.SIGNAL_NAME_CHARACTERS} characters")
    return name


def _check_host(host: str) -> str:
    if not host.startswith(("ws://", "wss://")):
        raise ArgumentsInvalid(f"invalid host {redact_host(host)[:200]!r}: it must begin with ws:// or wss://")
    return host


def _read_password(value: Any) -> str | Literal[False] | None:
    if value is None or value is True or value in ("true", ""):
        return None
    if value is False or value == "false":
        return False
    if not isinstance(value, str):
        raise ToolError("password must be a string or boolean")
    return value


def _read_join_token(arguments: Arguments, secrets: Sequence[str], room: str, stream_id: str) -> str | None:
    """Return the token to send, verified if we can: peers would report only that it was refused."""
    token = arguments.text("join_token") or None
    if token is not None and len(token) > limits.JOIN_TOKEN_BYTES:
        raise ArgumentsInvalid(f"invalid join_token: it must have at most {limits.JOIN_TOKEN_BYTES} characters")
    if token is None or not secrets:
        return token
    try:
        tokens.check(token, secrets, room, stream_id, time.time() * 1000)
    except tokens.TokenMismatch as reason:
        raise ToolError(reason.message.replace("join token", "join_token")) from reason
    except tokens.TokenRefused as reason:
        raise ArgumentsInvalid(f"invalid join_token: {reason.message}") from reason
    return token


def _ice_servers(settings: PeersSettings) -> tuple[IceServer, ...]:
    credential = "" if settings.turn_credential is None else settings.turn_credential.reveal()
    return tuple(
        IceServer(url, settings.turn_username, credential) if url.startswith("turn") else IceServer(url)
        for url in settings.ice_servers
    )
