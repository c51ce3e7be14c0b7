"""Settings of `hubbub serve`. The descriptions of the fields are used in help texts and documentation."""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.settings.fields import setting

LAST_PORT: Final = 65535
HostAndPort: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^.*:[0-9]{1,5}$")]


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one server process runs."""

    target: Annotated[
        str | None,
        setting(
            "What to serve: file.py, module:server, or nothing: then the servers in hubbub.toml and --mcp-json, "
            "or without any of these every pack that can run.",
            flag="TARGET",
            names_file=True,
        ),
    ] = None
    transport: Annotated[Literal["http", "stdio"], setting("How clients reach the server.", flag="--transport")] = (
        "http"
    )
    host: Annotated[str, setting("Address to listen on.", flag="--host", form="HOST", min_length=1)] = "127.0.0.1"
    port: Annotated[int, setting("Port to listen on; 0 takes a free one.", flag="--port", ge=0, le=LAST_PORT)] = 3000
    http_addr: Annotated[
        HostAndPort | None, setting("Both in one; wins over the two.", flag="--http-addr", form="HOST:PORT")
    ] = None
    packs: Annotated[tuple[str, ...], setting("A pack to serve; may be repeated.", flag="--pack", form="NAME")] = (
        msgspec.field(default=(), name="pack")
    )
    tool_profile: Annotated[
        str | None,
        setting(
            "Show only the tools of this profile, in packs that have profiles.",
            flag="--tool-profile",
            form="NAME",
            ignores_case=True,
        ),
    ] = None
    response: Annotated[Literal["auto", "json", "sse"], setting("How HTTP answers are sent.", flag="--response")] = (
        "auto"
    )
    config: Annotated[
        str | None,
        setting(
            "The settings file. Default: hubbub.toml in this folder, if it is trusted (see `hubbub trust`).",
            flag="--config",
            form="FILE",
            in_file=False,
        ),
    ] = None
    mcp_json: Annotated[
        str | None,
        setting(
            "A client's mcp.json whose servers are served too, behind this one endpoint.",
            flag="--mcp-json",
            form="FILE",
            names_file=True,
        ),
    ] = None
    view: Annotated[
        str | None,
        setting(
            "The view of the hub that a client on stdio sees; otherwise everything.",
            flag="--view",
            form="NAME",
            harmless=True,
        ),
    ] = None
    alone: Annotated[
        bool,
        setting("Serve only what is named here, not the servers in hubbub.toml.", flag="--alone", switch=True),
    ] = False
    insecure: Annotated[
        bool, setting("Allow an address that others can reach without authentication.", flag="--insecure", switch=True)
    ] = False
    allowed_hosts: Annotated[
        tuple[str, ...],
        setting("A name under which this server is reached, beside localhost.", flag="--allowed-host", form="HOST"),
    ] = ()
    allowed_origins: Annotated[
        tuple[str, ...],
        setting("An origin whose pages may call, beside those of this machine.", flag="--allowed-origin", form="URL"),
    ] = ()
    proxied_by: Annotated[
        tuple[str, ...],
        setting(
            "A proxy that is believed about who calls and by https (X-Forwarded-For, X-Forwarded-Proto).",
            flag="--proxied-by",
            form="ADDRESS",
        ),
    ] = ()
    key_file: Annotated[
        str | None,
        setting("API keys of those who may call (see `hubbub key`).", flag="--key-file", form="FILE", names_file=True),
    ] = None
    jwt_keys: Annotated[
        str | None,
        setting(
            "Public keys of accepted tokens: a PEM, JWK or JWKS file, or the address of a JWKS.",
            flag="--jwt-keys",
            form="FILE|URL",
            names_file=True,
        ),
    ] = None
    jwt_issuer: Annotated[str, setting("Who must have issued a token.", flag="--jwt-issuer", form="URL")] = ""
    jwt_audience: Annotated[
        tuple[str, ...], setting("For whom a token must have been issued.", flag="--jwt-audience", form="NAME")
    ] = ()
    limits: Annotated[
        tuple[str, ...],
        setting(
            "How often one caller may call: mcp=100/minute; or off. Unless set, off on loopback, and elsewhere "
            "mcp=100/minute, health=1000/minute and, for every other path, other=1000/minute.",
            flag="--limit",
            form="ROUTE=N/UNIT",
        ),
    ] = ()
    max_sessions: Annotated[int, setting("Legacy sessions kept at once.", flag="--max-sessions", ge=1)] = (
        bounds.SESSIONS
    )
    session_idle_s: Annotated[
        float, setting("How long an unused legacy session is kept.", flag="--session-idle-s", gt=0)
    ] = bounds.SESSION_IDLE_S
    max_streams: Annotated[int, setting("Streams held open at once.", flag="--max-streams", ge=1)] = bounds.STREAMS
    drain_s: Annotated[
        float, setting("How long running calls may go on when the server stops.", flag="--drain-s", ge=0)
    ] = bounds.DRAIN_S
    max_connections: Annotated[
        int, setting("Connections open at once, shared among addresses; more get 503.", flag="--max-connections", ge=1)
    ] = bounds.CONNECTIONS
    max_head_bytes: Annotated[
        int, setting("Request line and headers of one request; more get 431.", flag="--max-head-bytes", ge=1024)
    ] = bounds.REQUEST_HEAD_BYTES
    head_s: Annotated[
        float, setting("How long the head of a request may take to arrive; then 408.", flag="--head-s", gt=0)
    ] = bounds.REQUEST_HEAD_S
    body_s: Annotated[
        float,
        setting(
            "How long a body or a WebSocket message may take; then the connection is closed.", flag="--body-s", gt=0
        ),
    ] = bounds.BODY_S
    slow_reader_s: Annotated[
        float, setting("How long a caller may read nothing before it is cut off.", flag="--slow-reader-s", gt=0)
    ] = bounds.SLOW_READER_S
    max_queue_bytes: Annotated[
        int,
        setting(
            "Bytes that wait for one client on /mcp-ws or /sse before it is cut off.", flag="--max-queue-bytes", ge=1024
        ),
    ] = bounds.OUTBOX_BYTES
    max_stored_events: Annotated[
        int, setting("Events kept for callers that come back, of all streams.", flag="--max-stored-events", ge=1)
    ] = bounds.STORED_EVENTS_IN_ALL
    max_stored_bytes: Annotated[int, setting("Bytes of these events.", flag="--max-stored-bytes", ge=1024)] = (
        bounds.STORED_BYTES_IN_ALL
    )
    sealing_key_file: Annotated[
        str | None,
        setting(
            "The key that seals cursors and request states, 64 hex digits; otherwise one is kept in the data folder.",
            flag="--sealing-key-file",
            form="FILE",
            names_file=True,
        ),
    ] = None
    max_message_bytes: Annotated[
        Annotated[int, msgspec.Meta(ge=1024)] | None,
        setting(
            "The largest message accepted, in bytes. Default: 4194304, or the limit of the only pack's contract.",
            flag="--max-message-bytes",
        ),
    ] = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], setting("What goes to stderr.", flag="--log-level")
    ] = "warning"
    log_format: Annotated[
        Literal["auto", "json", "text"],
        setting("One JSON object a line, or lines for people; auto: text on a terminal.", flag="--log-format"),
    ] = "auto"
    tool_names: Annotated[
        Literal["exact", "safe"],
        setting(
            "List tool names as declared, or in letters that every model provider takes.",
            flag="--tool-names",
            harmless=True,
        ),
    ] = "exact"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        if self.http_addr is None:
            return self.host, self.port
        host, _, port = self.http_addr.rpartition(":")
        return host.strip("[]") or self.host, int(port)

    @property
    def useless_on_stdio(self) -> tuple[str, ...]:
        """The flags of settings that were given to restrict access, which has no effect on stdio."""
        asked = {"--key-file": self.key_file, "--jwt-keys": self.jwt_keys, "--limit": self.limits}
        return tuple(flag for flag, value in asked.items() if value)

    def __post_init__(self) -> None:
        if self.address[1] > LAST_PORT:
            raise ValueError(f"http_addr must have a port <= {LAST_PORT}, not {self.address[1]}")
