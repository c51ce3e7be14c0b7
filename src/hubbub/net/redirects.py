"""The target of a redirect: its origin, and whether that is the origin of the request.

Nothing in `hubbub.net` follows redirects, because headers may hold secrets that are for one server only.
Only the MCP endpoint follows one redirect within its origin (`hubbub.transports.http_client`).
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urljoin, urlsplit

_DEFAULT_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_HOST_PATTERN: Final = re.compile(r"[a-z0-9._:-]{1,253}")


def describe_redirect(url: str, status: int, location: str) -> str:
    """Return the error message for a redirect; it names the origin only, as path and query may hold secrets."""
    return (
        f"The server answered with a redirect (status {status}) {_describe_target(url, location)}; "
        "redirects are not followed, so configure the final address if you trust it"
    )


def same_origin_target(url: str, location: str) -> str | None:
    """The absolute URL that a redirect leads to; None if it leaves the origin or cannot be parsed."""
    try:
        target = urljoin(url, location)
        parts = urlsplit(target)
        is_same = _parse_origin(target) == _parse_origin(url) and not parts.username and not parts.password
    except ValueError:
        return None
    if not location or not is_same:
        return None
    requested = urlsplit(url)
    # Credentials in the URL belong to the origin, so they stay when the redirect leaves them out.
    return parts._replace(netloc=requested.netloc, fragment="").geturl()


def _describe_target(url: str, location: str) -> str:
    if not location:
        return "without a Location header"
    try:
        scheme, host, port = _parse_origin(urljoin(url, location))
        if (scheme, host, port) == _parse_origin(url):
            return "to another path of the same server"
    except ValueError:
        return "to an invalid address"
    if scheme not in _DEFAULT_PORTS or not _HOST_PATTERN.fullmatch(host):
        return "to an invalid address"
    display_host = f"[{host}]" if ":" in host else host
    return f"to {scheme}://{display_host}" + ("" if port == _DEFAULT_PORTS[scheme] else f":{port}")


def _parse_origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _DEFAULT_PORTS.get(parts.scheme)
