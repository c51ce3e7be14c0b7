"""Authenticates callers by access tokens of several authorization servers, as bearer tokens or bound by DPoP.

A token chooses its verifier by its issuer, before anything of it is trusted; tokens that are not JWTs are introspected.
What was verified is remembered, so that a bearer token costs a lookup from then on; a DPoP proof is checked each time.
"""

from __future__ import annotations

import hashlib
import logging
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from hubbub import bounds
from hubbub.oauth.dpop_proofs import DpopProofs, InvalidProof
from hubbub.oauth.resource_server.resource import ProtectedResource
from hubbub.protocol.calls import Principal
from hubbub.protocol.http_headers import Headers, RequestTarget
from hubbub.protocol.refusal import Refusal
from hubbub.security.gate import KnownCaller, RevocationSource
from hubbub.security.jose import InvalidJwt
from hubbub.security.jwks import KeysUnavailable
from hubbub.security.jwt import refuse_unavailable
from hubbub.security.verified_tokens import (
    OpaqueTokenVerifier,
    TokenRefused,
    TokenVerifier,
    VerifiedToken,
    VerifiedTokens,
    token_digest,
)
from hubbub.settings.oauth import OAuthSettings

_BEARER: Final = "Bearer"
_DPOP: Final = "DPoP"
_SCHEMES: Final = {b"bearer": _BEARER, b"dpop": _DPOP}
_JWT_PARTS: Final = 3

logger = logging.getLogger("hubbub.security")


class _Credential(msgspec.Struct, frozen=True):
    scheme: str
    token: bytes


class _Issuer(msgspec.Struct, frozen=True):
    iss: str


class AccessTokens:
    """Authenticates callers by their access tokens."""

    def __init__(
        self,
        settings: OAuthSettings,
        resource: ProtectedResource,
        issuers: Mapping[str, TokenVerifier],
        opaque: Sequence[OpaqueTokenVerifier] = (),
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`issuers` verify JWTs, by their `iss`; each of `opaque` is asked about other tokens until one accepts."""
        self._resource = resource
        self._issuers = dict(issuers)
        self._opaque = tuple(opaque)
        self._required_scopes = frozenset(settings.required_scopes)
        self._step_up_scopes = frozenset(settings.step_up_scopes)
        self._dpop = settings.dpop
        self.clock = clock
        self._proofs = DpopProofs(clock=clock)
        self._verified = VerifiedTokens([*self._issuers.values(), *self._opaque], clock)

    async def __call__(self, headers: Headers, target: RequestTarget) -> Principal | Refusal | None:
        """Return the principal of the token; None if there is no access token."""
        credential = self._read_credential(headers)
        if credential is None:
            return None
        verified = await self._find_or_verify(credential, target)
        if isinstance(verified, Refusal):
            return verified
        return self._check_use(credential, verified, headers, target) or verified.principal

    @property
    def generation(self) -> int:
        """Grows whenever tokens that were verified before must be verified again."""
        return self._verified.generation

    def find_known(self, headers: Headers, path: str) -> KnownCaller | None:
        """Return the principal of a bearer token that was verified before and is valid for every request to a path."""
        digest = headers.token_digest or token_digest(headers)
        verified = None if digest is None else self._verified.find(digest)
        if verified is None or not verified.is_sufficient:
            return None
        if verified.paths is not None and self._resource.resource_path(path) not in verified.paths:
            return None
        return KnownCaller(verified.principal, verified.usable_until)

    async def recheck(self, headers: Headers) -> Principal | Refusal | None:
        """Return the principal of the token of an open connection, whose request was checked when it arrived."""
        credential = self._read_credential(headers)
        if credential is None:
            return None
        verified = await self._find_or_verify(credential, RequestTarget("", ""))
        return verified if isinstance(verified, Refusal) else verified.principal

    def is_revoked(self, principal: str) -> bool:
        """Whether one of the verifiers knows that the token of this principal was revoked."""
        return any(isinstance(one, RevocationSource) and one.is_revoked(principal) for one in self._issuers.values())

    def _read_credential(self, headers: Headers) -> _Credential | None:
        scheme, _, token = (headers.raw(b"authorization") or b"").partition(b" ")
        found = _SCHEMES.get(scheme.lower())
        if found is None or (found == _DPOP and self._dpop == "off"):
            return None
        return _Credential(found, token.strip(b" "))

    async def _find_or_verify(self, credential: _Credential, target: RequestTarget) -> VerifiedToken | Refusal:
        token, path = credential.token, target.path
        if len(token) > bounds.CREDENTIAL_BYTES:
            return self._refuse(path, credential.scheme)
        digest = hashlib.sha256(token).digest()
        verified = self._verified.find(digest)
        if verified is not None:
            return verified
        try:
            verified = self._complete(await self._verify(token, target.client))
        except TokenRefused as reason:
            logger.info("token_refused", extra={"reason": str(reason)})
            return self._refuse(path, credential.scheme)
        except KeysUnavailable:
            return refuse_unavailable()
        self._verified.add(digest, verified)
        return verified

    async def _verify(self, token: bytes, client: str) -> VerifiedToken:
        """Raises: TokenRefused, KeysUnavailable."""
        issuer = _peek_issuer(token)
        if issuer is not None:
            verifier = self._issuers.get(issuer)
            if verifier is None:
                raise InvalidJwt("unknown issuer")
            return await verifier.verify(token)
        unavailable: KeysUnavailable | None = None
        for verifier in self._opaque:
            try:
                return await verifier.verify(token, client)
            except TokenRefused as reason:
                logger.debug("token_not_known", extra={"reason": str(reason)})
            except KeysUnavailable as error:
                unavailable = error
        if unavailable is not None:
            raise unavailable
        raise InvalidJwt("it is neither a JWT nor known by introspection")

    def _complete(self, verified: VerifiedToken) -> VerifiedToken:
        """Add what follows from the settings to a token that was verified."""
        principal = verified.principal
        is_bearer = verified.key_thumbprint is None and self._dpop != "require"
        is_sufficient = is_bearer and self._required_scopes <= principal.scopes
        if step_up := self._step_up_scopes - principal.scopes:
            principal = msgspec.structs.replace(principal, step_up_scopes=step_up)
        return msgspec.structs.replace(verified, principal=principal, is_sufficient=is_sufficient)

    def _check_use(
        self, credential: _Credential, verified: VerifiedToken, headers: Headers, target: RequestTarget
    ) -> Refusal | None:
        """Refuse a valid token that this request must not use."""
        path, scheme = target.path, credential.scheme
        if verified.paths is not None and self._resource.resource_path(path) not in verified.paths:
            logger.info("token_refused", extra={"reason": "its audience is another endpoint of this server"})
            return self._refuse(path, scheme)
        if verified.key_thumbprint is None:
            if scheme == _DPOP or self._dpop == "require":
                return self._refuse(path, _DPOP, description="The access token is not bound to a key")
        elif self._dpop == "off":
            return self._refuse(path, scheme, description="Access tokens that are bound to a key are not accepted")
        elif scheme == _BEARER:
            return self._refuse(
                path,
                _DPOP,
                description="The access token is bound to a key",
                advice="send it as 'Authorization: DPoP <token>' with a proof in the header DPoP",
            )
        else:
            refusal = self._check_proof(credential.token, verified.key_thumbprint, headers, target)
            if refusal is not None:
                return refusal
        if not self._required_scopes <= verified.principal.scopes:
            return self._refuse_scopes(path, verified.principal, scheme)
        return None

    def _check_proof(
        self, token: bytes, key_thumbprint: str, headers: Headers, target: RequestTarget
    ) -> Refusal | None:
        try:
            url = self._resource.url(target.path)
            self._proofs.check(
                headers.raw(b"dpop"), method=target.method, url=url, token=token, key_thumbprint=key_thumbprint
            )
        except InvalidProof as problem:
            logger.info("dpop_proof_refused", extra={"reason": problem.message})
            challenge = self._resource.challenge(
                target.path, scheme=_DPOP, error="invalid_dpop_proof", description=problem.message
            )
            return Refusal(
                401, f"The DPoP proof of this request is not accepted: {problem.message}", _challenged(challenge)
            )
        return None

    def _refuse(
        self, path: str, scheme: str, description: str = "The access token is not accepted", advice: str = ""
    ) -> Refusal:
        advice = advice or f"get a new one for this server and send it as 'Authorization: {scheme} <token>'"
        challenge = self._resource.challenge(path, scheme=scheme, error="invalid_token", description=description)
        return Refusal(401, f"{description}; {advice}", _challenged(challenge))

    def _refuse_scopes(self, path: str, principal: Principal, scheme: str) -> Refusal:
        needed = " ".join(sorted(self._required_scopes))
        return Refusal(
            403,
            f"This server needs an access token with the scopes {needed}; get one and retry",
            self._challenge_scopes(path, principal, self._required_scopes, scheme),
            principal=principal.name,
        )

    def challenge_scopes(
        self, headers: Headers, path: str, principal: Principal, needed: frozenset[str]
    ) -> tuple[tuple[bytes, bytes], ...]:
        """Return the headers of the refusal of a request that needs these scopes."""
        credential = self._read_credential(headers)
        return self._challenge_scopes(path, principal, needed, "" if credential is None else credential.scheme)

    def _challenge_scopes(
        self, path: str, principal: Principal, needed: frozenset[str], scheme: str
    ) -> tuple[tuple[bytes, bytes], ...]:
        # The scopes of the token are included, because the new token would lose them otherwise.
        challenge = self._resource.challenge(
            path,
            scheme=scheme,
            error="insufficient_scope",
            description=f"More scopes are needed: {' '.join(sorted(needed - principal.scopes))}",
            scopes=needed | principal.scopes,
        )
        return _challenged(challenge)


def _challenged(challenge: bytes) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"www-authenticate", challenge),)


def _peek_issuer(token: bytes) -> str | None:
    """Return the issuer that a JWT claims, to choose its verifier; None if it is not a JWT.

    Raises: InvalidJwt, if it names none.
    """
    parts = token.split(b".")
    if len(parts) != _JWT_PARTS:
        return None
    try:
        payload = urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(payload, type=_Issuer).iss
    except (ValueError, RecursionError):
        raise InvalidJwt("it cannot be read, or names no issuer") from None
