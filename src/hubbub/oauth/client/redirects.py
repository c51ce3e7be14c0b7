"""Interfaces that show the authorization page to a person and receive the redirect."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

RedirectFunction = Callable[[str], Awaitable[str]]
"""Takes the authorization URL; returns the URL that the authorization server redirected to."""


class RedirectReceiver(Protocol):
    """Receives one redirect."""

    redirect_uri: str

    async def authorize(self, authorization_url: str) -> str:
        """Show the page at this URL to the person; return the URL of the redirect, with its query."""


class RedirectHandler(Protocol):
    """Opens receivers, such as listeners on a loopback port."""

    def open(self) -> AbstractAsyncContextManager[RedirectReceiver]:
        """Receive redirects until the context ends."""


class FunctionRedirectHandler:
    """Calls a function for each login, with a fixed redirect URI."""

    def __init__(self, redirect_uri: str, function: RedirectFunction) -> None:
        self.redirect_uri = redirect_uri
        self._function = function

    @asynccontextmanager
    async def open(self) -> AsyncIterator[RedirectReceiver]:
        """Return the handler itself, because there is nothing to open."""
        yield self

    async def authorize(self, authorization_url: str) -> str:
        """Call the function."""
        return await self._function(authorization_url)
