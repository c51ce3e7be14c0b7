"""The configuration of a server, and the transport that it describes.

A config is a frozen value, checked when it is made: `ServerConfig(id="files", command="mcp-files")`
or `ServerConfig(id="remote", transport="streamable_http", url="https://...")`. Values of
headers and of the environment are secrets and never show in a repr. Reads no files;
`hubbub.client.mcp_json` makes configs from the files of other clients.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import force_setattr

from hubbub import bounds
from hubbub.client.urls import check_url, redact_url
from hubbub.errors import HubbubError, SecretUnavailable, SettingsError, TransportError
from hubbub.ports import Authorizer, ClientTransport, InMemoryServer, SecretResolver
from hubbub.protocol.http_headers import check_request_header
from hubbub.protocol.revisions import NEWEST_LEGACY, NEWEST_MODERN, SUPPORTED_VERSIONS
from hubbub.settings.secret import Secret, SecretTemplate
from hubbub.suggestions import format_suggestion

if TYPE_CHECKING:
    import socket

    from hubbub.client.known_secrets import KnownSecrets
    from hubbub.net.client import HttpClient
    from hubbub.net.egress_rules import EgressRules
    from hubbub.oauth.client.settings import OAuth

Transport: TypeAlias = Literal["stdio", "streamable_http", "websocket", "sse", "memory"]
Hook: TypeAlias = Callable[[str], Any]
Values: TypeAlias = Mapping[str, "str | Secret | None"]
Provider: TypeAlias = "Callable[[], Values | Awaitable[Values]]"
ReadReferences: TypeAlias = Callable[[SecretTemplate], Awaitable[str]]

DEFAULT_PROTOCOL_VERSION: Final = NEWEST_LEGACY.version
"""The version that `initialize` offers unless one is pinned."""
DEFAULT_TIMEOUT_S: Final = bounds.REQUEST_TIMEOUT_S
"""Time limit of one request unless `timeout_s` is set."""
SUPPORTED_PROTOCOL_VERSIONS: Final = SUPPORTED_VERSIONS
"""The versions of MCP that clients and servers support, oldest first."""

_TRANSPORTS: Final[dict[str, Transport]] = {
    "": "stdio",
    "stdio": "stdio",
    "streamable_http": "streamable_http",
    "streamable-http": "streamable_http",
    "http": "streamable_http",
    "websocket": "websocket",
    "ws": "websocket",
    "sse": "sse",
}
_SCHEMES: Final = {
    "streamable_http": ("https", "http"),
    "sse": ("https", "http"),
    "websocket": ("wss", "ws"),
}
_ONLY_STDIO: Final = ("command", "args", "env", "env_provider", "chdir")
_ONLY_REMOTE: Final = (
    "url",
    "headers",
    "headers_provider",
    "open_timeout_s",
    "read_timeout_s",
    "sse_max_reconnects",
    "max_response_bytes",
    "allow_private_network",
    "egress",
    "auth",
)
_CALLABLES: Final = ("env_provider", "headers_provider", "on_stdout_line", "on_stderr_line")


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach one server.

    Raises:
        SettingsError: a field is missing, wrong, or of another transport.
    """

    id: str
    transport: str = "stdio"
    command: str | None = None
    args: Sequence[str] = ()
    env: Values = {}
    """Added to the few variables that every server gets; None removes one."""
    env_provider: Provider | None = None
    """Called at each start; takes precedence over `env`."""
    chdir: str | None = None
    server: InMemoryServer | None = None
    """A server in this process, instead of a command or URL."""
    url: str | None = None
    headers: Values = {}
    headers_provider: Provider | None = None
    """Called before each request; takes precedence over `headers`."""
    auth: OAuth | Authorizer | None = None
    """Obtains tokens for it: `OAuth(...)`."""
    on_stdout_line: Hook | None = None
    """Called with every message that the server sends; they may contain secrets, so keep them out of logs."""
    on_stderr_line: Hook | None = None
    """Called with each line of the server's stderr, and with diagnostics of the transport."""
    protocol_version: str | None = None
    """Version of MCP to use, one of `SUPPORTED_PROTOCOL_VERSIONS`; default: the newest that the server supports."""
    client_info: Mapping[str, Any] | None = None
    capabilities: Mapping[str, Any] = {}
    """Declared in addition to those that follow from the handlers."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    open_timeout_s: float | None = None
    read_timeout_s: float | None = None
    """Time limit for the next part of a response that has begun."""
    sse_max_reconnects: int | None = None
    max_response_bytes: int | None = None
    allow_private_network: bool | None = None
    """Whether the host may have a private address; unset: only if its name or address is private itself."""
    egress: EgressRules | None = None
    """The operator's rules for connections to it."""
    secrets: SecretResolver | None = None
    """Resolves references of `headers` before each request, and those of `env` at each start."""
    tenant: str | None = None
    """The tenant whose secrets are used; None: those of this process itself."""

    def __post_init__(self) -> None:
        self._set("id", _parse_required_text("id", self.id))
        self._set("transport", "memory" if self.server is not None else _parse_transport(self.transport))
        for name in ("command", "chdir", "url", "protocol_version"):
            self._set(name, _parse_text(name, getattr(self, name)))
        self._set("args", tuple(str(item) for item in _parse_sequence("args", self.args)))
        self._set("env", _parse_values("env", self.env, keep_none=True))
        self._set("headers", _parse_values("headers", self.headers, keep_none=False))
        self._set("client_info", None if self.client_info is None else _parse_mapping("client_info", self.client_info))
        self._set("capabilities", _parse_mapping("capabilities", self.capabilities))
        for name in _CALLABLES:
            if not (getattr(self, name) is None or callable(getattr(self, name))):
                raise SettingsError(f"`{name}` must be a function, not {type(getattr(self, name)).__name__}")
        self._check_numbers()
        self._check_transport()
        if self.server is not None and self.protocol_version is None:
            self._set("protocol_version", NEWEST_MODERN.version)  # so that no version is negotiated
        if self.protocol_version is not None and self.protocol_version not in SUPPORTED_PROTOCOL_VERSIONS:
            known = format_suggestion(self.protocol_version, SUPPORTED_PROTOCOL_VERSIONS)
            raise SettingsError(f"`protocol_version` {self.protocol_version!r} is not supported{known}")

    @classmethod
    def coerce(cls, value: ServerConfig | Mapping[str, Any] | InMemoryServer) -> ServerConfig:
        """Return the config itself, or make one from a mapping of its fields or a server in this process.

        Raises:
            SettingsError: it is none of these, or the mapping has an unknown key.
        """
        if isinstance(value, ServerConfig):
            return value
        if isinstance(value, InMemoryServer):
            return cls(id=value.info.name, server=value)
        candidate: Any = value
        if not isinstance(candidate, Mapping):
            raise SettingsError(
                f"A server must be a Server, a ServerConfig or a mapping of its fields, not {type(value).__name__}"
            )
        for key in value:
            if key not in cls.__struct_fields__:
                raise SettingsError(
                    f"Unknown field {key!r} of a server{format_suggestion(str(key), cls.__struct_fields__)}"
                )
        if "id" not in value:
            raise SettingsError("A server needs an `id`")
        return cls(**value)

    def for_tenant(self, tenant: str | None) -> ServerConfig:
        """The config for sessions of a tenant, with its secrets."""
        return self if tenant == self.tenant else msgspec.structs.replace(self, tenant=tenant)

    @property
    def is_remote(self) -> bool:
        """Whether it is reached over the network."""
        return self.transport not in ("stdio", "memory")

    @property
    def target(self) -> str:
        """The command or URL for messages, without arguments, queries and secrets."""
        if self.server is not None:
            return self.server.info.name
        return redact_url(self.url) if self.url else str(self.command)

    def __repr__(self) -> str:
        return f"ServerConfig(id={self.id!r}, transport={self.transport!r}, target={self.target!r})"

    def _set(self, name: str, value: Any) -> None:
        force_setattr(self, name, value)

    def _check_numbers(self) -> None:
        for name in ("timeout_s", "open_timeout_s", "read_timeout_s"):
            if (value := getattr(self, name)) is not None:
                self._set(name, check_seconds(name, value))
        for name in ("sse_max_reconnects", "max_response_bytes"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value <= 0):
                raise SettingsError(f"`{name}` must be a whole number above 0, not {value!r}")

    def _check_transport(self) -> None:
        in_memory = self.server is not None
        disallowed = (*_ONLY_STDIO, *_ONLY_REMOTE) if in_memory else _ONLY_STDIO if self.is_remote else _ONLY_REMOTE
        for name in disallowed:
            value = getattr(self, name)
            if value is not None and value not in ((), {}):
                raise SettingsError(
                    f"`{name}` cannot be used with the transport {self.transport}; remove it, or change `transport`"
                )
        if in_memory:
            return
        if not self.is_remote:
            if self.command is None:
                raise SettingsError("A server on stdio needs a `command`")
        elif self.url is None:
            raise SettingsError(f"A server with the transport {self.transport} needs a `url`")
        else:
            check_url(self.url, _SCHEMES[self.transport])
            if self.egress is not None:
                self.egress.check_url(self.url)
            if self.auth is not None:
                self._check_auth(self.auth)
            for name, value in self.headers.items():
                check_request_header(name, value.reveal() if isinstance(value, Secret) else "")

    def _check_auth(self, auth: Any) -> None:
        from hubbub.oauth.client.settings import OAuth

        if not isinstance(auth, OAuth) and not callable(getattr(auth, "handle_refusal", None)):
            raise SettingsError(f"`auth` must be an OAuth, not {type(auth).__name__}")
        if any(name.lower() == "authorization" for name in self.headers):
            raise SettingsError("`auth` cannot be used with the header Authorization; remove one of them")


def check_seconds(name: str, value: Any) -> float:
    """Check a time limit.

    Raises: SettingsError.
    """
    if type(value) is float and value > 0:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0 or math.isnan(value):
        raise SettingsError(f"`{name}` must be a number of seconds above 0, not {value!r}")
    return float(value)


def _parse_transport(value: Any) -> Transport:
    name = str(value or "").strip()
    if name not in _TRANSPORTS:
        raise SettingsError(f"Unknown transport {name!r}{format_suggestion(name, filter(None, _TRANSPORTS))}")
    return _TRANSPORTS[name]


def _parse_required_text(name: str, value: Any) -> str:
    text = str("" if value is None else value).strip()
    if not text:
        raise SettingsError(f"A server needs an `{name}`")
    return text


def _parse_text(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        if not hasattr(value, "__fspath__"):
            raise SettingsError(f"`{name}` must be a string, not {type(value).__name__}")
        value = str(value)
    return (value or "").strip() or None


def _parse_sequence(name: str, value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise SettingsError(f"`{name}` must be a list, not {type(value).__name__}")
    return value


def _parse_mapping(name: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return MappingProxyType({})
    if not isinstance(value, Mapping):
        raise SettingsError(f"`{name}` must be a mapping, not {type(value).__name__}")
    return MappingProxyType(dict(value))


def _parse_values(name: str, value: Any, *, keep_none: bool) -> Mapping[str, Secret | None]:
    return MappingProxyType(wrap_secrets(name, value, keep_none=keep_none))


def wrap_secrets(name: str, value: Any, *, keep_none: bool) -> dict[str, Secret | None]:
    """Convert headers or variables: trim names and wrap values as secrets.

    Raises: SettingsError.
    """
    found: dict[str, Secret | None] = {}
    for key, item in _parse_mapping(name, value).items():
        if not str(key).strip() or (item is None and not keep_none):
            continue
        found[str(key).strip()] = item if item is None or isinstance(item, Secret) else Secret(str(item))
    return found


def open_transport(
    config: ServerConfig, *, over_http_sse: bool = False, connect: Callable[[], socket.socket] | None = None
) -> ClientTransport:
    """Make the transport for a config, ready to be started. Modules of a transport are imported only here.

    `connect` replaces the connection to the host of the URL: see `HttpClient`.
    """
    if config.server is not None:
        from hubbub.transports.memory import MemoryTransport

        return MemoryTransport(config.server)
    from hubbub.client.known_secrets import KnownSecrets

    secrets = KnownSecrets()
    if config.transport == "stdio":
        from hubbub.transports.stdio_client import StdioTransport

        secrets.learn_arguments(config.args)

        async def resolve_env() -> dict[str, str | None]:
            found = await resolve_values("env", config.env, config.env_provider, _reference_reader(config, secrets))
            secrets.learn(found, only_secret_names=True)
            return found

        return StdioTransport(
            (str(config.command), *config.args),
            resolve_env,
            folder=config.chdir,
            on_stderr_line=config.on_stderr_line,
            mask=secrets.mask,
            hide=secrets.hide,
        )
    from hubbub.net.client import HttpClient
    from hubbub.net.egress import egress_policy
    from hubbub.net.egress_rules import NO_RULES

    url = str(config.url)
    secrets.learn_url(url)
    egress = egress_policy(urlsplit(url).hostname or "", config.allow_private_network)

    new_http_client = HttpClient if config.auth is None else _authorized_http_client(config, config.auth, secrets)

    def make_http_client() -> HttpClient:
        return new_http_client(
            egress,
            connect_s=config.open_timeout_s or bounds.CONNECT_TIMEOUT_S,
            idle_s=config.read_timeout_s,
            connect=connect,
            rules=config.egress or NO_RULES,
        )

    headers = _headers_function(config, secrets)
    limit = config.max_response_bytes or bounds.RESPONSE_BYTES
    if config.transport == "websocket":
        from hubbub.transports.websocket_client import WebSocketTransport

        return WebSocketTransport(
            make_http_client(), url, headers, limit=limit, on_diagnostic=config.on_stderr_line, hide=secrets.hide
        )
    if over_http_sse:
        from hubbub.transports.http_sse_client import HttpSseTransport

        return HttpSseTransport(
            make_http_client(),
            url,
            headers,
            limit=limit,
            on_diagnostic=config.on_stderr_line,
            mask=secrets.mask,
            hide=secrets.hide,
        )
    from hubbub.transports.http_client import HttpTransport

    return HttpTransport(
        make_http_client,
        url,
        headers,
        limit=limit,
        has_fixed_headers=config.headers_provider is None and not _has_references(config.headers),
        max_reconnects=config.sse_max_reconnects or bounds.RECONNECTS,
        on_diagnostic=config.on_stderr_line,
        mask=secrets.mask,
        hide=secrets.hide,
    )


def _authorized_http_client(
    config: ServerConfig, auth: OAuth | Authorizer, secrets: KnownSecrets
) -> Callable[..., HttpClient]:
    """Return the constructor of HTTP clients that add tokens."""
    from hubbub.oauth.client.settings import OAuth
    from hubbub.transports.authorized_http_client import AuthorizedHttpClient

    authorizer: Authorizer
    if isinstance(auth, OAuth):
        from hubbub.oauth.client.authorizer import share_authorizer

        read_references = _reference_reader(config, secrets)

        async def reveal(secret: Secret) -> str:
            return await read_references(secret) if isinstance(secret, SecretTemplate) else secret.reveal()

        authorizer = share_authorizer(
            str(config.url),
            auth,
            rules=config.egress,
            allow_private_network=config.allow_private_network,
            reveal=reveal,
            tenant=config.tenant,
        )
    else:
        authorizer = auth
    return partial(AuthorizedHttpClient, authorizer, learn=secrets.learn)


def _headers_function(config: ServerConfig, secrets: KnownSecrets) -> Callable[[], Awaitable[dict[str, str]]]:
    """Return a function that returns the headers of each request, before the transport adds its own."""

    read_references = _reference_reader(config, secrets)
    are_checked = config.headers_provider is None and not _has_references(config.headers)

    async def headers() -> dict[str, str]:
        if config.headers_provider is None and not config.headers:
            return {}
        by_lower_name: dict[str, tuple[str, str]] = {}
        resolved = await resolve_values("headers", config.headers, config.headers_provider, read_references)
        for name, value in resolved.items():
            by_lower_name.pop(name.lower(), None)
            if value is not None:
                by_lower_name[name.lower()] = name, value
        if not are_checked:
            _check_headers(by_lower_name.values())
        found = dict(by_lower_name.values())
        secrets.learn(found)
        return found

    return headers


def _check_headers(headers: Iterable[tuple[str, str]]) -> None:
    try:
        for name, value in headers:
            check_request_header(name, value)
    except SettingsError as error:
        raise TransportError(error.message, may_have_executed=False) from None


def _has_references(values: Values) -> bool:
    return any(isinstance(value, SecretTemplate) for value in values.values())


def _reference_reader(config: ServerConfig, secrets: KnownSecrets) -> ReadReferences:
    """Return a function that resolves the references of a text, and has their values masked from then on."""

    async def read_references(template: SecretTemplate) -> str:
        if config.secrets is None:
            raise SecretUnavailable(f"The secret {template.names[0]!r} is not configured", template.names[0])
        values = {name: (await config.secrets.resolve(name, config.tenant)).reveal() for name in template.names}
        secrets.learn_references(values.values())
        return template.fill(values)

    return read_references


async def resolve_values(
    name: str, fixed: Values, provider: Provider | None, read_references: ReadReferences | None = None
) -> dict[str, str | None]:
    """Reveal headers or variables: the fixed ones, with their references resolved, updated with those of the provider.

    Raises:
        TransportError: the provider failed; its exception is hidden, because it may contain a secret.
        SecretUnavailable: a secret cannot be read, or may not be used for the tenant.
    """
    values: dict[str, Any] = dict(fixed)
    if read_references is not None:
        for key, value in fixed.items():
            if isinstance(value, SecretTemplate):
                values[key] = Secret(await read_references(value))
    if provider is not None:
        try:
            provided = provider()
            if inspect.isawaitable(provided):
                provided = await provided
            values |= wrap_secrets(f"{name}_provider", provided, keep_none=True)
        except HubbubError:
            raise TransportError(f"`{name}_provider` must return a mapping", may_have_executed=False) from None
        except Exception as error:
            raise TransportError(
                f"`{name}_provider` failed ({type(error).__name__})", may_have_executed=False
            ) from None
    return {key: None if value is None else value.reveal() for key, value in values.items()}
