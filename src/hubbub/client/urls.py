"""URLs of servers: validation, and masking for display."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

from hubbub.errors import SettingsError
from hubbub.protocol.host_origin import parse_authority
from hubbub.security.redact import MASK

_TOKEN_CHARACTERS: Final = 16
_DIGIT: Final = re.compile(r"\d")
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\\]")


def check_url(url: str, schemes: Sequence[str]) -> SplitResult:
    """Check that this is a plain URL of a server. Error messages never contain parts that may be secret.

    Raises: SettingsError.
    """
    if _UNSAFE.search(url):
        raise SettingsError("`url` must not contain spaces, control characters or backslashes")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"`url` is invalid: {error}") from None
    if parts.scheme not in schemes:
        raise SettingsError(f"`url` must start with {schemes[0]}:// or {schemes[1]}://")
    if "@" in parts.netloc:
        raise SettingsError("`url` must not contain a user or a password; use `headers` or `headers_provider`")
    if parts.fragment or "#" in url:
        raise SettingsError("`url` must not have a fragment (#...)")
    if port == 0 or not parts.hostname or parse_authority(_ascii_host(parts.netloc)) is None:
        raise SettingsError("`url` needs a valid host: a name or an IP address")
    return parts


def _ascii_host(netloc: str) -> str:
    if netloc.isascii():
        return netloc
    try:
        return netloc.encode("idna").decode()
    except UnicodeError:
        return ""


def redact_url(url: str) -> str:
    """Return the URL without parts that may contain a key: its query, and long segments of its path."""
    parts = urlsplit(url)
    path = "/".join(segment if len(segment) < _TOKEN_CHARACTERS else MASK for segment in parts.path.split("/"))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"


def looks_like_token(text: str) -> bool:
    """Whether a part of a URL looks like a key and not like a word: long, with letters and digits."""
    return len(text) >= _TOKEN_CHARACTERS and not text.isalpha() and not text.isdigit() and bool(_DIGIT.search(text))
