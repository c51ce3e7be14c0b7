"""The operator's rules for outgoing connections: which hosts, over TLS or not, and through which proxy.

Checked before a name is looked up, for every new connection. `hubbub.net.egress` checks the addresses after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from hubbub.errors import SettingsError
from hubbub.net.egress import address_kind, normalize_host

_PORTS: Final = range(1, 65536)
_DEFAULT_PORTS: Final = {True: 443, False: 80}
_PLAIN_ADVICE: Final = "use https:// or wss://, or add the host with its port to `allow` of [egress]"


class HostPattern(msgspec.Struct, frozen=True):
    """An entry of the allow-list: `api.example.com`, `*.example.com` or `10.0.0.5:8080`."""

    host: str
    """Normalized; `.example.com` stands for every name below it."""
    port: int | None = None
    """None: the default port of the scheme."""

    @classmethod
    def parse(cls, text: str) -> HostPattern:
        """Parse an entry.

        Raises: SettingsError.
        """
        host, port = _split_port(text.strip())
        is_wildcard = host.startswith("*.")
        try:
            name = normalize_host(host.removeprefix("*.")).removesuffix(".")
        except ValueError:
            raise _invalid_entry(text) from None
        has_brackets = "[" in host or "]" in host
        is_bracketed = host.startswith("[") and host.endswith("]")
        if (is_wildcard and (address_of(name) or "." not in name)) or has_brackets != is_bracketed:
            raise _invalid_entry(text)
        return cls(f".{name}" if is_wildcard else name, port)

    def matches(self, host: str, port: int, *, is_tls: bool) -> bool:
        """Whether a normalized host and a port are allowed by this entry."""
        if port != (self.port or _DEFAULT_PORTS[is_tls]):
            return False
        return host.endswith(self.host) if self.host.startswith(".") else host == self.host


class Proxy(msgspec.Struct, frozen=True):
    """An HTTP proxy that opens tunnels with CONNECT."""

    host: str
    port: int

    @classmethod
    def parse(cls, url: str) -> Proxy:
        """Parse `http://HOST:PORT`.

        Raises: SettingsError, whose message does not quote the URL, because it may contain a password.
        """
        try:
            parts = urlsplit(url)
            host, port = normalize_host(parts.hostname or ""), parts.port
        except ValueError:
            raise _invalid_proxy() from None
        has_more = parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc
        if parts.scheme != "http" or port is None or port not in _PORTS or has_more:
            raise _invalid_proxy()
        return cls(host, port)


class EgressRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which hosts may be connected to; by default, all."""

    allow: tuple[HostPattern, ...] | None = None
    requires_tls: bool = False
    """Whether connections without TLS are only made to hosts that are allowed with their port, and to this machine."""
    proxy: Proxy | None = None

    @classmethod
    def parse(
        cls, allow: Sequence[str] | None = None, *, requires_tls: bool = False, proxy: str | None = None
    ) -> EgressRules:
        """Make rules from the settings `[egress]`.

        Raises: SettingsError.
        """
        return cls(
            allow=None if allow is None else tuple(map(HostPattern.parse, allow)),
            requires_tls=requires_tls,
            proxy=None if proxy is None else Proxy.parse(proxy),
        )

    def find_problem(self, host: str, port: int, *, is_tls: bool) -> str:
        """Return why a connection to a normalized host is not allowed, and what to do; empty if it is."""
        host = host.removesuffix(".")
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        matching = [entry for entry in self.allow or () if entry.matches(host, port, is_tls=is_tls)]
        if self.allow is not None and not matching:
            return f"The egress rules do not allow {shown}; the operator can add it to `allow` of [egress]"
        if self.requires_tls and not is_tls and not _is_loopback(host) and not any(entry.port for entry in matching):
            return f"The egress rules do not allow {shown} without TLS; {_PLAIN_ADVICE}"
        return ""

    def check_url(self, url: str) -> None:
        """Check the URL of a server before it is used.

        Raises: SettingsError.
        """
        parts = urlsplit(url)
        is_tls = parts.scheme in ("https", "wss")
        try:
            host = normalize_host(parts.hostname or "")
        except ValueError:
            raise SettingsError("`url` needs a valid host: a name or an IP address") from None
        if problem := self.find_problem(host, parts.port or _DEFAULT_PORTS[is_tls], is_tls=is_tls):
            raise SettingsError(problem)


NO_RULES: Final = EgressRules()


def address_of(host: str) -> str | None:
    """The host itself if it is an IP address and not a name; it must be normalized."""
    return host if ":" in host or host.replace(".", "").isdecimal() else None


def _is_loopback(host: str) -> bool:
    if address_of(host) is not None:
        return address_kind(host) == "loopback"
    return host == "localhost" or host.endswith(".localhost")


def _split_port(text: str) -> tuple[str, int | None]:
    host, colon, port = text.rpartition(":")
    if not colon or ("]" in port or (":" in host and not host.endswith("]"))):  # a bare IPv6 address has no port
        return text, None
    if not port.isascii() or not port.isdecimal() or int(port) not in _PORTS:
        raise _invalid_entry(text)
    return host, int(port)


def _invalid_entry(text: str) -> SettingsError:
    return SettingsError(
        f"`allow` of [egress]: {text!r} is not a host; write HOST, HOST:PORT or *.DOMAIN, without a scheme or path"
    )


def _invalid_proxy() -> SettingsError:
    return SettingsError("`proxy` of [egress] must look like http://HOST:PORT, without a user, password or path")
