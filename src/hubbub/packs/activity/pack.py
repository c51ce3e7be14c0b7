"""The entry point of the activity pack. Imports little, because listing packs imports it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hubbub import Pack
from hubbub.pack import Command
from hubbub.packs.activity.settings import ActivitySettings

if TYPE_CHECKING:
    from hubbub import Server
    from hubbub.packs.activity.desk import Desk


def install(server: Server, settings: ActivitySettings) -> Desk:
    """Register the tools, the resource and the prompts."""
    from hubbub.packs.activity import prompts, resource, tools
    from hubbub.packs.activity.desk import Desk

    desk = Desk(server, settings)
    tools.register_contract_tools(desk)
    for part in (tools, resource, prompts):
        part.register(desk)
    server.wrap(desk.sources.gate.around)
    return desk


@asynccontextmanager
async def lifespan(desk: Desk) -> AsyncIterator[None]:
    """Poll for changes while clients subscribe, and close the connections when the server stops."""
    import asyncio

    from hubbub.packs.activity.resource import watch

    watching = asyncio.create_task(watch(desk))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await desk.sources.close()


pack = Pack(
    name="activity",
    summary="what the person is doing now and did before, from ActivityWatch and the screen",
    install=install,
    settings=ActivitySettings,
    lifespan=lifespan,
    checks=tuple(f"hubbub.packs.activity.diagnosis:{name}" for name in ("activitywatch", "watchers", "sidecar", "ocr")),
    commands={
        "activity": Command("hubbub.packs.activity.command:main", "Pause disclosure, show its log, or export a period"),
        "sidecar": Command("hubbub.packs.activity.sidecar.command:main", "Read the screen for the pack's tools"),
    },
    extra="activity",
)
