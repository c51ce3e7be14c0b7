"""The three calls of the contract: the state of ActivityWatch, a frame of the current activity, and the health of both.

The contract fixes their shapes, which are defined only here. Each call sends its requests concurrently, so it takes as
long as the slowest of them.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from hubbub.packs.activity.catalogue import Catalogue
from hubbub.packs.activity.disclosure import Unauthenticated
from hubbub.packs.activity.events import in_utc
from hubbub.packs.activity.failures import BadRequest, SourceFailure, or_failure
from hubbub.packs.activity.pause import Paused
from hubbub.packs.activity.protection import Protection, Snapshots
from hubbub.packs.activity.sources import Sources, sound
from hubbub.packs.activity.watcher_health import Problem

USUAL_REASON: Final = "mcp"


class State(msgspec.Struct):
    """What ActivityWatch is, and what it has."""

    info: dict[str, Any]
    buckets: dict[str, Any]


class NowFrame(msgspec.Struct, omit_defaults=True):
    """What could be found out in one moment; null where nothing could."""

    timestamp: str
    reason: str
    aw_info: dict[str, Any] | None
    aw_buckets: dict[str, Any] | None
    omni_probe: dict[str, Any] | None
    notes: list[str] = []
    """Problems of the watchers. Not part of the contract, so it is left out when empty."""


class SystemHealth(msgspec.Struct):
    """What works; `causes` says why the rest does not, and what to do about it."""

    aw_ok: bool
    sidecar_probe_status: bool
    preflight_ok: bool
    protected_env_ok: bool
    protected_diff_count: int
    omni_probe: dict[str, Any] | None
    causes: dict[str, dict[str, str]]


async def get_state(sources: Sources) -> State:
    """Raises: SourceFailure."""
    info, catalogue = sound(await sources.state())
    return State(info, catalogue.shown)


async def build_frame(sources: Sources, reason: Any) -> NowFrame:
    """Build one frame; parts that fail are null."""
    ((info, catalogue), problems), probe = await asyncio.gather(_look_at_state(sources), or_failure(sources.probe()))
    return NowFrame(
        timestamp=in_utc(datetime.now(UTC)),
        reason=reason if isinstance(reason, str) else USUAL_REASON,
        aw_info=None if isinstance(info, SourceFailure) else info,
        aw_buckets=None if isinstance(catalogue, SourceFailure) else catalogue.shown,
        omni_probe=None if isinstance(probe, SourceFailure) else probe,
        notes=[problem.message for problem in problems if problem.kind == "watcher_stopped"],
    )


async def _look_at_state(
    sources: Sources,
) -> tuple[tuple[dict[str, Any] | SourceFailure, Catalogue | SourceFailure], list[Problem]]:
    deadline = sources.deadline()
    info, catalogue = await sources.state()
    if isinstance(info, SourceFailure) or isinstance(catalogue, SourceFailure):
        return (info, catalogue), []
    try:
        return (info, catalogue), await sources.watcher_problems(info, catalogue, deadline)
    except (SourceFailure, BadRequest):
        return (info, catalogue), []  # the frame has no field for it; `system.health` reports it


async def look_at_health(sources: Sources, snapshots: Snapshots) -> SystemHealth:
    """Return the health of every part; never fails."""
    # ActivityWatch is the slowest, so its request starts first and the others run meanwhile.
    async with asyncio.TaskGroup() as group:
        others = group.create_task(_look_around(sources, snapshots))
        is_there, causes = await _look_at_activitywatch(sources)
    probe, protection = others.result()
    if isinstance(probe, SourceFailure):
        causes["sidecar"] = probe.cause()
    if (paused := sources.gate.pause.message()) is not None:
        causes["paused"] = {"kind": "paused", "message": paused}
    if protection.cause is not None:
        causes["protected_env"] = protection.cause
    body = None if isinstance(probe, SourceFailure) else probe
    is_ready = body is not None and _flag(body, "ok", otherwise="ok" not in body)
    return SystemHealth(
        aw_ok=is_there,
        sidecar_probe_status=is_ready,
        preflight_ok=body is not None and _flag(body, "preflight_ok", otherwise=is_ready),
        protected_env_ok=protection.ok,
        protected_diff_count=protection.diff_count,
        omni_probe=body,
        causes=causes,
    )


async def _look_at_activitywatch(sources: Sources) -> tuple[bool, dict[str, dict[str, str]]]:
    """Return whether it answers, which is all that `aw_ok` means, and what is wrong with it or its watchers."""
    deadline = sources.deadline()
    info, catalogue = await asyncio.gather(or_failure(sources.greet()), _catalogue_if_allowed(sources))
    if isinstance(info, SourceFailure):
        return False, {"activitywatch": info.cause()}
    if isinstance(catalogue, SourceFailure):
        return True, {"buckets": catalogue.cause()}
    try:
        problems = [] if catalogue is None else await sources.watcher_problems(info, catalogue, deadline)
    except (Paused, Unauthenticated):
        return True, {}
    except SourceFailure as failure:
        return True, {"watchers": failure.cause()}
    except BadRequest as error:
        return True, {"watchers": {"kind": "unknown_host", "message": error.message}}
    if not problems:
        return True, {}
    return True, {"watchers": {"kind": problems[0].kind, "message": "; ".join(each.message for each in problems)}}


async def _catalogue_if_allowed(sources: Sources) -> Catalogue | SourceFailure | None:
    try:
        return await or_failure(sources.catalogue())
    except (Paused, Unauthenticated):
        return None


async def _look_around(sources: Sources, snapshots: Snapshots) -> tuple[dict[str, Any] | SourceFailure, Protection]:
    probe = await or_failure(sources.probe())
    return probe, await snapshots.compare()


def _flag(body: dict[str, Any], key: str, *, otherwise: bool) -> bool:
    """Return a flag of a probe, or `otherwise`: OmniParser's own server omits `ok`, and answers only if it works."""
    value = body.get(key)
    return value if isinstance(value, bool) else otherwise
