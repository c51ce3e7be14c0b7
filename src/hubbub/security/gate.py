"""Who is at the door: one check for every HTTP route and WebSocket.

A request comes in if its `Host` is ours, its `Origin` (if a browser sent one) is
allowed, none of the headers that decide about it came twice, and, where
authenticators are configured, one of them knows the caller. The gate says who it is
or why not; it does not say what the caller may do, and it counts nothing: that is
for policies and `hubbub.security.quotas`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from hubbub.errors import SettingsError
from hubbub.protocol.authority import Hosts, Origins, is_loopback
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.model import ANONYMOUS, Principal
from hubbub.protocol.refusal import Refusal

__all__ = ["CHALLENGE", "Authenticator", "EdgeSettings", "Gate", "Refusal", "check_bind", "unauthorized"]

SINGLE_HEADERS: Final = (
    b"host",
    b"origin",
    b"authorization",
    b"x-api-key",
    b"content-length",
    b"content-type",
    b"mcp-session-id",
    b"mcp-protocol-version",
    b"x-mcp-version",
)
"""Headers that must not come twice: two readers of one request could each believe another."""

CHALLENGE: Final = b'Bearer realm="hubbub"'
_QUOTED_CHARACTERS: Final = 80


class EdgeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate has to be told."""

    bind_host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    """Names under which this server is reached, beside those of this machine."""
    allowed_origins: tuple[str, ...] = ()
    """Origins whose pages may call, beside those of this machine."""
    insecure: bool = False
    """Listen to the network without knowing callers."""


class Authenticator(Protocol):
    """Knows callers by one kind of credential."""

    async def __call__(self, headers: Headers) -> Principal | Refusal | None:
        """Who calls; why not; or None when the request carries no credential of this kind."""


class Gate:
    """`await gate(headers, client)` is the caller, or the refusal to send.

    Raises: SettingsError, if an allowed host or origin is not one, or the bind is unsafe.
    """

    def __init__(self, settings: EdgeSettings, authenticators: Sequence[Authenticator] = ()) -> None:
        check_bind(settings.bind_host, has_auth=bool(authenticators), insecure=settings.insecure)
        self._hosts = Hosts(settings.allowed_hosts, addresses=not is_loopback(settings.bind_host))
        self._origins = Origins(settings.allowed_origins)
        self._authenticators = tuple(authenticators)

    async def __call__(self, headers: Headers, client: str | None = None) -> Principal | Refusal:
        """Check everything. `client` is the network address, for those who log it."""
        outcome = self.at_once(headers)
        if outcome is not None:
            return outcome
        for authenticate in self._authenticators:
            outcome = await authenticate(headers)
            if outcome is not None:
                return outcome
        return unauthorized(
            "This server must know who calls: send the header 'X-API-Key: <key>' or 'Authorization: Bearer <token>'"
        )

    def at_once(self, headers: Headers) -> Principal | Refusal | None:
        """The same if nobody needs to be known, or the request is refused whoever sent it; else None."""
        return self.check(headers) or (None if self._authenticators else ANONYMOUS)

    def check(self, headers: Headers) -> Refusal | None:
        """Check all but who calls: the headers that must come once, the host, the origin."""
        if headers.has_doubled:
            for name in SINGLE_HEADERS:
                if headers.doubled(name):
                    return Refusal(400, f"The header {name.decode()} came more than once; send it once")
        host = headers.raw(b"host")
        if not self._hosts.allow(host):
            return _wrong_host(host)
        origin = headers.raw(b"origin")
        if origin is not None and not self._origins.allow(origin):
            return Refusal(
                403,
                f"Pages of {_quoted(origin)} may not call this server; "
                "whoever runs it can allow them with the setting allowed_origins",
            )
        return None


def _wrong_host(host: bytes | None) -> Refusal:
    if host is None:
        return Refusal(403, "The header Host is missing; send the name under which you reach this server")
    return Refusal(
        403,
        f"This server does not answer to the name {_quoted(host)}; "
        "whoever runs it can add it to the setting allowed_hosts",
    )


def _quoted(raw: bytes) -> str:
    return ascii(raw[:_QUOTED_CHARACTERS].decode("latin-1"))


def unauthorized(message: str, challenge: bytes = CHALLENGE) -> Refusal:
    """The refusal of a caller whom nobody knows."""
    return Refusal(401, message, ((b"www-authenticate", challenge),))


def check_bind(host: str, *, has_auth: bool, insecure: bool) -> None:
    """Refuse to listen to the network while anybody may call.

    Raises: SettingsError, which says what to do.
    """
    if has_auth or insecure or is_loopback(host):
        return
    shown = host or "every address"
    raise SettingsError(
        f"Listening on {shown} would let anybody on the network call every tool. Listen on 127.0.0.1, "
        "or let callers be known by API keys (--key-file) or tokens (--jwt-keys), or accept the risk with --insecure"
    )
