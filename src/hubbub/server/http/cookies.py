"""The `mcp_session` cookie: identifies a plain caller without a table in memory.

A value that we issued carries a MAC, so it is recognised without being stored. A legacy
session uses its own id as the value.
"""

from __future__ import annotations

import hmac
import os
import secrets
from hashlib import blake2b

from hubbub.ports import HttpExchange

COOKIE_NAME = "mcp_session"
_TAG_CHARACTERS = 22


class Cookies:
    """Issues and recognises cookie values."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key if key is not None else os.urandom(32)

    def issue(self) -> str:
        """Return a new value."""
        token = secrets.token_urlsafe(16)
        return f"{token}.{self._make_tag(token)}"

    def is_issued(self, value: str) -> bool:
        """Whether we issued this value."""
        token, _, tag = value.rpartition(".")
        return bool(token) and hmac.compare_digest(tag.encode(), self._make_tag(token).encode())

    def _make_tag(self, token: str) -> str:
        return blake2b(token.encode(), key=self._key, digest_size=_TAG_CHARACTERS // 2).hexdigest()


def read_cookie(header: str | None) -> str | None:
    """Return the value of our cookie in a `Cookie` header."""
    for pair in (header or "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE_NAME:
            return value.strip('"')
    return None


def delete_cookie(root_path: str) -> tuple[bytes, bytes]:
    """Return the `Set-Cookie` header that deletes the cookie."""
    return b"set-cookie", f"{COOKIE_NAME}=; Path={root_path or '/'}; HttpOnly; SameSite=Strict; Max-Age=0".encode()


def set_cookie(value: str, exchange: HttpExchange) -> tuple[bytes, bytes]:
    """Return the `Set-Cookie` header for a value; its path is the mount's, as other apps may set the same name."""
    secure = "; Secure" if exchange.scheme == "https" else ""
    path = exchange.root_path or "/"
    return b"set-cookie", f"{COOKIE_NAME}={value}; Path={path}; HttpOnly; SameSite=Strict{secure}".encode()
