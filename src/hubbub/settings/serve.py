"""Settings of `hubbub serve`. The descriptions of the fields are used in help texts and documentation."""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.settings.fields import setting

MAX_PORT: Final = 65535
SocketMode: TypeAlias = Annotated[
    str,
    msgspec.Meta(pattern=r"^0?[0-7]{3}$", extra={"expected": "an octal number from 000 to 777, such as 660"}),
]
HostAndPort: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^.*:[0-9]{1,5}$")]


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one server process runs."""

    target: Annotated[
        str | None,
        setting(
            "What to serve: file.py or module:server. Default: the servers in hubbub.toml and --mcp-json; "
            "if there are none, every pack that can run.",
            flag="TARGET",
            names_file=True,
        ),
    ] = None
    transport: Annotated[Literal["http", "stdio"], setting("The transport to serve.", flag="--transport")] = "http"
    host: Annotated[str, setting("Address to listen on.", flag="--host", form="HOST", min_length=1)] = "127.0.0.1"
    port: Annotated[int, setting("Port to listen on; 0 takes a free one.", flag="--port", ge=0, le=MAX_PORT)] = 3000
    http_addr: Annotated[
        HostAndPort | None, setting("Host and port in one; overrides both.", flag="--http-addr", form="HOST:PORT")
    ] = None
    unix_socket: Annotated[
        str | None,
        setting("Listen on this Unix socket instead of a port.", flag="--unix-socket", form="FILE", names_file=True),
    ] = None
    unix_socket_mode: Annotated[
        SocketMode,
        setting("The permissions of the Unix socket, as an octal number.", flag="--unix-socket-mode", form="MODE"),
    ] = "600"
    reuse_port: Annotated[
        bool,
        setting("Let several processes of this user listen on the same port.", flag="--reuse-port", switch=True),
    ] = False
    tls_cert_file: Annotated[
        str | None,
        setting(
            "Serve https with this certificate: a PEM file with the server's certificate, then those of intermediate "
            "CAs.",
            flag="--tls-cert-file",
            form="FILE",
            names_file=True,
        ),
    ] = None
    tls_key_file: Annotated[
        str | None,
        setting(
            "The private key of the certificate. Default: it is in the same file.",
            flag="--tls-key-file",
            form="FILE",
            names_file=True,
        ),
    ] = None
    tls_client_ca_file: Annotated[
        str | None,
        setting(
            "Accept only clients with a certificate of a CA in this file (mTLS).",
            flag="--tls-client-ca-file",
            form="FILE",
            names_file=True,
        ),
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
    response: Annotated[Literal["auto", "json", "sse"], setting("The format of HTTP responses.", flag="--response")] = (
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
            "The mcp.json of a client, whose servers are served too, at the same endpoint.",
            flag="--mcp-json",
            form="FILE",
            names_file=True,
        ),
    ] = None
    view: Annotated[
        str | None,
        setting(
            "The view of the hub to serve on stdio. Default: everything.",
            flag="--view",
            form="NAME",
            harmless=True,
        ),
    ] = None
    alone: Annotated[
        bool,
        setting("Serve only what the command line names, not the servers in hubbub.toml.", flag="--alone", switch=True),
    ] = False
    insecure: Annotated[
        bool, setting("Serve other machines even without authentication.", flag="--insecure", switch=True)
    ] = False
    allowed_hosts: Annotated[
        tuple[str, ...],
        setting("A host name of this server, besides localhost.", flag="--allowed-host", form="HOST"),
    ] = ()
    allowed_origins: Annotated[
        tuple[str, ...],
        setting("An origin whose pages may call, besides this machine's.", flag="--allowed-origin", form="URL"),
    ] = ()
    proxied_by: Annotated[
        tuple[str, ...],
        setting(
            "A proxy whose X-Forwarded-For and X-Forwarded-Proto headers are trusted; `unix`: any on the Unix socket.",
            flag="--proxied-by",
            form="ADDRESS",
        ),
    ] = ()
    key_file: Annotated[
        str | None,
        setting("The API keys of callers (see `hubbub keys`).", flag="--key-file", form="FILE", names_file=True),
    ] = None
    jwt_keys: Annotated[
        str | None,
        setting(
            "Public keys that verify tokens: a PEM, JWK or JWKS file, or the URL of a JWKS.",
            flag="--jwt-keys",
            form="FILE|URL",
            names_file=True,
        ),
    ] = None
    jwt_issuer: Annotated[str, setting("The required issuer of tokens.", flag="--jwt-issuer", form="URL")] = ""
    jwt_audience: Annotated[
        tuple[str, ...], setting("An accepted audience of tokens.", flag="--jwt-audience", form="NAME")
    ] = ()
    jwt_tenant_claim: Annotated[
        str,
        setting(
            "With tenants: the claim that names the tenant; a.b for the claim b in the claim a.",
            flag="--jwt-tenant-claim",
            form="CLAIM",
            min_length=1,
        ),
    ] = "tenant"
    jwt_user_claim: Annotated[
        str,
        setting(
            "With tenants: the claim that names the user, such as email.",
            flag="--jwt-user-claim",
            form="CLAIM",
            min_length=1,
        ),
    ] = "sub"
    jwt_scope_claims: Annotated[
        tuple[str, ...],
        setting("A claim with scopes, such as roles. Default: scope and scp.", flag="--jwt-scope-claim", form="CLAIM"),
    ] = ("scope", "scp")
    limits: Annotated[
        tuple[str, ...],
        setting(
            "A rate limit for each caller, such as mcp=100/minute; or off. Default: off on loopback, and elsewhere "
            "mcp=100/minute, health=1000/minute and, for every other path, other=1000/minute.",
            flag="--limit",
            form="ROUTE=N/UNIT",
        ),
    ] = ()
    max_sessions: Annotated[int, setting("The largest number of legacy sessions.", flag="--max-sessions", ge=1)] = (
        bounds.SESSIONS
    )
    session_idle_s: Annotated[
        float, setting("Seconds until an unused legacy session ends.", flag="--session-idle-s", gt=0)
    ] = bounds.SESSION_IDLE_S
    max_streams: Annotated[int, setting("The largest number of open streams.", flag="--max-streams", ge=1)] = (
        bounds.STREAMS
    )
    drain_s: Annotated[
        float, setting("Seconds that running calls may continue at shutdown.", flag="--drain-s", ge=0)
    ] = bounds.DRAIN_TIMEOUT_S
    max_connections: Annotated[
        int,
        setting(
            "The largest number of connections, shared among addresses; more get 503.", flag="--max-connections", ge=1
        ),
    ] = bounds.CONNECTIONS
    max_head_bytes: Annotated[
        int, setting("The largest request line and headers; larger ones get 431.", flag="--max-head-bytes", ge=1024)
    ] = bounds.REQUEST_HEAD_BYTES
    head_s: Annotated[
        float, setting("Seconds for the head of a request to arrive; then 408.", flag="--head-s", gt=0)
    ] = bounds.REQUEST_HEAD_TIMEOUT_S
    body_s: Annotated[
        float,
        setting(
            "Seconds for a body or a WebSocket message to arrive; then the connection is closed.", flag="--body-s", gt=0
        ),
    ] = bounds.BODY_TIMEOUT_S
    slow_reader_s: Annotated[
        float,
        setting("Seconds that a caller may read nothing before it is disconnected.", flag="--slow-reader-s", gt=0),
    ] = bounds.SLOW_READER_TIMEOUT_S
    idle_s: Annotated[
        float,
        setting(
            "Seconds that a connection may stay open between two requests; then it is closed.", flag="--idle-s", gt=0
        ),
    ] = bounds.IDLE_CONNECTION_S
    max_pipelined_requests: Annotated[
        int,
        setting(
            "Requests of one connection that may wait for the response to an earlier one; more get 429.",
            flag="--max-pipelined-requests",
            ge=1,
        ),
    ] = bounds.PIPELINED_REQUESTS
    max_unfinished_bytes: Annotated[
        int,
        setting(
            "Bytes of incomplete bodies and WebSocket messages over all connections, at least four times the largest "
            "message; above it, the client with the most loses a connection.",
            flag="--max-unfinished-bytes",
            ge=1024,
        ),
    ] = bounds.UNFINISHED_MESSAGES_BYTES
    max_queue_bytes: Annotated[
        int,
        setting(
            "Bytes queued for one client on /mcp-ws or /sse before it is disconnected.",
            flag="--max-queue-bytes",
            ge=1024,
        ),
    ] = bounds.OUTBOX_BYTES
    max_stored_events: Annotated[
        int, setting("Events of all streams stored for callers that reconnect.", flag="--max-stored-events", ge=1)
    ] = bounds.TOTAL_STORED_EVENTS
    max_stored_bytes: Annotated[int, setting("The total size of these events.", flag="--max-stored-bytes", ge=1024)] = (
        bounds.TOTAL_STORED_BYTES
    )
    sealing_key_file: Annotated[
        str | None,
        setting(
            "The key that seals cursors and request states, 64 hex digits. Default: one in the data folder.",
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
        Literal["debug", "info", "warning", "error"], setting("The lowest level to log to stderr.", flag="--log-level")
    ] = "warning"
    log_format: Annotated[
        Literal["auto", "json", "text"],
        setting("The format of log lines; auto: text on a terminal, otherwise JSON.", flag="--log-format"),
    ] = "auto"
    tool_names: Annotated[
        Literal["exact", "safe"],
        setting(
            "List tool names as declared, or only with characters that every model provider accepts.",
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
    def bind_host(self) -> str:
        """The host that decides whether other machines can connect; a Unix socket is local."""
        return "localhost" if self.unix_socket is not None else self.address[0]

    @property
    def unix_socket_note(self) -> str:
        """What follows the URL in the line that announces the server: the path of the Unix socket, if it has one."""
        return "" if self.unix_socket is None else f" on the Unix socket {self.unix_socket}"

    @property
    def ignored_on_stdio(self) -> tuple[str, ...]:
        """The flags of settings that were given to restrict access, which has no effect on stdio."""
        values = {
            "--key-file": self.key_file,
            "--jwt-keys": self.jwt_keys,
            "--limit": self.limits,
            "--tls-client-ca-file": self.tls_client_ca_file,
        }
        return tuple(flag for flag, value in values.items() if value)

    def __post_init__(self) -> None:
        if self.address[1] > MAX_PORT:
            raise ValueError(f"http_addr must have a port of at most {MAX_PORT}, not {self.address[1]}")
        if self.tls_cert_file is None and (self.tls_key_file is not None or self.tls_client_ca_file is not None):
            raise ValueError("tls_key_file and tls_client_ca_file need a certificate; set tls_cert_file too")
        if self.unix_socket is not None and self.reuse_port:
            raise ValueError("reuse_port applies to ports, not to unix_socket; set one of the two")
