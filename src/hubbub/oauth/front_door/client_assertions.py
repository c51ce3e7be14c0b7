"""Clients that authenticate with a signed JWT (`private_key_jwt`, RFC 7523), whose documents name their public keys.

An assertion may be sent again until it expires: it is useless without a code and its verifier or a refresh token, which
work once.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.errors import HubbubError
from hubbub.net.egress_rules import EgressRules
from hubbub.oauth.documents import DocumentClient
from hubbub.oauth.errors import OAuthError, ServerUnavailable
from hubbub.oauth.front_door import limits
from hubbub.oauth.front_door.attempt_limiter import AttemptLimiter
from hubbub.oauth.front_door.client_documents import document_egress
from hubbub.oauth.front_door.clients import PRIVATE_KEY_JWT, Client
from hubbub.oauth.metadata import show_url
from hubbub.security.jose import InvalidJwt, parse_jwt, read_key_set, verify_jwt, verify_with_keys
from hubbub.security.jwks import FetchedKeys, KeysUnavailable, select_key
from hubbub.security.rates import Rate
from hubbub.security.token_claims import InvalidClaim, parse_claims, read_time

_JWT_TYPES: Final = frozenset(("jwt", "client-authentication+jwt"))
_OK: Final = 200

logger = logging.getLogger("hubbub.oauth")


class ClientAssertions:
    """Verifies client assertions. Key sets are fetched when they are needed, and cached."""

    def __init__(self, audiences: frozenset[str], rules: Callable[[], EgressRules], clock: Callable[[], float]) -> None:
        """`audiences`: the URLs of this server; `aud` must contain one of them."""
        self._audiences = audiences
        self._rules = rules
        self._clock = clock
        self._key_sets: OrderedDict[str, FetchedKeys] = OrderedDict()
        self._attempts = AttemptLimiter(Rate(limits.CLIENT_DOCUMENTS_PER_MINUTE, 60, "minute"), clock)

    async def authenticate(self, client: Client, assertion: str, address: str) -> Client:
        """Return the client marked as authenticated; unchanged if its method is not `private_key_jwt`.

        Raises:
            ServerUnavailable: its keys cannot be fetched at the moment.
            OAuthError: the assertion is not accepted.
        """
        if client.auth_method != PRIVATE_KEY_JWT:
            return client
        try:
            if len(assertion) > bounds.CREDENTIAL_BYTES:
                raise InvalidJwt("it is too large")
            signed = parse_jwt(assertion.encode("utf-8", "replace"), _JWT_TYPES)
            self._check(parse_claims(await self._verify(client, signed, address)), client.client_id)
        except (InvalidJwt, InvalidClaim) as error:
            logger.info("oauth_client_assertion_refused", extra={"client": client.client_id, "reason": str(error)})
            raise OAuthError(f"client_assertion is not accepted: {error}") from None
        except KeysUnavailable:
            raise ServerUnavailable("The keys of the client cannot be fetched at the moment; try again later") from None
        return msgspec.structs.replace(client, is_authenticated=True)

    async def _verify(self, client: Client, signed: Any, address: str) -> bytes:
        if client.jwks_uri:
            return await verify_with_keys(signed, self._find_keys(client.jwks_uri, address))
        key = select_key(read_key_set(client.jwks), signed.protected.get("kid"), signed.protected["alg"])
        if key is None:
            raise InvalidJwt("no key matches")
        return verify_jwt(signed, key)

    def _find_keys(self, url: str, address: str) -> FetchedKeys:
        keys = self._key_sets.get(url)
        if keys is None:
            if wait_s := self._attempts.wait_s(address):
                raise ServerUnavailable(
                    "Too many client keys had to be fetched for this network address; try again later", wait_s
                )
            self._attempts.add(address)
            keys = self._key_sets[url] = FetchedKeys(url, self._fetch, read_key_set, monotonic=self._clock)
        self._key_sets.move_to_end(url)
        if len(self._key_sets) > limits.CLIENT_KEY_SETS:
            self._key_sets.popitem(last=False)
        return keys

    async def _fetch(self, url: str) -> bytes:
        rules = self._rules()
        response = await DocumentClient(document_egress(url, rules), rules).get(url)
        if response.status != _OK or len(response.body) > limits.CLIENT_DOCUMENT_BYTES:
            raise HubbubError(f"{show_url(url)} answered with status {response.status}, or with too large a key set")
        return response.body

    def _check(self, claims: dict[str, Any], client_id: str) -> None:
        if (claims.get("iss"), claims.get("sub")) != (client_id, client_id):
            raise InvalidJwt("iss and sub must be the client_id")
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if not any(isinstance(each, str) and each in self._audiences for each in audiences):
            raise InvalidJwt("aud must be the issuer or the token endpoint of this server")
        now, leeway = self._clock(), bounds.CLOCK_LEEWAY_S
        expires_at = read_time(claims, "exp")
        if expires_at + leeway <= now:
            raise InvalidJwt("expired")
        if expires_at - leeway > now + limits.CLIENT_ASSERTION_S:
            raise InvalidJwt(f"exp must be at most {limits.CLIENT_ASSERTION_S:g} s from now")
        if max(read_time(claims, "nbf", now), read_time(claims, "iat", now)) - leeway > now:
            raise InvalidJwt("not valid yet; compare the clocks of both servers")
