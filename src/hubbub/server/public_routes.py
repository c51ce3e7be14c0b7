"""Routes that need no authentication, such as metadata documents and the endpoints of an authorization server.

Host, single headers and rate limits are checked as for every other route. `any_origin` is for documents and endpoints
that pages of any origin may use because they neither use cookies nor depend on the caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, Protocol, TypeAlias

import msgspec

from hubbub.ports import HttpExchange
from hubbub.protocol.calls import Principal

Identification: TypeAlias = Literal["login", "key", "none"]
"""How a page identifies the person who opens it: by a login at this server, by an API key, or not at all."""
PublicHandler: TypeAlias = Callable[[HttpExchange], Awaitable[None]]


class PublicRoute(msgspec.Struct, frozen=True):
    """The handlers of one path, by HTTP method. `HEAD` is served by the handler of `GET`."""

    handlers: Mapping[str, PublicHandler]
    any_origin: bool = False
    """Whether pages of every origin may send requests and read the responses, without cookies."""


class PersonLogin(Protocol):
    """Identifies the person at a browser; implemented by the authorization server of this server."""

    async def start_person_login(self, exchange: HttpExchange, return_to: str) -> None:
        """Send the browser to the login; it comes back to this path with the parameter `person`.

        Raises: HubbubError.
        """

    async def read_person(self, exchange: HttpExchange, sealed: str) -> tuple[str, str] | None:
        """Return the tenant and the name of the person who logged in with this browser; None: not logged in.

        Raises: HubbubError.
        """


def no_identification(principal: Principal) -> Identification:
    """Default for `identification`: the server has neither API keys nor logins."""
    return "none"


class IdentifiesPeople:
    """A server with pages that identify the user who opens them. The HTTP side of a server sets these attributes."""

    base_url: str = ""
    """Where it is served; empty if that is not known."""
    person_login: PersonLogin | None = None
    """Logs people in; None: the server is not an authorization server."""
    identify_key: Callable[[bytes], Principal | None] | None = None
    """Returns the principal of an API key; None: there are no keys."""
    identification: Callable[[Principal], Identification] = no_identification
    """Returns how the person who calls as a principal can be identified; `none`: this server cannot."""


class PublicRoutes:
    """Finds the route of a path: the path itself, or the longest prefix of it that ends with a slash."""

    def __init__(self, routes: Mapping[str, PublicRoute]) -> None:
        self._routes = routes

    def is_open(self, path: str) -> bool:
        """Whether pages of every origin may use this path."""
        route = self.find(path)
        return route is not None and route.any_origin

    def find(self, path: str) -> PublicRoute | None:
        """Return the route of a path, if it has one."""
        routes = self._routes
        if not routes:
            return None
        found = routes.get(path)
        end = len(path)
        while found is None and (end := path.rfind("/", 0, end)) > 0:
            found = routes.get(path[: end + 1])
        return found
