"""Join tokens: a room, a stream id and an expiry, signed with a secret that all who may join share. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Final

from hubbub import bounds
from hubbub.packs.peers.javascript import Unreadable, parse, stringify

REQUIRED: Final = "join token required"


class TokenRefused(ValueError):
    """Why a token is no good, in the words of the original."""


def mint(secret: str, room: str, stream_id: str, expires_ms: int, nonce: str, key: str | None = None) -> str:
    """A token for one stream in one room; `key`: only for who has the other half of this public key.

    Whoever is shown a token could show it as their own. An original does not look at the key.
    """
    claims: dict[str, Any] = {"room": room, "stream_id": stream_id, "exp": expires_ms, "nonce": nonce}
    if key is not None:
        claims["key"] = key
    head = _encode(stringify(claims).encode())
    return f"{head}.{_encode(_signature(secret, head))}"


def check(token: str, secrets: Sequence[str], room: str, stream_id: str, now_ms: float) -> str | None:
    """Check a token that came from the stream of that id; without secrets any token is good.

    Returns: the public key that it is for, if it names one.

    Raises: TokenRefused.
    """
    if not secrets:
        return None
    claims = open_token(token, secrets)
    if claims.get("room") is not None and claims["room"] != room:
        raise TokenRefused("join token room mismatch")
    if claims.get("stream_id") is not None and claims["stream_id"] != stream_id:
        raise TokenRefused("join token stream mismatch")
    expires = claims.get("exp")
    if expires is not None and (isinstance(expires, bool) or not isinstance(expires, int | float)):
        raise TokenRefused("invalid token payload: exp is not a number")
    if expires is not None and expires <= now_ms:
        raise TokenRefused("join token expired")
    key = claims.get("key")
    return None if key is None else str(key)


def open_token(token: str, secrets: Sequence[str]) -> dict[str, Any]:
    """The claims of a token that one of the secrets has signed.

    Raises: TokenRefused.
    """
    head, dot, tail = token.partition(".")
    if not head or not dot or not tail or "." in tail or len(token) > bounds.CREDENTIAL_BYTES or not token.isascii():
        raise TokenRefused("invalid token format")
    if not any(hmac.compare_digest(_encode(_signature(secret, head)), tail) for secret in secrets):
        raise TokenRefused("invalid token signature")
    try:
        claims = parse(base64.b64decode(head + "=" * (-len(head) % 4), altchars=b"-_", validate=True))
    except (Unreadable, ValueError) as error:
        raise TokenRefused(f"invalid token payload: {error}") from error
    if not isinstance(claims, dict):
        raise TokenRefused("invalid token payload: not an object")
    return claims


def _signature(secret: str, head: str) -> bytes:
    return hmac.digest(secret.encode("utf-8", "surrogatepass"), head.encode(), hashlib.sha256)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
