"""The three calls of the contract: the state of ActivityWatch, a frame of now, and the health of both.

Their shapes are fixed, here and nowhere else. Each asks everything at once, so that it takes as
long as the slowest of its questions.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from hubbub.packs.activity.events import in_utc
from hubbub.packs.activity.failures import SourceFailure, or_failure
from hubbub.packs.activity.protection import Protection, Snapshots
from hubbub.packs.activity.sources import Sources, sound

USUAL_REASON: Final = "mcp"


class State(msgspec.Struct):
    """What ActivityWatch is, and what it has."""

    info: dict[str, Any]
    buckets: dict[str, Any]


class NowFrame(msgspec.Struct):
    """What could be found out in one moment; null where nothing could."""

    timestamp: str
    reason: str
    aw_info: dict[str, Any] | None
    aw_buckets: dict[str, Any] | None
    omni_probe: dict[str, Any] | None


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
    """One frame; what fails is null in it."""
    (info, catalogue), probe = await asyncio.gather(sources.state(), or_failure(sources.probe()))
    return NowFrame(
        timestamp=in_utc(datetime.now(UTC)),
        reason=reason if isinstance(reason, str) else USUAL_REASON,
        aw_info=None if isinstance(info, SourceFailure) else info,
        aw_buckets=None if isinstance(catalogue, SourceFailure) else catalogue.shown,
        omni_probe=None if isinstance(probe, SourceFailure) else probe,
    )


async def look_at_health(sources: Sources, snapshots: Snapshots) -> SystemHealth:
    """How everything is; never fails."""
    # ActivityWatch is the slowest, so it is asked at once, and the rest while it thinks.
    async with asyncio.TaskGroup() as group:
        others = group.create_task(_look_around(sources, snapshots))
        greeting = await or_failure(sources.greet())
    probe, protection = others.result()
    failures = {"activitywatch": greeting, "sidecar": probe}
    causes = {name: part.cause() for name, part in failures.items() if isinstance(part, SourceFailure)}
    if protection.cause is not None:
        causes["protected_env"] = protection.cause
    body = None if isinstance(probe, SourceFailure) else probe
    is_there = body is not None and _flag(body, "ok", otherwise="ok" not in body)
    return SystemHealth(
        aw_ok=not isinstance(greeting, SourceFailure),
        sidecar_probe_status=is_there,
        preflight_ok=body is not None and _flag(body, "preflight_ok", otherwise=is_there),
        protected_env_ok=protection.ok,
        protected_diff_count=protection.diff_count,
        omni_probe=body,
        causes=causes,
    )


async def _look_around(sources: Sources, snapshots: Snapshots) -> tuple[dict[str, Any] | SourceFailure, Protection]:
    probe = await or_failure(sources.probe())
    return probe, await snapshots.compare()


def _flag(body: dict[str, Any], key: str, *, otherwise: bool) -> bool:
    """What a probe says; OmniParser's own server says nothing of `ok`, which it would not do if it were not."""
    value = body.get(key)
    return value if isinstance(value, bool) else otherwise
