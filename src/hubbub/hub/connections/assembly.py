"""Gives a hub its logins: the routes for browsers and the tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.hub.connections.connect_tool import register_connect_tool
from hubbub.hub.connections.connections import Connections
from hubbub.hub.connections.pages import ConnectPages

if TYPE_CHECKING:
    from hubbub.hub.gateway import Gateway


def add_connections(hub: Gateway) -> Connections:
    """Make the logins of a hub, for its present fronts; `Gateway` registers the tool on later ones."""
    connections = Connections(hub)
    hub.connection_routes.update(ConnectPages(connections, hub.sealer, hub.config.name).routes())
    for front in hub.fronts.values():
        register_connect_tool(front, connections)
        front.invalidate()
    return connections
