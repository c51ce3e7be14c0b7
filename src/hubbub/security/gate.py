"""Admission and authentication: one check for every HTTP route and WebSocket.

A request is admitted if its `Host` is accepted, its `Origin` (if a browser sent one) is
allowed, none of the headers that decide about it occurs twice, and, if authenticators are
configured, one of them identifies the caller. The gate returns the principal or the refusal.
What the caller may do is decided by policies, and how often by `hubbub.security.rate_limits`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

import msgspec

from hubbub.errors import SettingsError
from hubbub.protocol.calls import ANONYMOUS, Principal
from hubbub.protocol.host_origin import AllowedHosts, AllowedOrigins, is_loopback
from hubbub.protocol.http_headers import Headers, RequestTarget
from hubbub.protocol.refusal import Refusal
from hubbub.security.tenant_identity import TenantIdentity

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
"""Headers that must not occur twice: two parsers of one request could pick different values."""

CHALLENGE: Final = b'Bearer realm="hubbub"'
_USUAL_CHALLENGE: Final = ((b"www-authenticate", CHALLENGE),)
NO_TARGET: Final = RequestTarget("", "")
"""For credentials that are checked without a request."""
_MAX_QUOTED_CHARACTERS: Final = 80


class EdgeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the gate."""

    bind_host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    """Host names of this server, in addition to those of this machine."""
    allowed_origins: tuple[str, ...] = ()
    """Origins whose pages may call, in addition to those of this machine."""
    insecure: bool = False
    """Whether to listen on the network without authentication."""
    requires_client_certificate: bool = False
    """Whether only clients with a certificate can connect, so that no other authentication is needed."""


class Authenticator(Protocol):
    """Authenticates callers by one kind of credential."""

    async def __call__(self, headers: Headers, target: RequestTarget) -> Principal | Refusal | None:
        """Return the caller or a refusal; None if the request has no credential of this kind."""


@runtime_checkable
class RevocationSource(Protocol):
    """An authenticator that knows all its principals, so that it can report revoked ones."""

    def is_revoked(self, principal: str) -> bool:
        """Whether this principal was removed from the list or has expired."""


class KnownCaller(NamedTuple):
    """A caller whose credential is valid."""

    principal: Principal
    usable_until: float
    """On the clock of the authenticator: when the credential expires, or must be looked up again."""


@runtime_checkable
class KnownCallers(Protocol):
    """An authenticator that recognizes most callers without waiting."""

    @property
    def generation(self) -> int:
        """Grows whenever callers that were known may be so no longer."""

    def clock(self) -> float:
        """The clock of `KnownCaller.usable_until`."""

    def find_known(self, headers: Headers, path: str) -> KnownCaller | None:
        """Return the caller, if its credential can be checked at once and is valid; None: `__call__` must decide.

        The outcome must hold for every request with these headers and this path: a credential that is checked
        for each request, as a proof is, is never known.
        """


@runtime_checkable
class RecheckingAuthenticator(Protocol):
    """An authenticator with other rules for connections that are already open."""

    async def recheck(self, headers: Headers) -> Principal | Refusal | None:
        """Return the caller of an open connection or a refusal; None if it has no credential of this kind."""


class _RememberedCaller(msgspec.Struct, frozen=True):
    """A known caller, kept with the headers that requests with the same head share."""

    gate: Gate
    path: str
    source: KnownCallers
    generation: int
    """That of its source, when it was looked up."""
    principal: Principal
    usable_until: float


class Gate:
    """Checks requests: `await gate(headers, client)` returns the caller, or the refusal to send.

    With tenants, every caller must authenticate, with one credential.

    Raises: SettingsError, if an allowed host or origin is not valid, the bind address is unsafe, or there are tenants
        but no authenticators.
    """

    def __init__(
        self,
        settings: EdgeSettings,
        authenticators: Sequence[Authenticator] = (),
        *,
        identity: TenantIdentity | None = None,
        challenge: Callable[[RequestTarget], bytes] = lambda target: CHALLENGE,
    ) -> None:
        """`challenge` is the `WWW-Authenticate` of refusals that do not have one of their own."""
        if identity is not None and not authenticators:
            raise SettingsError(
                "[[tenants]] needs callers that authenticate: create keys with `hubbub keys create` and set "
                "--key-file, or accept tokens with --jwt-keys"
            )
        has_auth = bool(authenticators) or settings.requires_client_certificate
        check_bind(settings.bind_host, has_auth=has_auth, insecure=settings.insecure)
        self._hosts = AllowedHosts(settings.allowed_hosts, addresses=not is_loopback(settings.bind_host))
        self._origins = AllowedOrigins(settings.allowed_origins)
        self._authenticators = tuple(authenticators)
        known = [one for one in authenticators if isinstance(one, KnownCallers)]
        # An authenticator that must be awaited could decide otherwise, so then none is asked beforehand.
        self._known_callers = tuple(known) if len(known) == len(self._authenticators) else ()
        self._identity = identity
        self._challenge = challenge

    @property
    def requires_authentication(self) -> bool:
        """Whether callers must authenticate."""
        return bool(self._authenticators)

    async def __call__(
        self, headers: Headers, client: str | None = None, target: RequestTarget = NO_TARGET
    ) -> Principal | Refusal:
        """Check the headers, then the credential. `client` is the network address, for gates that log it."""
        outcome = self.admit_nowait(headers, target.path)
        return await self.authenticate(headers, target) if outcome is None else outcome

    async def authenticate(self, headers: Headers, target: RequestTarget = NO_TARGET) -> Principal | Refusal:
        """Authenticate by the credential alone."""
        if self._identity is not None and b"x-api-key" in headers and b"authorization" in headers:
            return Refusal(400, "This request has two credentials; send either X-API-Key or Authorization, not both")
        for authenticate in self._authenticators:
            outcome = await authenticate(headers, target)
            if outcome is not None:
                return self._add_challenge(outcome, target) if isinstance(outcome, Refusal) else outcome
        return self._add_challenge(_NO_CREDENTIAL, target)

    def _add_challenge(self, refusal: Refusal, target: RequestTarget) -> Refusal:
        if refusal.headers != _USUAL_CHALLENGE:
            return refusal
        return msgspec.structs.replace(refusal, headers=((b"www-authenticate", self._challenge(target)),))

    async def recheck(self, headers: Headers) -> Principal | Refusal:
        """Authenticate the caller of a connection that stays open, again."""
        for authenticator in self._authenticators:
            if isinstance(authenticator, RecheckingAuthenticator):
                outcome = await authenticator.recheck(headers)
            else:
                outcome = await authenticator(headers, NO_TARGET)
            if outcome is not None:
                return outcome
        return _NO_CREDENTIAL

    def is_revoked(self, principal: str) -> bool:
        """Whether an authenticator reports this principal as revoked, or its tenant was removed."""
        if self._identity is not None and self._identity.is_removed(principal):
            return True
        return any(isinstance(one, RevocationSource) and one.is_revoked(principal) for one in self._authenticators)

    def admit_nowait(self, headers: Headers, path: str = "") -> Principal | Refusal | None:
        """Like calling the gate, but without waiting: None if the caller must be authenticated."""
        remembered = headers.known_caller
        if type(remembered) is _RememberedCaller and remembered.gate is self and remembered.path == path:
            source = remembered.source
            if source.generation == remembered.generation and source.clock() < remembered.usable_until:
                return remembered.principal
            headers.known_caller = None
        if headers.admitting_gate is not self and (refusal := self.check(headers)) is not None:
            return refusal
        if not self._authenticators:
            return ANONYMOUS
        raw = headers.raw
        if self._known_callers and (raw(b"x-api-key") is None or raw(b"authorization") is None):
            for authenticator in self._known_callers:
                generation = authenticator.generation  # before the caller is looked up, because it may change meanwhile
                known = authenticator.find_known(headers, path)
                if known is not None:
                    headers.known_caller = _RememberedCaller(self, path, authenticator, generation, *known)
                    return known.principal
        return None

    def check(self, headers: Headers, any_origin: bool = False) -> Refusal | None:
        """Check all but the credential: headers that must occur once, the host and, unless `any_origin`, the origin."""
        if headers.has_repeated:
            for name in SINGLE_HEADERS:
                if headers.is_repeated(name):
                    return Refusal(400, f"The header {name.decode()} occurs more than once; send it once")
        host = headers.raw(b"host")
        if not self._hosts.allow(host):
            return _host_refusal(host)
        origin = headers.raw(b"origin")
        if any_origin:
            return None
        if origin is not None and not self._origins.allow(origin):
            return Refusal(
                403,
                f"The origin {_quote(origin)} is not allowed to call this server; "
                "its operator can add it to the setting allowed_origins",
            )
        headers.admitting_gate = self
        return None


def _host_refusal(host: bytes | None) -> Refusal:
    if host is None:
        return Refusal(403, "The header Host is missing; send the host name of this server")
    return Refusal(
        403,
        f"The Host {_quote(host)} is not a name of this server; its operator can add it to the setting allowed_hosts",
    )


def _quote(raw: bytes) -> str:
    return ascii(raw[:_MAX_QUOTED_CHARACTERS].decode("latin-1"))


def unauthorized(message: str, challenge: bytes = CHALLENGE) -> Refusal:
    """Return the refusal of a caller without a valid credential."""
    return Refusal(401, message, ((b"www-authenticate", challenge),))


# Without a colon after `X-API-Key`: commands would take what follows for a secret, and mask it.
_NO_CREDENTIAL: Final = unauthorized(
    "This server requires authentication: send a key in the header X-API-Key, or 'Authorization: Bearer <token>'"
)


def check_bind(host: str, *, has_auth: bool, insecure: bool) -> None:
    """Refuse to listen on the network without authentication, unless `insecure`.

    Raises: SettingsError, which says what to do.
    """
    if has_auth or insecure or is_loopback(host):
        return
    address = host or "every address"
    raise SettingsError(
        f"Listening on {address} without authentication would let anyone on the network call every tool. Listen on "
        "127.0.0.1, require API keys (--key-file), tokens (--jwt-keys) or client certificates (--tls-client-ca-file), "
        "or accept the risk with --insecure"
    )
