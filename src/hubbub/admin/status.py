"""`hub.status` of administration: the operator's view of the whole hub, or a tenant's view of its part."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import msgspec

from hubbub.admin.access import AdminTools, choose_tenant
from hubbub.hub.config import STATUS
from hubbub.hub.gateway import Gateway
from hubbub.hub.reload import ReloadState
from hubbub.hub.session_control import SessionControl
from hubbub.hub.status import describe_phase
from hubbub.server.context import Context


class TenantStatus(msgspec.Struct, rename="camel", kw_only=True):
    """What one tenant uses."""

    name: str
    server_sessions: int
    processes: int
    client_sessions: int
    max_sessions: int | None = None
    """None: there is no such limit."""
    max_processes: int | None = None


class AdminStatus(msgspec.Struct, rename="camel", kw_only=True):
    """The state of a hub."""

    name: str
    version: str
    pid: int
    servers: list[dict[str, Any]]
    """The state of each server; for operators also its counters, which are those of all tenants."""
    views: list[str]
    """For operators only."""
    tenants: list[TenantStatus]
    """Callers without a tenant are counted under an empty name."""
    problems: list[str]
    reload: ReloadState | None = None


def register(tools: AdminTools, gateway: Gateway, control: SessionControl) -> None:
    """Register the tools of this area."""

    @tools.read(STATUS)
    async def status(context: Context) -> AdminStatus:
        """Report the servers of the hub, what each tenant uses, and current problems."""
        tenant = choose_tenant(context, None)
        shown = [
            id for id in gateway.upstreams if tenant is None or gateway.main_front.may_know_server(id, context.caller)
        ]
        states = {id: gateway.upstreams[id].state for id in shown}
        problems = [f"{id}: {state.reason}" for id, state in states.items() if state.reason is not None]
        reload = gateway.reload_state
        if tenant is None:
            problems = [*gateway.problems, *problems, *_pin_problems(gateway)]
            if reload is not None and reload.problem is not None:
                problems.append(f"the changed settings files were not applied: {reload.problem}")
        return AdminStatus(
            name=gateway.config.name,
            version=gateway.config.version,
            pid=os.getpid(),
            servers=[describe_phase(state) if tenant else msgspec.to_builtins(state) for state in states.values()],
            views=list(gateway.views) if tenant is None else [],
            tenants=_tenants(gateway, control, tenant),
            problems=problems,
            reload=reload if tenant is None else None,
        )


def _pin_problems(gateway: Gateway) -> list[str]:
    if gateway.pinned is None:
        return []
    pins = gateway.pinned.pins
    found = [problem for id in gateway.upstreams for problem in pins.problems(id, lambda kind, name: True)]
    return found if pins.problem is None else [f"the lock file was not applied: {pins.problem}", *found]


def _tenants(gateway: Gateway, control: SessionControl, tenant: str | None) -> list[TenantStatus]:
    sessions = control.server_sessions()
    server_counts = Counter(info.principal.tenant for info in sessions)
    process_counts = Counter(info.principal.tenant for info in sessions if info.pid is not None)
    client_counts = Counter(info.principal.tenant for info in control.client_sessions())
    names = {*server_counts, *client_counts, *gateway.tenant_sessions.names()} if tenant is None else {tenant}
    found = []
    for name in sorted(names):
        settings = gateway.tenant_sessions.settings(name)
        found.append(
            TenantStatus(
                name=name,
                server_sessions=server_counts[name],
                processes=process_counts[name],
                client_sessions=client_counts[name],
                max_sessions=None if settings is None else settings.max_sessions,
                max_processes=None if settings is None else settings.max_processes,
            )
        )
    return found
