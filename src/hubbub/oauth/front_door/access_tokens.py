"""Access tokens of the front door: short-lived JWTs (RFC 9068), signed here and accepted here without a request.

A token names its grant (`sid`). Which grants have ended is read from the store every few seconds, and known at once in
the process in which one ends, so a token of an ended grant is refused long before it expires.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.oauth.front_door import limits
from hubbub.oauth.front_door.key_logins import KeyLogins, LoginStatus
from hubbub.oauth.front_door.records import Grant
from hubbub.oauth.front_door.signing_keys import SigningKeys
from hubbub.protocol.calls import Principal
from hubbub.protocol.scopes import ADMIN_SCOPE
from hubbub.security.jose import InvalidJwt, JwtSigningKey, new_token_id, parse_jwt, verify_jwt
from hubbub.security.tenant_identity import TenantIdentity
from hubbub.security.verified_tokens import MatchAudience, VerifiedToken

_TYPE: Final = "at+jwt"
_TYPES: Final = frozenset((_TYPE,))


class _Confirmation(msgspec.Struct, frozen=True):
    jkt: str


class _Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    iss: str
    sub: str
    aud: str
    exp: int
    iat: int
    jti: str
    client_id: str
    sid: str
    scope: str = ""
    tenant: str = ""
    key: str = ""
    """The id and version of the API key that the person logged in with."""
    cnf: _Confirmation | None = None


_decoder: Final = msgspec.json.Decoder(_Claims)


def sign_access_token(
    kid: str, key: JwtSigningKey, issuer: str, grant: Grant, scopes: Iterable[str], now: float
) -> str:
    """Return an access token of a grant."""
    authorization = grant.authorization
    claims = _Claims(
        iss=issuer,
        sub=authorization.user.name,
        aud=authorization.resource,
        exp=int(now + limits.ACCESS_TOKEN_S),
        iat=int(now),
        jti=new_token_id(),
        client_id=authorization.client_id,
        sid=grant.grant_id,
        scope=" ".join(scopes),
        tenant=authorization.user.tenant,
        key=authorization.user.key,
        cnf=_Confirmation(grant.jkt) if grant.jkt else None,
    )
    builtins: dict[str, Any] = msgspec.to_builtins(claims)
    return key.sign(builtins, header={"typ": _TYPE, "kid": kid})


class LocalTokenVerifier:
    """Verifies the tokens of this server; a `TokenVerifier` and a `RevocationSource`."""

    def __init__(
        self,
        issuer: str,
        keys: SigningKeys,
        *,
        identity: TenantIdentity | None,
        match_audience: MatchAudience,
        key_logins: KeyLogins,
        clock: Callable[[], float],
    ) -> None:
        """`match_audience` decides at which paths an audience is valid."""
        self.issuer = issuer
        self._keys = keys
        self._identity = identity
        self._match_audience = match_audience
        self._key_logins = key_logins
        self._clock = clock
        self._ended: set[str] = set()
        self._ended_here: dict[str, float] = {}
        """The grants that ended in this process, and when their last access token has expired."""
        self._ended_generation = 0
        self._grants: OrderedDict[str, _Claims] = OrderedDict()
        """The claims of principals that were verified, with tenants."""

    @property
    def generation(self) -> int:
        """Grows whenever tokens that were verified before must be verified again."""
        tenants = 0 if self._identity is None else self._identity.tenants.generation
        return self._keys.generation + self._ended_generation + self._key_logins.generation + tenants

    def set_ended(self, grant_ids: Iterable[str]) -> None:
        """Set the grants that have ended, as the store had them when it was read."""
        now = self._clock()
        # What ended here meanwhile may not have been in the store then.
        self._ended_here = {grant_id: until for grant_id, until in self._ended_here.items() if until > now}
        ended = {*grant_ids, *self._ended_here}
        if ended - self._ended:
            self._ended_generation += 1
        self._ended = ended

    def add_ended(self, grant_ids: Iterable[str]) -> None:
        """Refuse the tokens of these grants at once."""
        new = dict.fromkeys(grant_ids, self._clock() + limits.ACCESS_TOKEN_S)
        if new:
            self._ended_here |= new
            self.set_ended(self._ended)

    async def verify(self, token: bytes) -> VerifiedToken:
        """Verify a token.

        Raises: TokenRefused, KeysUnavailable.
        """
        claims = await self._read(token)
        if claims.exp <= self._clock():
            raise InvalidJwt("expired")
        if claims.sid in self._ended:
            raise InvalidJwt("its grant has ended")
        login = self._check_login(claims)
        if login is None:
            raise InvalidJwt("the API key that its user logged in with is no longer valid")
        paths = self._match_audience(frozenset((claims.aud,)))
        principal = self._make_principal(claims, login)
        # A key that expires does not change the generation.
        usable_until = min(claims.exp, login.ends_at, self._clock() + bounds.VERIFIED_TOKEN_TTL_S)
        return VerifiedToken(principal, usable_until, paths, None if claims.cnf is None else claims.cnf.jkt)

    async def find_grant_id(self, token: bytes) -> str:
        """Return the grant of a token, also of an expired one; empty if it is not one of ours."""
        try:
            return (await self._read(token)).sid
        except InvalidJwt:
            return ""

    async def _read(self, token: bytes) -> _Claims:
        signed = parse_jwt(token, _TYPES)
        key = await self._keys.find(signed.protected.get("kid"), signed.protected["alg"])
        if key is None:
            raise InvalidJwt("no key matches")
        try:
            claims = _decoder.decode(verify_jwt(signed, key))
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidJwt(f"claims: {error}") from None
        if claims.iss != self.issuer:
            raise InvalidJwt("wrong issuer")
        return claims

    def _check_login(self, claims: _Claims) -> LoginStatus | None:
        _ = self._key_logins.generation  # reads the file of keys if it has changed
        return self._key_logins.check(claims.key, claims.tenant, claims.sub)

    def _make_principal(self, claims: _Claims, login: LoginStatus) -> Principal:
        scopes = frozenset(claims.scope.split())
        if login.scopes is not None:
            # The key may have lost scopes since the consent.
            scopes &= login.scopes
        if self._identity is None:
            if claims.tenant:
                raise InvalidJwt("it belongs to a tenant, and there are none")
            return Principal(claims.sub, scopes)
        is_operator = not claims.tenant and ADMIN_SCOPE in scopes
        if claims.tenant not in self._identity.tenants and not is_operator:
            raise InvalidJwt("its tenant is not in the settings")
        principal = self._identity.make_principal(
            tenant=claims.tenant,
            user=claims.sub,
            client=claims.client_id,
            scopes=scopes,
            credential=("oauth", claims.sid),
        )
        self._grants[principal.name] = claims
        self._grants.move_to_end(principal.name)
        if len(self._grants) > bounds.VERIFIED_TOKENS:
            self._grants.popitem(last=False)
        return principal

    def is_revoked(self, principal: str) -> bool:
        """Whether the grant of this principal has ended; without tenants, grants of one user share a principal."""
        known = self._grants.get(principal)
        return known is not None and (known.sid in self._ended or self._check_login(known) is None)
