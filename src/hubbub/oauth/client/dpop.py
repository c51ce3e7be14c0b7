"""DPoP proofs (RFC 9449): a token is bound to a key, and each request proves that its sender has that key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from hubbub.security.jose import JwtSigningKey, hash_base64url, new_token_id


class DpopKey:
    """A key that makes proofs, with the nonce that the server asked for last."""

    def __init__(self, key: JwtSigningKey, clock: Callable[[], float]) -> None:
        self._key = key
        self._jwk = key.public_jwk()
        self._clock = clock
        self.nonce = ""

    def make_proof(self, method: str, url: str, access_token: str | None = None) -> str:
        """Return the value of a `DPoP` header for one request."""
        parts = urlsplit(url)
        claims: dict[str, Any] = {
            "jti": new_token_id(),
            "htm": method,
            "htu": urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")),
            "iat": int(self._clock()),
        }
        if access_token is not None:
            claims["ath"] = hash_base64url(access_token.encode())
        if self.nonce:
            claims["nonce"] = self.nonce
        return self._key.sign(claims, header={"typ": "dpop+jwt", "jwk": self._jwk})
