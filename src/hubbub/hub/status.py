"""The state of a hub: what `hub.status` returns, and the metrics of each server for `/metrics`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hubbub.hub.catalog import Item
from hubbub.hub.catalog_view import CatalogView
from hubbub.hub.reload import ReloadState
from hubbub.hub.upstream import Upstream, UpstreamState
from hubbub.observe import Metric
from hubbub.protocol.calls import Caller

if TYPE_CHECKING:
    from hubbub.hub.front import Front

_LABEL = "server"
_COUNTERS = frozenset(("inFlight", "waiting", "calls", "failures", "sessions"))


class HubStatus(msgspec.Struct, rename="camel", kw_only=True):
    """The hub, as far as a view may see it."""

    name: str
    version: str
    view: str | None
    """None: the view that shows everything."""
    tools: int
    prompts: int
    resources: int
    servers: list[dict[str, Any]]
    collisions: list[dict[str, Any]]
    problems: list[str]
    """Problems that the operator should look at."""
    reload: ReloadState | None
    """State of reloading; None if the hub was not made from files."""


def _count_items(items: Mapping[str, Item], server: str) -> int:
    return sum(item.server == server for item in items.values())


def describe_phase(state: UpstreamState) -> dict[str, Any]:
    """Return what a tenant may know about a server: its state, without counters of the calls of other tenants."""
    described: dict[str, Any] = msgspec.to_builtins(state)
    return {name: value for name, value in described.items() if name not in _COUNTERS}


def build_status(front: Front, caller: Caller) -> HubStatus:
    """Build the status of one view, as far as this caller may see it."""
    hub, shown = front.hub, front.visible_to(caller).catalog_view
    visible = {id: hub.upstreams[id] for id in front.visible_servers(caller)}
    # Without the view's patterns: a view hides tools, but its servers are reported as they are.
    offered = CatalogView(shown.catalog)
    servers = []
    is_operator = hub.governor is None
    has_tenants = bool(hub.tenant_sessions.names())
    problems = list(hub.problems) if is_operator else []
    if is_operator and hub.reload_state is not None and hub.reload_state.problem is not None:
        problems.append(f"the changed settings files were not applied: {hub.reload_state.problem}")
    # With a governor, callers are not operators: administration shows them what concerns the whole hub.
    if is_operator and hub.pinned is not None and hub.pinned.pins.problem is not None:
        problems.append(f"the lock file of approved definitions was not applied: {hub.pinned.pins.problem}")
    for id, upstream in visible.items():
        state, snapshot = upstream.state_for(caller), hub.shown_snapshot(upstream)
        servers.append(
            (describe_phase(state) if has_tenants else msgspec.to_builtins(state))
            | {
                "tools": _count_items(offered.tools, id),
                "prompts": _count_items(offered.prompts, id),
                "resources": _count_items(offered.resources, id) + _count_items(offered.templates, id),
                "server": {"name": snapshot.name, "version": snapshot.version},
            }
        )
        if state.reason is not None:
            problems.append(f"{id}: {state.reason}")
        if is_operator and hub.pinned is not None:
            problems += hub.pinned.problems(id, caller)
    collisions = [
        {"name": found.name, "servers": list(found.servers), "listed": list(found.listed)}
        for found in shown.catalog.collisions
        if all(server in visible for server in found.servers)
    ]
    return HubStatus(
        name=front.info.name,
        version=front.info.version,
        view=front.view_name or None,
        tools=len(shown.tools),
        prompts=len(shown.prompts),
        resources=len(shown.resources) + len(shown.templates),
        servers=servers,
        collisions=collisions,
        problems=problems,
        reload=hub.reload_state if is_operator else None,
    )


def upstream_metrics(upstreams: Mapping[str, Upstream]) -> list[Metric]:
    """Metrics of each server, read at each scrape, so that calls have no extra cost."""

    def read_each(read: Callable[[UpstreamState], float]) -> Callable[[], dict[str, float]]:
        return lambda: {id: read(upstream.state) for id, upstream in upstreams.items()}

    return [
        Metric("upstream_calls", "Calls forwarded.", _LABEL, read_each(lambda state: state.calls), is_count=True),
        Metric(
            "upstream_failures",
            "Calls forwarded that got no answer; errors and failed tools are answers.",
            _LABEL,
            read_each(lambda state: state.failures),
            is_count=True,
        ),
        Metric(
            "upstream_in_flight", "Calls that wait for the server.", _LABEL, read_each(lambda state: state.in_flight)
        ),
        Metric("upstream_waiting", "Calls that wait for a slot.", _LABEL, read_each(lambda state: state.waiting)),
        Metric("upstream_sessions", "Open connections.", _LABEL, read_each(lambda state: state.sessions)),
        Metric(
            "upstream_down",
            "1 while the server is down and gets no calls.",
            _LABEL,
            read_each(lambda state: float(state.phase == "down")),
        ),
    ]
