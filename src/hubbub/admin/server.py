"""The server of administration, at `/mcp/admin` and at the hub's Unix socket."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from hubbub.admin import sessions, status
from hubbub.admin.access import AdminArea, AdminTools
from hubbub.admin.governed_admin import GovernedAdmin
from hubbub.governance.audit_events import AuditEvent
from hubbub.hub.gateway import Gateway
from hubbub.hub.session_control import SessionControl
from hubbub.server.server import Server
from hubbub.server.views import ADMIN_VIEW

_NAME: Final = "hubbub-admin"
_INSTRUCTIONS: Final = (
    "Administration of a hub: its sessions, servers, approvals, pins, policy, keys and audit records. "
    "A key of a tenant sees and changes only that tenant."
)


def make_admin_server(gateway: Gateway, areas: Iterable[AdminArea] = ()) -> Server:
    """Make the server whose tools administer a hub; sessions and status are always among them.

    Each area registers its tools: `partial(approvals.register, queue=queue)`.
    """
    server = Server(_NAME, version=gateway.config.version, instructions=_INSTRUCTIONS, sealer=gateway.sealer)
    tools = AdminTools(server, partial(_record_event, gateway))
    control = SessionControl(gateway)
    status.register(tools, gateway, control)
    sessions.register(tools, control)
    for register in areas:
        register(tools)
    server.wrap(lambda peer: GovernedAdmin(peer, server, gateway, tools.operator_tools))
    return server


def add_admin_view(gateway: Gateway, areas: Iterable[AdminArea] = ()) -> Server:
    """Serve administration at `/mcp/admin` of a hub, to callers with the scope `hub:admin`."""
    server = make_admin_server(gateway, areas)
    gateway.restricted_views[ADMIN_VIEW] = server
    gateway.lifespans.append(server.running)
    return server


def _record_event(gateway: Gateway, event: AuditEvent) -> None:
    if gateway.governor is not None:
        gateway.governor.record_event(event)
