"""Adds connections to a hub: the routes for browsers, and the tool of each front."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.hub.connections.connect_tool import register_connect_tool
from hubbub.hub.connections.connections import Connections
from hubbub.hub.connections.pages import ConnectPages

if TYPE_CHECKING:
    from hubbub.hub.front import Front
    from hubbub.hub.gateway import Gateway


def add_connections(hub: Gateway) -> Connections:
    """Make the connections of a hub, for the fronts that it has."""
    connections = Connections(hub)
    for front in hub.fronts.values():
        attach_front(connections, front)
    return connections


def attach_front(connections: Connections, front: Front) -> None:
    """Register the tool on a front, and the routes if it is the main one, whose routes the server has."""
    register_connect_tool(front, connections)
    if not front.view_name:
        for path, route in ConnectPages(connections, front.sealer, front.info.name).routes().items():
            front.public_routes.setdefault(path, route)
