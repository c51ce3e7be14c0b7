"""Settings of the peers pack."""

import re
from typing import Annotated, Final, Literal

import msgspec

from hubbub import Secret, setting
from hubbub.packs.peers import limits

_ID: Final = re.compile("[A-Za-z0-9]")


class PeersSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from `[packs.peers]`, `HUBBUB_PEERS_…`, `VDON_MCP_…` and the flags of `hubbub serve`."""

    host: Annotated[
        str,
        setting("The signalling server that connects peers (see `hubbub signal`).", form="URL", pattern=r"^wss?://."),
    ] = "ws://127.0.0.1:8765"
    engine: Annotated[
        Literal["auto", "wrtc", "aiortc"],
        setting("The WebRTC library; auto: wrtc, else aiortc.", env="VDON_MCP_ENGINE"),
    ] = "auto"
    ice_servers: Annotated[
        tuple[Annotated[str, msgspec.Meta(pattern=r"^(stun|turn)s?:.")], ...],
        setting("A STUN or TURN server, for peers behind different routers; none by default.", form="stun:HOST:PORT"),
    ] = ()
    turn_username: Annotated[str, setting("The user name at the TURN servers.")] = ""
    turn_credential: Annotated[Secret | None, setting("The password at the TURN servers.")] = None
    files: Annotated[
        tuple[str, ...],
        setting(
            "A folder below which files are read and written. Default: the working directory without hidden files, or "
            "a private folder in the data folder if that is your home, a system folder or not writable.",
            form="FOLDER",
        ),
    ] = ()
    join_token_secret: Annotated[
        Secret | None,
        setting(
            "The secret that join tokens are signed with; the same for all peers.",
            flag="--join-token-secret",
            env="VDON_MCP_JOIN_TOKEN_SECRET",
        ),
    ] = None
    join_token_keyring: Annotated[
        Annotated[str, msgspec.Meta(pattern=r"^[^/]+/.")] | None,
        setting(
            "The entry of the system's keyring that holds this secret, if it is not set here.",
            env="VDON_MCP_JOIN_TOKEN_KEYRING",
            form="SERVICE/NAME",
        ),
    ] = None
    join_token_old_secrets: Annotated[
        tuple[Secret, ...],
        setting("Previous secrets; join tokens signed with them are still accepted.", form="TEXT"),
    ] = ()
    enforce_join_token: Annotated[
        bool,
        setting(
            "Accept nothing from peers without a valid join token.",
            flag="--enforce-join-token",
            env="VDON_MCP_ENFORCE_JOIN_TOKEN",
        ),
    ] = False
    allow_peer_stream_ids: Annotated[
        tuple[str, ...],
        setting(
            "Accept only peers with these stream ids.",
            flag="--allow-peer-stream-ids",
            env="VDON_MCP_ALLOW_PEER_STREAM_IDS",
            form="ID",
        ),
    ] = ()
    require_session_mac: Annotated[
        bool,
        setting(
            "Accept files and state only with a session MAC.",
            flag="--require-session-mac",
            env="VDON_MCP_REQUIRE_SESSION_MAC",
        ),
    ] = False
    max_peers: Annotated[int, setting("Maximum number of peers of one session.", ge=1, le=1000)] = limits.PEERS_PER_ROOM
    max_sessions: Annotated[int, setting("Maximum number of sessions.", ge=1, le=1000)] = limits.PEER_SESSIONS
    session_idle_s: Annotated[float, setting("How long a session may be unused before it is closed.", gt=0)] = (
        limits.PEER_SESSION_IDLE_S
    )
    bulk_connections: Annotated[
        int, setting("Connections to each peer for files; more than one helps on paths with packet loss.", ge=1, le=4)
    ] = 1

    def __post_init__(self) -> None:
        secret = self.join_token_secret.reveal().strip() if self.join_token_secret else ""
        if self.join_token_secret is not None and not secret:
            raise ValueError("join_token_secret is empty: set a secret, or leave it out")
        if self.enforce_join_token and not secret and self.join_token_keyring is None:
            raise ValueError(
                "enforce_join_token needs a secret to verify tokens with; set --join-token-secret, "
                "VDON_MCP_JOIN_TOKEN_SECRET, VDON_MCP_JOIN_TOKEN_SECRET_FILE or VDON_MCP_JOIN_TOKEN_KEYRING"
            )
        # An empty list allows every peer, so a list without any valid id must not become empty.
        if self.allow_peer_stream_ids and not any(map(_ID.search, self.allow_peer_stream_ids)):
            raise ValueError("allow_peer_stream_ids contains no valid stream id; use letters, digits and _")
