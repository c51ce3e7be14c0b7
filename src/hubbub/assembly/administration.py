"""Adds administration to a hub: the areas that its settings switch on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hubbub.admin.access import AdminArea
from hubbub.admin.server import add_admin_view
from hubbub.admin.unix_socket import AdminSocket
from hubbub.hub.config import HUB_ID
from hubbub.hub.gateway import Gateway
from hubbub.hub.session_control import Logout, SessionControl
from hubbub.protocol.calls import Caller
from hubbub.settings.serve import ServeSettings
from hubbub.settings.sources import Sources

if TYPE_CHECKING:
    from hubbub.assembly.governance import GovernorSetup
    from hubbub.governance.pins import Pins


def add_administration(
    hub: Gateway, settings: ServeSettings, sources: Sources, setup: GovernorSetup | None, pins: Pins | None
) -> Callable[[], str | None]:
    """Serve administration at `/mcp/admin` and at a Unix socket; return a function that returns its path."""
    areas: list[AdminArea] = []
    if setup is not None:
        areas += _governance_areas(hub, setup)
    if pins is not None:
        from hubbub.admin import pins as pins_area
        from hubbub.governance.pin_records import Selection

        areas.append(partial(pins_area.register, pins=pins, select=Selection))
    if settings.key_file is not None:
        from hubbub.admin import keys

        path = Path(settings.key_file)
        areas.append(
            partial(
                keys.register,
                path=path,
                after_change=partial(_renew_trust, sources, path),
                after_revoke=partial(_end_upstream_logins, hub),
                find_tenants=partial(_tenants, hub),
            )
        )
    add_admin_view(hub, areas)
    socket = AdminSocket(hub.main_front)
    hub.lifespans.append(socket.running)
    return lambda: socket.path


def _tenants(hub: Gateway) -> tuple[str, ...]:
    return tuple(tenant.name for tenant in hub.config.governance.tenants)


def _governance_areas(hub: Gateway, setup: GovernorSetup) -> list[AdminArea]:
    from hubbub.admin import approvals, policy

    areas: list[AdminArea] = [
        partial(approvals.register, queue=setup.approvals),
        partial(policy.register, policy=lambda: setup.policy),
    ]
    if setup.journal is not None:
        from hubbub.admin import audit
        from hubbub.assembly.governance import audit_folder

        folder = audit_folder(hub.config.governance)
        areas.append(partial(audit.register, folder=folder, find_known_servers=partial(_known_servers, hub)))
    return areas


def _known_servers(hub: Gateway, caller: Caller) -> frozenset[str]:
    return frozenset({"", HUB_ID, *(id for id in hub.upstreams if hub.main_front.may_know_server(id, caller))})


async def _end_upstream_logins(hub: Gateway, user: str) -> None:
    await SessionControl(hub).end_upstream_logins(Logout(tenant="", user=user))


def _renew_trust(sources: Sources, path: Path) -> None:
    """Keep a trusted folder trusted after an operator changed its key file."""
    if sources.folder is None or sources.refused:
        return
    from hubbub.settings.trust import renew_trust

    renew_trust(str(sources.config), str(path))
