"""URLs of servers: which are taken, and how they are shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

from hubbub.errors import SettingsError
from hubbub.protocol.authority import parse_authority

_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\\]")


def check_url(url: str, schemes: Sequence[str]) -> SplitResult:
    """Refuse what is no plain URL of a server. Messages never repeat what may hold a secret.

    Raises: SettingsError.
    """
    if _UNSAFE.search(url):
        raise SettingsError("`url` must not contain blanks, control characters or backslashes")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"`url` cannot be read: {error}") from None
    if parts.scheme not in schemes:
        raise SettingsError(f"`url` must start with {schemes[0]}:// or {schemes[1]}://")
    if "@" in parts.netloc:
        raise SettingsError("`url` must not contain a user or a password; use `headers` or `headers_provider`")
    if parts.fragment or "#" in url:
        raise SettingsError("`url` must not have a fragment (#...)")
    if port == 0 or not parts.hostname or parse_authority(_ascii_host(parts.netloc)) is None:
        raise SettingsError("`url` needs a host: a name, or an address in its usual form")
    return parts


def _ascii_host(netloc: str) -> str:
    if netloc.isascii():
        return netloc
    try:
        return netloc.encode("idna").decode()
    except UnicodeError:
        return ""


def shown_url(url: str) -> str:
    """The URL without its query, which may hold a key."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
