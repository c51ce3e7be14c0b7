"""The `mcp_session` cookie: a name for a caller that costs no memory.

A value that we issued carries a tag that only we can compute, so it is known again
without being remembered. A legacy session uses its own id as the value.
"""

from __future__ import annotations

import hmac
import os
import secrets
from hashlib import blake2b

NAME = "mcp_session"
_TAG_CHARACTERS = 22


class Cookies:
    """Issues and recognises cookie values."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key if key is not None else os.urandom(32)

    def issue(self) -> str:
        """A fresh value."""
        token = secrets.token_urlsafe(16)
        return f"{token}.{self._tag(token)}"

    def knows(self, value: str) -> bool:
        """Whether we issued this value."""
        token, _, tag = value.rpartition(".")
        return bool(token) and hmac.compare_digest(tag.encode(), self._tag(token).encode())

    def _tag(self, token: str) -> str:
        return blake2b(token.encode(), key=self._key, digest_size=_TAG_CHARACTERS // 2).hexdigest()


def read_cookie(header: str | None) -> str | None:
    """The value of our cookie in a `Cookie` header."""
    for pair in (header or "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == NAME:
            return value.strip('"')
    return None


def set_cookie(value: str, scheme: str) -> tuple[bytes, bytes]:
    """The `Set-Cookie` header for a value."""
    secure = "; Secure" if scheme == "https" else ""
    return b"set-cookie", f"{NAME}={value}; Path=/; HttpOnly; SameSite=Strict{secure}".encode()
