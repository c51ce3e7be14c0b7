"""Adds the logins at upstreams to a hub: the routes for browsers, and the tool of each front."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.hub.upstream_logins.connect_tool import register_connect_tool
from hubbub.hub.upstream_logins.pages import ConnectPages
from hubbub.hub.upstream_logins.upstream_logins import UpstreamLogins

if TYPE_CHECKING:
    from hubbub.hub.front import Front
    from hubbub.hub.gateway import Gateway


def add_upstream_logins(hub: Gateway) -> UpstreamLogins:
    """Make the logins of a hub at its upstreams, for the fronts that it has."""
    upstream_logins = UpstreamLogins(hub)
    hub.lifespans.append(upstream_logins.running)
    if hub.is_running:  # a reload added the first server with logins: the lifespans have been entered
        upstream_logins.start_watch()
    for front in hub.fronts.values():
        attach_front(upstream_logins, front)
    return upstream_logins


def attach_front(upstream_logins: UpstreamLogins, front: Front) -> None:
    """Register the tool on a front, and the routes if it is the main one, whose routes the server has."""
    register_connect_tool(front, upstream_logins)
    if not front.view_name:
        for path, route in ConnectPages(upstream_logins, front.sealer, front.info.name).routes().items():
            front.public_routes.setdefault(path, route)
