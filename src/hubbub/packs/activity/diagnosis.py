"""What `hubbub doctor` looks at: ActivityWatch, its watchers, the sidecar, and what reads the screen."""

from __future__ import annotations

from datetime import UTC, datetime

from hubbub import Check
from hubbub.errors import HubbubError
from hubbub.packs.activity.failures import SourceFailure
from hubbub.packs.activity.periods import person_zone
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.packs.activity.sources import Sources
from hubbub.packs.activity.summary import in_words

_DOWNLOAD = "https://activitywatch.net/downloads"


async def activitywatch(settings: ActivitySettings) -> Check:
    """Whether ActivityWatch answers, and lets us read: it tells of itself even those whom it tells nothing else."""
    sources = Sources(settings)
    try:
        info = await sources.info()
        await sources.catalogue()
    except SourceFailure as failure:
        advice = f"install and start it: {_DOWNLOAD}" if failure.word == "unreachable" else ""
        return Check("activitywatch", False, failure.message, advice)
    finally:
        await sources.close()
    return Check("activitywatch", True, f"{info.get('version', 'some version')} at {settings.aw_url}")


async def watchers(settings: ActivitySettings) -> Check:
    """Whether windows and presence are recorded, and when they last were."""
    sources = Sources(settings)
    try:
        found = await sources.watchers()
        missing = found.missing
        if missing:
            return Check("watchers", False, missing[0], "ActivityWatch's tray icon starts them: Modules")
        last = await sources.last_written(found)
    except HubbubError as failure:
        return Check("watchers", False, failure.message)
    finally:
        await sources.close()
    if last is None:
        return Check("watchers", False, "have recorded nothing yet", "wait, or see their logs")
    age_s = max((datetime.now(UTC) - last).total_seconds(), 0.0)
    last = last.astimezone(person_zone(settings.time_zone))
    is_fresh = age_s <= settings.stale_s + 180
    detail = (
        f"of {found.host} last recorded {in_words(age_s)} ago" if is_fresh else f"recorded nothing since {last:%F %R}"
    )
    return Check("watchers", is_fresh, detail, "" if is_fresh else "see whether they still run")


async def sidecar(settings: ActivitySettings) -> Check:
    """Whether the sidecar is there. The pack works without."""
    sources = Sources(settings)
    try:
        probe = await sources.probe()
    except SourceFailure as failure:
        return Check("sidecar", False, failure.message, "optional, for what is on the screen: hubbub sidecar")
    finally:
        await sources.close()
    mode, reason = probe.get("mode", "unknown"), probe.get("reason", "ready")
    is_ready = probe.get("ready", True) is True
    return Check("sidecar", is_ready, f"engine {mode}: {reason}", "" if is_ready else "see the check of ocr")


async def ocr(settings: ActivitySettings) -> Check:
    """Whether text on the screen could be read here."""
    import asyncio

    from hubbub.packs.activity.sidecar import capture, tesseract

    version = await asyncio.to_thread(tesseract.version)
    if version is None:
        return Check("ocr", False, "there is no tesseract", tesseract.ADVICE)
    screen = await asyncio.to_thread(capture.state)
    if screen == "mss is not installed":
        return Check("ocr", False, f"tesseract {version}, but {screen}", "pip install 'hubbub[activity]'")
    return Check("ocr", True, f"tesseract {version}; screen: {screen}")
