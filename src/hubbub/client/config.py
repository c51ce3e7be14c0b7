"""What is known of a server before anybody connects to it.

A frozen value, checked when it is made: `ServerConfig(id="files", command="mcp-files")`
or `ServerConfig(id="remote", transport="streamable_http", url="https://...")`. Values of
headers and of the environment are secrets and never show in a repr. Reads no files;
`hubbub.client.mcp_json` makes these from the ecosystem's.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from hubbub import bounds
from hubbub.client.addresses import check_url, shown_url
from hubbub.errors import SettingsError
from hubbub.protocol.http_headers import check_outgoing
from hubbub.protocol.revisions import NEWEST_LEGACY, SUPPORTED_VERSIONS
from hubbub.settings.nearest import nearest
from hubbub.settings.secret import Secret

Transport: TypeAlias = Literal["stdio", "streamable_http", "websocket", "sse"]
Hook: TypeAlias = Callable[[str], Any]
Values: TypeAlias = Mapping[str, "str | Secret | None"]
Provider: TypeAlias = "Callable[[], Values | Awaitable[Values]]"

DEFAULT_PROTOCOL_VERSION: Final = NEWEST_LEGACY.version
SUPPORTED_PROTOCOL_VERSIONS: Final = SUPPORTED_VERSIONS

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
    """Over the few variables that a server always gets; None takes one away."""
    env_provider: Provider | None = None
    """Asked at each start; wins over `env`."""
    chdir: str | None = None
    url: str | None = None
    headers: Values = {}
    headers_provider: Provider | None = None
    """Asked before each request; wins over `headers`."""
    on_stdout_line: Hook | None = None
    """Gets every message that the server sends; they may hold anything, so keep them out of logs."""
    on_stderr_line: Hook | None = None
    """Gets the server's stderr and what the transport has to say."""
    protocol_version: str | None = None
    """Pins the version; without it the newest that the server speaks is used."""
    client_info: Mapping[str, Any] | None = None
    capabilities: Mapping[str, Any] = {}
    """Besides those that follow from the handlers."""
    timeout_s: float = bounds.REQUEST_S
    open_timeout_s: float | None = None
    read_timeout_s: float | None = None
    """How long an answer may be silent once it has begun."""
    sse_max_reconnects: int | None = None
    max_response_bytes: int | None = None
    allow_private_network: bool | None = None
    """Whether the URL's name may lead into a private network; unset: only if it says so itself."""

    def __post_init__(self) -> None:
        self._set("id", _required_text("id", self.id))
        self._set("transport", _transport(self.transport))
        for name in ("command", "chdir", "url", "protocol_version"):
            self._set(name, _text(name, getattr(self, name)))
        self._set("args", tuple(str(item) for item in _sequence("args", self.args)))
        self._set("env", _values("env", self.env, keep_none=True))
        self._set("headers", _values("headers", self.headers, keep_none=False))
        self._set("client_info", None if self.client_info is None else _mapping("client_info", self.client_info))
        self._set("capabilities", _mapping("capabilities", self.capabilities))
        for name in _CALLABLES:
            if not (getattr(self, name) is None or callable(getattr(self, name))):
                raise SettingsError(f"`{name}` must be a function, not {type(getattr(self, name)).__name__}")
        self._check_numbers()
        self._check_transport()
        if self.protocol_version is not None and self.protocol_version not in SUPPORTED_PROTOCOL_VERSIONS:
            known = nearest(self.protocol_version, SUPPORTED_PROTOCOL_VERSIONS)
            raise SettingsError(f"`protocol_version` {self.protocol_version!r} is none that we speak{known}")

    @classmethod
    def coerce(cls, value: ServerConfig | Mapping[str, Any]) -> ServerConfig:
        """The config itself, or one made of a mapping with its fields.

        Raises:
            SettingsError: it is neither, or the mapping has a key that is no field.
        """
        if isinstance(value, ServerConfig):
            return value
        given: Any = value
        if not isinstance(given, Mapping):
            raise SettingsError(f"A server is a ServerConfig or a mapping of its fields, not {type(value).__name__}")
        for key in value:
            if key not in cls.__struct_fields__:
                raise SettingsError(f"A server has no field {key!r}{nearest(str(key), cls.__struct_fields__)}")
        if "id" not in value:
            raise SettingsError("A server needs an `id`")
        return cls(**value)

    @property
    def is_remote(self) -> bool:
        """Whether it is reached over the network."""
        return self.transport != "stdio"

    @property
    def target(self) -> str:
        """What is reached, for messages: without arguments, queries and secrets."""
        return shown_url(self.url) if self.url else str(self.command)

    def __repr__(self) -> str:
        return f"ServerConfig(id={self.id!r}, transport={self.transport!r}, target={self.target!r})"

    def _set(self, name: str, value: Any) -> None:
        force_setattr(self, name, value)

    def _check_numbers(self) -> None:
        for name in ("timeout_s", "open_timeout_s", "read_timeout_s"):
            if (value := getattr(self, name)) is not None:
                self._set(name, positive_seconds(name, value))
        for name in ("sse_max_reconnects", "max_response_bytes"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value <= 0):
                raise SettingsError(f"`{name}` must be a whole number above 0, not {value!r}")

    def _check_transport(self) -> None:
        foreign = _ONLY_STDIO if self.is_remote else _ONLY_REMOTE
        for name in foreign:
            value = getattr(self, name)
            if value is not None and value not in ((), {}):
                raise SettingsError(f"`{name}` does not go with the transport {self.transport}")
        if not self.is_remote:
            if self.command is None:
                raise SettingsError("A server on stdio needs a `command`")
        elif self.url is None:
            raise SettingsError(f"A server with the transport {self.transport} needs a `url`")
        else:
            check_url(self.url, _SCHEMES[self.transport])
            for name, value in self.headers.items():
                check_outgoing(name, value.reveal() if isinstance(value, Secret) else "")


def positive_seconds(name: str, value: Any) -> float:
    """The value as a time limit.

    Raises: SettingsError.
    """
    if type(value) is float and value > 0:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0 or math.isnan(value):
        raise SettingsError(f"`{name}` must be a number of seconds above 0, not {value!r}")
    return float(value)


def _transport(value: Any) -> Transport:
    name = str(value or "").strip()
    if name not in _TRANSPORTS:
        raise SettingsError(f"The transport {name!r} is not known{nearest(name, filter(None, _TRANSPORTS))}")
    return _TRANSPORTS[name]


def _required_text(name: str, value: Any) -> str:
    text = str("" if value is None else value).strip()
    if not text:
        raise SettingsError(f"A server needs an `{name}`")
    return text


def _text(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        if not hasattr(value, "__fspath__"):
            raise SettingsError(f"`{name}` must be text, not {type(value).__name__}")
        value = str(value)
    return (value or "").strip() or None


def _sequence(name: str, value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise SettingsError(f"`{name}` must be a list, not {type(value).__name__}")
    return value


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return MappingProxyType({})
    if not isinstance(value, Mapping):
        raise SettingsError(f"`{name}` must be a mapping, not {type(value).__name__}")
    return MappingProxyType(dict(value))


def _values(name: str, value: Any, *, keep_none: bool) -> Mapping[str, Secret | None]:
    return MappingProxyType(secret_values(name, value, keep_none=keep_none))


def secret_values(name: str, value: Any, *, keep_none: bool) -> dict[str, Secret | None]:
    """Headers or variables as they are kept: names trimmed, values hidden.

    Raises: SettingsError.
    """
    found: dict[str, Secret | None] = {}
    for key, item in _mapping(name, value).items():
        if not str(key).strip() or (item is None and not keep_none):
            continue
        found[str(key).strip()] = item if item is None or isinstance(item, Secret) else Secret(str(item))
    return found
