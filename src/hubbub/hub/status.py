"""What `hub.status` tells: each server, how it is doing, and what is not called what its server calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hubbub.hub.reload import ReloadState

if TYPE_CHECKING:
    from hubbub.hub.front import Front


class HubStatus(msgspec.Struct, rename="camel", kw_only=True):
    """The hub, as far as a view may see it."""

    name: str
    version: str
    view: str | None
    """None is the view of everything."""
    tools: int
    prompts: int
    resources: int
    servers: list[dict[str, Any]]
    collisions: list[dict[str, Any]]
    problems: list[str]
    """What a person should look at."""
    reload: ReloadState | None
    """How the hub follows its files; None if it was made of none."""


def status_of(front: Front) -> HubStatus:
    """How the servers of one view are doing now."""
    hub, shown = front.hub, front.shown
    visible = {id: upstream for id, upstream in hub.upstreams.items() if shown.has(id)}
    servers = []
    problems = list(hub.problems)
    if hub.reloading is not None and hub.reloading.problem is not None:
        problems.append(f"the files as they are now are not in effect: {hub.reloading.problem}")
    for id, upstream in visible.items():
        state, snapshot = upstream.state, upstream.snapshot
        servers.append(
            msgspec.to_builtins(state)
            | {
                "tools": len(snapshot.tools),
                "prompts": len(snapshot.prompts),
                "resources": len(snapshot.resources) + len(snapshot.templates),
                "server": {"name": snapshot.name, "version": snapshot.version},
            }
        )
        if state.reason is not None:
            problems.append(f"{id}: {state.reason}")
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
        reload=hub.reloading,
    )
