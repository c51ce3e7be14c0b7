"""Access tokens that were verified, and the interface of what verifies them."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.errors import HubbubError
from hubbub.protocol.calls import Principal
from hubbub.protocol.http_headers import Headers

_BEARER_PREFIX: Final = b"bearer "

MatchAudience: TypeAlias = Callable[[frozenset[str]], frozenset[str] | None]
"""The paths at which a token with these audiences is valid, None for every path. Raises: InvalidJwt, if at none."""


class VerifiedToken(msgspec.Struct, frozen=True):
    """A token that is valid for this server."""

    principal: Principal
    usable_until: float
    """When it expires, or must be verified again."""
    paths: frozenset[str] | None = None
    """The only paths at which it is valid, because its audience names them; None: every path."""
    key_thumbprint: str | None = None
    """The key that it is bound to (`cnf.jkt`): only a client that proves possession of this key may use it."""
    is_sufficient: bool = False
    """Whether its bearer may send any request to its paths: neither a proof nor more scopes are needed."""


class TokenRefused(HubbubError):
    """Why a token is refused; written to the log, never sent to the caller."""


class TokenVerifier(Protocol):
    """Verifies the tokens of one authorization server."""

    @property
    def generation(self) -> int:
        """Grows whenever tokens that were verified before must be verified again."""

    async def verify(self, token: bytes) -> VerifiedToken:
        """Verify a token.

        Raises:
            TokenRefused: it is not valid for this server.
            KeysUnavailable: it cannot be checked at the moment.
        """


class OpaqueTokenVerifier(TokenVerifier, Protocol):
    """Verifies tokens that only their authorization server can read."""

    async def verify(self, token: bytes, client: str = "") -> VerifiedToken:
        """Verify a token that came from the network address `client`, as `TokenVerifier.verify`."""


class VerifiedTokens:
    """Tokens that were verified, by their digests, for as long as they can be used without another check."""

    def __init__(self, verifiers: Sequence[TokenVerifier], clock: Callable[[], float]) -> None:
        self._verifiers = verifiers
        self._only_verifier = verifiers[0] if len(verifiers) == 1 else None
        self._clock = clock
        self._tokens: OrderedDict[bytes, VerifiedToken] = OrderedDict()
        self._generation = self.generation

    def find(self, digest: bytes) -> VerifiedToken | None:
        """Return the token with this digest, if it is still valid."""
        if (generation := self.generation) != self._generation:
            self._generation = generation
            self._tokens.clear()
        known = self._tokens.get(digest)
        if known is None:
            return None
        if self._clock() >= known.usable_until:
            del self._tokens[digest]
            return None
        self._tokens.move_to_end(digest)
        return known

    def add(self, digest: bytes, token: VerifiedToken) -> None:
        """Remember a token."""
        self._tokens[digest] = token
        self._tokens.move_to_end(digest)
        if len(self._tokens) > bounds.VERIFIED_TOKENS:
            self._tokens.popitem(last=False)

    @property
    def generation(self) -> int:
        """Grows whenever tokens that were verified before must be verified again."""
        # Each only grows, so their sum changes whenever one of them does.
        only = self._only_verifier
        return sum(one.generation for one in self._verifiers) if only is None else only.generation


def token_digest(headers: Headers) -> bytes | None:
    """Return the digest of a bearer token; None if there is none, or it is too large."""
    digest = headers.token_digest
    if digest is None:
        token = read_bearer_token(headers)
        if token is None or len(token) > bounds.CREDENTIAL_BYTES:
            return None
        # Requests with the same head share the headers, so a token is hashed once for each connection.
        digest = headers.token_digest = hashlib.sha256(token).digest()
    return digest


def read_bearer_token(headers: Headers) -> bytes | None:
    """Return the bearer token of a request; None if there is none."""
    sent = headers.raw(b"authorization")
    if sent is None or sent[:7].lower() != _BEARER_PREFIX:
        return None
    return sent[7:].strip(b" ")
