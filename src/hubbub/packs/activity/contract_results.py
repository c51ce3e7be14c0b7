"""The three calls of the contract: the state of ActivityWatch, a frame of the current activity, and the health of both.

The contract fixes their shapes, which are defined only here. Each call sends its requests concurrently, so it takes as
long as the slowest of them.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from hubbub.packs.activity.bucket_index import BucketIndex
from hubbub.packs.activity.disclosure import Unauthenticated
from hubbub.packs.activity.environment_snapshots import SnapshotComparison, Snapshots
from hubbub.packs.activity.events import format_utc
from hubbub.packs.activity.failures import BadRequest, SourceFailure, catch_failure
from hubbub.packs.activity.filtered_sources import FilteredSources, require_state
from hubbub.packs.activity.pause import Paused
from hubbub.packs.activity.watcher_health import Problem

DEFAULT_REASON: Final = "mcp"


class State(msgspec.Struct):
    """ActivityWatch's description of itself, and its buckets."""

    info: dict[str, Any]
    buckets: dict[str, Any]


class NowFrame(msgspec.Struct, omit_defaults=True):
    """The current state of ActivityWatch and the sidecar; parts that could not be read are null."""

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


async def get_state(sources: FilteredSources) -> State:
    """Raises: SourceFailure."""
    info, bucket_index = require_state(await sources.state())
    return State(info, bucket_index.metadata)


async def build_frame(sources: FilteredSources, reason: Any) -> NowFrame:
    """Build one frame; parts that fail are null."""
    ((info, bucket_index), problems), probe = await asyncio.gather(_read_state(sources), catch_failure(sources.probe()))
    return NowFrame(
        timestamp=format_utc(datetime.now(UTC)),
        reason=reason if isinstance(reason, str) else DEFAULT_REASON,
        aw_info=None if isinstance(info, SourceFailure) else info,
        aw_buckets=None if isinstance(bucket_index, SourceFailure) else bucket_index.metadata,
        omni_probe=None if isinstance(probe, SourceFailure) else probe,
        notes=[problem.message for problem in problems if problem.kind == "watcher_stopped"],
    )


async def _read_state(
    sources: FilteredSources,
) -> tuple[tuple[dict[str, Any] | SourceFailure, BucketIndex | SourceFailure], list[Problem]]:
    deadline = sources.deadline()
    info, bucket_index = await sources.state()
    if isinstance(info, SourceFailure) or isinstance(bucket_index, SourceFailure):
        return (info, bucket_index), []
    try:
        return (info, bucket_index), await sources.watcher_problems(info, bucket_index, deadline)
    except (SourceFailure, BadRequest):
        return (info, bucket_index), []  # the frame has no field for it; `system.health` reports it


async def check_health(sources: FilteredSources, snapshots: Snapshots) -> SystemHealth:
    """Return the health of every part; never fails."""
    # ActivityWatch is the slowest, so its request starts first and the others run meanwhile.
    async with asyncio.TaskGroup() as group:
        other_checks = group.create_task(_check_sidecar_and_environment(sources, snapshots))
        is_reachable, causes = await _check_activitywatch(sources)
    probe, protection = other_checks.result()
    if isinstance(probe, SourceFailure):
        causes["sidecar"] = probe.cause()
    if (paused := sources.gate.pause.message()) is not None:
        causes["paused"] = {"kind": "paused", "message": paused}
    if protection.cause is not None:
        causes["protected_env"] = protection.cause
    body = None if isinstance(probe, SourceFailure) else probe
    is_ready = body is not None and _read_flag(body, "ok", default="ok" not in body)
    return SystemHealth(
        aw_ok=is_reachable,
        sidecar_probe_status=is_ready,
        preflight_ok=body is not None and _read_flag(body, "preflight_ok", default=is_ready),
        protected_env_ok=protection.ok,
        protected_diff_count=protection.diff_count,
        omni_probe=body,
        causes=causes,
    )


async def _check_activitywatch(sources: FilteredSources) -> tuple[bool, dict[str, dict[str, str]]]:
    """Return whether it answers, which is all that `aw_ok` means, and what is wrong with it or its watchers."""
    deadline = sources.deadline()
    info, bucket_index = await asyncio.gather(catch_failure(sources.health_info()), _bucket_index_if_allowed(sources))
    if isinstance(info, SourceFailure):
        return False, {"activitywatch": info.cause()}
    if isinstance(bucket_index, SourceFailure):
        return True, {"buckets": bucket_index.cause()}
    try:
        problems = [] if bucket_index is None else await sources.watcher_problems(info, bucket_index, deadline)
    except (Paused, Unauthenticated):
        return True, {}
    except SourceFailure as failure:
        return True, {"watchers": failure.cause()}
    except BadRequest as error:
        return True, {"watchers": {"kind": "unknown_host", "message": error.message}}
    if not problems:
        return True, {}
    return True, {"watchers": {"kind": problems[0].kind, "message": "; ".join(each.message for each in problems)}}


async def _bucket_index_if_allowed(sources: FilteredSources) -> BucketIndex | SourceFailure | None:
    try:
        return await catch_failure(sources.bucket_index())
    except (Paused, Unauthenticated):
        return None


async def _check_sidecar_and_environment(
    sources: FilteredSources, snapshots: Snapshots
) -> tuple[dict[str, Any] | SourceFailure, SnapshotComparison]:
    probe = await catch_failure(sources.probe())
    return probe, await snapshots.compare()


def _read_flag(body: dict[str, Any], key: str, *, default: bool) -> bool:
    """Return a flag of a probe, or `default`: OmniParser's own server omits `ok`, and answers only if it works."""
    value = body.get(key)
    return value if isinstance(value, bool) else default
