"""The activity pack as `hubbub` finds it. Light: whoever lists packs imports it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hubbub import Check, Pack
from hubbub.packs.activity.settings import ActivitySettings

if TYPE_CHECKING:
    from hubbub import Server
    from hubbub.packs.activity.desk import Desk


def install(server: Server, settings: ActivitySettings) -> Desk:
    """Register the tools, the resource and the prompts."""
    from hubbub.packs.activity import contract_tools, prompts, resource, tools
    from hubbub.packs.activity.desk import Desk

    desk = Desk(server, settings)
    for part in (contract_tools, tools, resource, prompts):
        part.register(desk)
    return desk


@asynccontextmanager
async def lifespan(desk: Desk) -> AsyncIterator[None]:
    """Watch for whoever watches, and let go of the connections when the server stops."""
    import asyncio

    from hubbub.packs.activity.resource import watch

    watching = asyncio.create_task(watch(desk))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await desk.sources.close()


async def activitywatch(settings: ActivitySettings) -> Check:
    """For `hubbub doctor`: whether ActivityWatch answers, and lets us read."""
    from hubbub.packs.activity import diagnosis

    return await diagnosis.activitywatch(settings)


async def watchers(settings: ActivitySettings) -> Check:
    """For `hubbub doctor`: whether the watchers record something."""
    from hubbub.packs.activity import diagnosis

    return await diagnosis.watchers(settings)


async def sidecar(settings: ActivitySettings) -> Check:
    """For `hubbub doctor`: whether the sidecar is there."""
    from hubbub.packs.activity import diagnosis

    return await diagnosis.sidecar(settings)


async def ocr(settings: ActivitySettings) -> Check:
    """For `hubbub doctor`: whether text on the screen could be read here."""
    from hubbub.packs.activity import diagnosis

    return await diagnosis.ocr(settings)


pack = Pack(
    name="activity",
    summary="what the person is doing now and did before, from ActivityWatch and the screen",
    install=install,
    settings=ActivitySettings,
    lifespan=lifespan,
    checks=(activitywatch, watchers, sidecar, ocr),
    commands={"sidecar": "hubbub.packs.activity.sidecar.command:main"},
    extra="activity",
)
