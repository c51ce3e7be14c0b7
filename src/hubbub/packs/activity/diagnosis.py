"""Checks of `hubbub doctor`: ActivityWatch, its watchers, the sidecar, and text recognition."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from hubbub import Check, HubbubError
from hubbub.packs.activity.failures import SourceFailure
from hubbub.packs.activity.filtered_sources import FilteredSources, run_concurrently
from hubbub.packs.activity.pause import Paused
from hubbub.packs.activity.periods import user_time_zone
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.packs.activity.summary import format_duration
from hubbub.packs.activity.watcher_health import find_problems

_DOWNLOAD_URL = "https://activitywatch.net/downloads"
_NO_SCREEN_ADVICE = "to read the screen, start the sidecar in the desktop session (X11), where DISPLAY is set"


async def activitywatch(settings: ActivitySettings) -> Check:
    """Check that ActivityWatch answers and accepts the API key.

    `/info` needs no key, so an answer to it does not show that anything else can be read.
    """
    sources = FilteredSources(settings)
    paused = sources.gate.pause.message()
    try:
        if paused is None:
            info, _ = await run_concurrently(sources.info(), sources.bucket_index())
        else:
            info = await sources.health_info()
    except SourceFailure as failure:
        advice = f"install and start it: {_DOWNLOAD_URL}" if failure.failure_kind == "unreachable" else ""
        return Check("activitywatch", False, failure.message, advice)
    finally:
        await sources.close()
    return Check("activitywatch", True, f"{info.get('version', 'unknown version')} at {settings.aw_url}")


async def watchers(settings: ActivitySettings) -> Check:
    """Check that windows and presence are recorded, and report when they were last recorded."""
    sources = FilteredSources(settings)
    try:
        found, latest = await sources.watchers_and_latest(None)
    except Paused as pause:
        return Check("watchers", False, pause.message, optional=True)
    except HubbubError as failure:
        return Check("watchers", False, failure.message)
    finally:
        await sources.close()
    zone, now, last = user_time_zone(settings.time_zone), datetime.now(UTC), latest.last_recorded
    problems = find_problems(found, latest.window, now, zone)
    stopped = [problem.message for problem in problems if problem.kind != "nothing_recorded"]
    if stopped:
        return Check("watchers", False, "; ".join(stopped), "start them from ActivityWatch's tray icon: Modules")
    if last is None:
        return Check("watchers", False, "have recorded nothing yet", "wait a minute, or see their logs")
    age_s = max((now - last).total_seconds(), 0.0)
    last = last.astimezone(zone)
    is_fresh = age_s <= settings.stale_s + 180
    detail = (
        f"on {found.host} last recorded {format_duration(age_s)} ago"
        if is_fresh
        else f"recorded nothing since {last:%F %R}"
    )
    advice = "check that they run, unless the computer was off or asleep"
    return Check("watchers", is_fresh, detail, "" if is_fresh else advice)


async def sidecar(settings: ActivitySettings) -> Check:
    """Check that the sidecar runs and has a screen. The pack works without it."""
    sources = FilteredSources(settings)
    try:
        probe = await sources.probe()
    except SourceFailure as failure:
        return Check("sidecar", False, failure.message, optional=True)
    finally:
        await sources.close()
    mode, reason = probe.get("mode", "unknown"), probe.get("reason", "ready")
    is_ready = probe.get("ready", True) is True and probe.get("ok", True) is True
    return Check(
        "sidecar", is_ready, f"engine {mode}: {reason}", "" if is_ready else "see the check `ocr`", optional=True
    )


async def ocr(settings: ActivitySettings) -> Check:
    """Check that a sidecar started here could recognise text."""
    from hubbub.packs.activity.sidecar import capture, tesseract

    version = await asyncio.to_thread(tesseract.version)
    if version is None:
        return Check("ocr", False, "tesseract is not installed", tesseract.ADVICE, optional=True)
    screen = await asyncio.to_thread(capture.screen_state)
    advice = "" if screen == capture.SCREEN_OK else capture.INSTALL_ADVICE if "mss" in screen else _NO_SCREEN_ADVICE
    return Check("ocr", screen == capture.SCREEN_OK, f"tesseract {version}; screen: {screen}", advice, optional=True)
