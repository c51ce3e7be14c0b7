"""Verifies opaque tokens at their authorization server, by introspection (RFC 7662)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from hubbub import bounds
from hubbub.errors import HubbubError
from hubbub.oauth import limits
from hubbub.oauth.documents import basic_authorization
from hubbub.oauth.errors import MetadataError
from hubbub.oauth.metadata import check_endpoint
from hubbub.oauth.resource_server.issuers import Issuer
from hubbub.protocol.calls import Principal
from hubbub.protocol.host_origin import network_prefix
from hubbub.security.jose import InvalidJwt
from hubbub.security.jwks import KeysUnavailable
from hubbub.security.jwt import check_subject, read_key_thumbprint
from hubbub.security.tenant_identity import TenantIdentity
from hubbub.security.token_claims import (
    ClaimMapping,
    InvalidClaim,
    make_token_principal,
    parse_claims,
    read_scopes,
    read_time,
)
from hubbub.security.verified_tokens import MatchAudience, TokenRefused, VerifiedToken
from hubbub.settings.oauth import IntrospectionSettings
from hubbub.shares import SharedSlots

logger = logging.getLogger("hubbub.security")


class IntrospectionVerifier:
    """Verifies the opaque tokens of one authorization server."""

    def __init__(
        self,
        issuer: Issuer,
        settings: IntrospectionSettings,
        read_secret: Callable[[], Awaitable[str]],
        match_audience: MatchAudience,
        *,
        claims: ClaimMapping,
        identity: TenantIdentity | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._issuer = issuer
        self._settings = settings
        self._read_secret = read_secret
        self._match_audience = match_audience
        self._claims = claims
        self._identity = identity
        self._clock = clock
        self._endpoint = ""
        self._found_at = float("-inf")
        self._slots = SharedSlots(limits.INTROSPECTIONS)
        """Divided among network addresses, so that one that sends many invalid tokens does not block others."""

    @property
    def generation(self) -> int:
        """Changes with the tenants."""
        return 0 if self._identity is None else self._identity.tenants.generation

    async def verify(self, token: bytes, client: str = "") -> VerifiedToken:
        """Introspect a token that came from the network address `client`.

        Raises: TokenRefused, KeysUnavailable.
        """
        if not token.isascii() or not token.decode("ascii").isprintable():
            raise InvalidJwt("it is not printable ASCII")
        owner = network_prefix(client)
        try:
            async with asyncio.timeout(limits.INTROSPECTION_TIMEOUT_S):
                await self._slots.take(owner)
                try:
                    claims = await self._introspect(token)
                finally:
                    self._slots.give_back(owner)
        except TokenRefused:
            raise
        except (HubbubError, OSError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            logger.warning("introspection_failed", extra={"issuer": self._issuer.url, "reason": reason})
            raise KeysUnavailable("The authorization server did not introspect the token; try again later") from None
        return self._read(claims)

    async def _introspect(self, token: bytes) -> dict[str, Any]:
        settings = self._settings
        endpoint = settings.endpoint or await self._find_endpoint()
        headers = basic_authorization(settings.client_id, await self._read_secret())
        client = self._issuer.client(endpoint, is_configured=bool(settings.endpoint))
        form = {"token": token.decode("ascii"), "token_type_hint": "access_token"}
        response = await client.post_form(endpoint, form, headers=headers)
        if not response.is_success:
            raise MetadataError(f"The introspection endpoint answered with status {response.status}")
        try:
            return parse_claims(response.body)
        except InvalidClaim:
            raise MetadataError("The introspection endpoint did not answer with a JSON object") from None

    async def _find_endpoint(self) -> str:
        now = self._clock()
        if not self._endpoint or abs(now - self._found_at) > bounds.PUBLIC_KEY_FRESH_S:
            metadata = await self._issuer.fetch_metadata()
            self._endpoint = check_endpoint(metadata.introspection_endpoint, "introspection_endpoint")
            self._found_at = now
        return self._endpoint

    def _read(self, claims: dict[str, Any]) -> VerifiedToken:
        if claims.get("active") is not True:
            raise InvalidJwt("the authorization server says that it is not active")
        now, leeway = self._clock(), bounds.CLOCK_LEEWAY_S
        if claims.get("iss", self._issuer.url) != self._issuer.url:
            raise InvalidJwt("wrong issuer")
        expires_at = read_time(claims, "exp", float("inf"))
        if expires_at + leeway <= now:
            raise InvalidJwt("expired")
        if read_time(claims, "nbf", float("-inf")) - leeway > now:
            raise InvalidJwt("not valid yet")
        confirmation = claims.get("cnf")
        if confirmation is not None and not isinstance(confirmation, dict):
            raise InvalidJwt("cnf is not an object")
        return VerifiedToken(
            self._make_principal(claims),
            min(expires_at, now + limits.INTROSPECTED_TOKEN_TTL_S),
            self._match_audience(_read_audience(claims)),
            read_key_thumbprint(confirmation),
        )

    def _make_principal(self, claims: dict[str, Any]) -> Principal:
        if self._identity is not None:
            return make_token_principal({"iss": self._issuer.url} | claims, self._claims, self._identity)
        subject = claims.get("sub")
        if not isinstance(subject, str):
            raise InvalidJwt("the subject is missing")
        check_subject(subject)
        return Principal(self._claims.name_prefix + subject, read_scopes(claims, self._claims.scopes))


def _read_audience(claims: dict[str, Any]) -> frozenset[str]:
    value = claims.get("aud", ())
    values = (value,) if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or not all(isinstance(item, str) for item in values):
        raise InvalidJwt("aud is not a text or a list of texts")
    return frozenset(values)
