"""CORS: lets pages of allowed origins read what the server answers.

Starlette's middleware does the work. It is loaded with the first request that
carries an `Origin`, which only browsers send; every other request goes straight
through. Which origins are allowed is decided by the same rule as at the gate, which
refuses the others anyway: CORS protects pages from each other, not the server.
Wraps the whole HTTP app, so that refusals too can be read by the page that gets them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from hubbub import bounds
from hubbub.protocol.authority import ANY, Origins
from hubbub.protocol.headers import PARAMETER_PREFIX
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.refusal import Refusal
from hubbub.transports.http import App, Message, Receive, Scope, Send

METHODS: Final = ("GET", "POST", "OPTIONS", "DELETE")
HEADERS: Final = (
    "Content-Type",
    "X-API-Key",
    "Authorization",
    "Mcp-Session-Id",
    "MCP-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "Last-Event-ID",
    "X-MCP-Version",
)
EXPOSED: Final = ("Mcp-Session-Id", "X-MCP-Version", "Retry-After", "WWW-Authenticate")

_ORIGIN: Final = b"origin"
_REQUESTED_METHOD: Final = b"access-control-request-method"
_REQUESTED: Final = b"access-control-request-headers"
_PARAMETER: Final = re.compile(re.escape(PARAMETER_PREFIX) + r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}", re.IGNORECASE)


class Cors:
    """An ASGI app around another. Cookies are allowed unless every origin is."""

    def __init__(
        self,
        app: App,
        allowed_origins: Iterable[str] = (),
        *,
        check: Callable[[Headers], Refusal | None] = lambda headers: None,
        answered: Callable[[str, int], None] = lambda path, status: None,
    ) -> None:
        self._app = app
        self._check = check
        self._answered = answered
        self._origins = Origins(allowed_origins)
        self._allowing: App | None = None
        self._refusing: App | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            for name, value in scope["headers"]:
                if name == _ORIGIN:
                    return await self._serve_page(value, scope, receive, send)
        await self._app(scope, receive, send)

    async def _serve_page(self, origin: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope["headers"])
        if scope["method"] == "OPTIONS" and _REQUESTED_METHOD in headers:
            # The app never sees a preflight, so whatever it does for every request has to be done here.
            if self._check(headers) is not None:
                return await self._app(scope, receive, send)  # which refuses it for the same reason
            send = self._counting(scope["path"], send)
        return await self._choose(origin, scope)(scope, receive, send)

    def _counting(self, path: str, send: Send) -> Send:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._answered(path, message["status"])
            await send(message)

        return counted

    def _choose(self, origin: bytes, scope: Scope) -> App:
        if not self._origins.allow(origin):
            if self._refusing is None:
                self._refusing = _middleware(self._app, origins=())
            return self._refusing
        if scope["method"] == "OPTIONS":
            parameters = _requested_parameters(scope["headers"])
            if parameters:
                # Browsers want every name in full, and these are known only to the tools.
                return self._allow(parameters)
        if self._allowing is None:
            self._allowing = self._allow(())
        return self._allowing

    def _allow(self, parameters: Iterable[str]) -> App:
        if self._origins.any:
            return _middleware(self._app, origins=(ANY,), parameters=parameters)
        return _middleware(self._app, credentials=True, parameters=parameters)


def _requested_parameters(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    found: list[str] = []
    for name, value in headers:
        if name == _REQUESTED:
            names = (requested.strip() for requested in value.decode("latin-1").split(","))
            found += filter(_PARAMETER.fullmatch, names)
    return found[: bounds.REQUESTED_HEADERS]


def _middleware(
    app: App, *, origins: tuple[str, ...] | None = None, credentials: bool = False, parameters: Iterable[str] = ()
) -> App:
    """Starlette's middleware; without a list of origins it allows the one that is there, which we have checked."""
    from starlette.middleware.cors import CORSMiddleware

    return CORSMiddleware(
        app,
        allow_origins=() if origins is None else origins,
        allow_origin_regex="(?s:.*)" if origins is None else None,
        allow_methods=METHODS,
        allow_headers=(*HEADERS, *parameters),
        allow_credentials=credentials,
        # An allowed page of the internet may call a server on this machine or network: that is what allowing it means.
        allow_private_network=True,
        expose_headers=EXPOSED,
    )
