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
    from hubbub.packs.activity.service import ActivityService


def install(server: Server, settings: ActivitySettings) -> ActivityService:
    """Register the tools, the resource and the prompts."""
    from hubbub.packs.activity import prompts, resource, tools
    from hubbub.packs.activity.service import ActivityService

    service = ActivityService(server, settings)
    tools.register_contract_tools(service)
    for part in (tools, resource, prompts):
        part.register(service)
    server.wrap(service.sources.gate.wrap_peer)
    return service


@asynccontextmanager
async def lifespan(service: ActivityService) -> AsyncIterator[None]:
    """Poll for changes while clients subscribe, and close the connections when the server stops."""
    import asyncio

    from hubbub.packs.activity.resource import poll_changes

    polling = asyncio.create_task(poll_changes(service))
    try:
        yield
    finally:
        polling.cancel()
        await asyncio.wait([polling])
        await service.sources.close()


pack = Pack(
    name="activity",
    summary="what the user is doing now and did before, from ActivityWatch and the screen",
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
