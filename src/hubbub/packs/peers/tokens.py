"""Join tokens: a room, a stream id and an expiry, signed with a secret shared by all who may join. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Final

from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.js_json import JsonError, parse, stringify

REQUIRED: Final = "join token required"


class TokenRefused(PeersError):
    """A token is invalid; the message is worded like the VDO.Ninja bridge's."""


class TokenMismatch(TokenRefused):
    """A valid token that is for another room or stream, or has expired."""


def mint(secret: str, room: str, stream_id: str, expires_ms: int, nonce: str, key: str | None = None) -> str:
    """Create a token for one stream in one room; `key`: valid only for the owner of this public key.

    Without a key, a peer that receives a token could present it as its own. A VDO.Ninja bridge does not check the
    key.
    """
    claims: dict[str, Any] = {"room": room, "stream_id": stream_id, "exp": expires_ms, "nonce": nonce}
    if key is not None:
        claims["key"] = key
    head = _encode(stringify(claims).encode())
    return f"{head}.{_encode(_signature(secret, head))}"


def check(token: str, secrets: Sequence[str], room: str, stream_id: str, now_ms: float) -> str | None:
    """Check a token from the peer with that stream id; without secrets every token is accepted.

    Returns: the public key that it is bound to, if it names one.

    Raises: TokenRefused.
    """
    if not secrets:
        return None
    claims = open_token(token, secrets)
    if claims.get("room") is not None and claims["room"] != room:
        raise TokenMismatch("join token room mismatch")
    if claims.get("stream_id") is not None and claims["stream_id"] != stream_id:
        raise TokenMismatch("join token stream mismatch")
    expires = claims.get("exp")
    if expires is not None and (isinstance(expires, bool) or not isinstance(expires, int | float)):
        raise TokenRefused("invalid token payload: exp is not a number")
    if expires is not None and expires <= now_ms:
        raise TokenMismatch("join token expired")
    key = claims.get("key")
    return None if key is None else str(key)


def open_token(token: str, secrets: Sequence[str]) -> dict[str, Any]:
    """Return the claims of a token that was signed with one of the secrets.

    Raises: TokenRefused.
    """
    head, dot, tail = token.partition(".")
    if not head or not dot or not tail or "." in tail or len(token) > limits.JOIN_TOKEN_BYTES or not token.isascii():
        raise TokenRefused("invalid token format")
    if not any(hmac.compare_digest(_encode(_signature(secret, head)), tail) for secret in secrets):
        raise TokenRefused("invalid token signature")
    try:
        claims = parse(base64.b64decode(head + "=" * (-len(head) % 4), altchars=b"-_", validate=True))
    except (JsonError, ValueError) as error:
        raise TokenRefused(f"invalid token payload: {error}") from error
    if not isinstance(claims, dict):
        raise TokenRefused("invalid token payload: not an object")
    return claims


def _signature(secret: str, head: str) -> bytes:
    return hmac.digest(secret.encode("utf-8", "surrogatepass"), head.encode(), hashlib.sha256)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
