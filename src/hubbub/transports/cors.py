"""CORS: lets pages of allowed origins read the server's responses.

Only browsers send an `Origin`; other requests pass through unchanged. Allowed origins are decided by the
same rule as in the gate, which refuses the others anyway: CORS protects pages from each other, not the
server. Wraps the whole HTTP app, so that pages can read refusals too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from hubbub import bounds
from hubbub.ports import HttpExchange
from hubbub.protocol.host_origin import AllowedOrigins
from hubbub.protocol.http_headers import HeaderList, Headers
from hubbub.protocol.mcp_headers import PARAMETER_PREFIX
from hubbub.protocol.refusal import Refusal

Endpoint = Callable[[HttpExchange], Coroutine[Any, Any, None]]

ALLOWED_METHODS: Final = ("GET", "POST", "OPTIONS", "DELETE")
ALLOWED_HEADERS: Final = (
    "Content-Type",
    "X-API-Key",
    "Authorization",
    "DPoP",
    "Mcp-Session-Id",
    "MCP-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "Last-Event-ID",
    "X-MCP-Version",
)
EXPOSED_HEADERS: Final = ("Mcp-Session-Id", "X-MCP-Version", "Retry-After", "WWW-Authenticate", "DPoP-Nonce")

_SAFELISTED_HEADERS: Final = ("Accept", "Accept-Language", "Content-Language")
"""Headers that browsers always allow, but some still ask for in a preflight."""
_ORIGIN: Final = b"origin"
_REQUESTED_METHOD: Final = b"access-control-request-method"
_REQUESTED_HEADERS: Final = b"access-control-request-headers"
_REQUESTED_NETWORK: Final = b"access-control-request-private-network"
_PREFLIGHT_VARY: Final = b", ".join((_ORIGIN, _REQUESTED_METHOD, _REQUESTED_HEADERS, _REQUESTED_NETWORK)).title()
_EXPOSE_HEADER: Final = (b"access-control-expose-headers", ", ".join(EXPOSED_HEADERS).encode())
_ANY_ORIGIN: Final = ((b"access-control-allow-origin", b"*"),)
_VARY_BY_ORIGIN: Final = (b"vary", b"Origin")
_PARAMETER_HEADER: Final = re.compile(
    re.escape(PARAMETER_PREFIX) + r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}", re.IGNORECASE
)


class Cors:
    """An endpoint that adds CORS headers to another. Cookies are allowed unless all origins are allowed."""

    def __init__(
        self,
        endpoint: Endpoint,
        allowed_origins: Iterable[str] = (),
        *,
        check: Callable[[Headers, bool], Refusal | None] = lambda headers, any_origin: None,
        is_open: Callable[[str], bool] = lambda path: False,
        on_response: Callable[[str, int], None] = lambda path, status: None,
    ) -> None:
        """`check` gets whether every origin is allowed; `is_open`: whether that is so for a path, without cookies."""
        self._endpoint = endpoint
        self._check = check
        self._is_open = is_open
        self._on_response = on_response
        self._origins = AllowedOrigins(allowed_origins)

    def serve(self, exchange: HttpExchange) -> Coroutine[Any, Any, None]:
        """Serve one request."""
        find, endpoint = exchange.headers.raw, self._endpoint
        origin = find(_ORIGIN)
        return endpoint(exchange) if origin is None else self._serve_page(exchange, origin)

    async def _serve_page(self, exchange: HttpExchange, origin: bytes) -> None:
        headers = exchange.headers
        is_open = self._is_open(exchange.path)
        if exchange.method != "OPTIONS" or _REQUESTED_METHOD not in headers:
            allowed = _ANY_ORIGIN if is_open else self._origin_headers(origin)
            exchange.extra_headers = (*allowed, _EXPOSE_HEADER, _VARY_BY_ORIGIN)
            await self._endpoint(exchange)
        elif self._check(headers, is_open) is not None:
            await self._endpoint(exchange)  # which refuses it for the same reason
        else:
            # The endpoint never sees a preflight, so what it does for every request must be done here.
            allowed = _ANY_ORIGIN if is_open else self._origin_headers(origin)
            status, fields, body = self._preflight_response(allowed, headers)
            self._on_response(exchange.path, status)
            await exchange.respond(status, body, fields, content_type=b"text/plain; charset=utf-8")

    def _origin_headers(self, origin: bytes) -> HeaderList:
        """Return the headers that let a page read the response; none if its origin is not allowed."""
        if not self._origins.allow(origin):
            return ()
        if self._origins.allows_any:
            return _ANY_ORIGIN
        return ((b"access-control-allow-origin", origin), (b"access-control-allow-credentials", b"true"))

    def _preflight_response(self, allowed: HeaderList, headers: Headers) -> tuple[int, HeaderList, bytes]:
        """Return status, headers and body of the response to a preflight request."""
        requested = [name.strip() for name in (headers.get(_REQUESTED_HEADERS) or "").split(",")]
        # Browsers require every name in full, and only tools know these names.
        parameters = list(filter(_PARAMETER_HEADER.fullmatch, requested))[: bounds.REQUESTED_HEADERS]
        names = sorted({*_SAFELISTED_HEADERS, *ALLOWED_HEADERS, *parameters})
        known = {name.lower() for name in names}
        disallowed = []
        if not allowed:
            disallowed.append("origin")
        if headers.get(_REQUESTED_METHOD) not in ALLOWED_METHODS:
            disallowed.append("method")
        if _REQUESTED_HEADERS in headers and not all(name.lower() in known for name in requested):
            disallowed.append("headers")
        body = b"Disallowed CORS " + ", ".join(disallowed).encode() if disallowed else b"OK"
        fields = [
            (b"vary", _PREFLIGHT_VARY),
            (b"access-control-allow-methods", ", ".join(ALLOWED_METHODS).encode()),
            (b"access-control-allow-headers", ", ".join(names).encode()),
            (b"access-control-max-age", b"%d" % bounds.PREFLIGHT_CACHE_S),
            *allowed,
        ]
        if _REQUESTED_NETWORK in headers:
            # Allowing an origin includes calls from a public page to a server on this machine or private network.
            fields.append((b"access-control-allow-private-network", b"true"))
        return (400 if disallowed else 200), fields, body
