"""The entry point of the tabletop pack. Imports little, because listing packs imports it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hubbub import Check, Health, Pack
from hubbub.pack import Command
from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.settings import TabletopSettings

if TYPE_CHECKING:
    from hubbub import Server
    from hubbub.packs.tabletop.service import TabletopService


def install(server: Server, settings: TabletopSettings) -> TabletopService:
    """Register the tools, the resources and the prompts."""
    from hubbub.packs.tabletop import prompts, resources
    from hubbub.packs.tabletop.backend_factory import choose_backend
    from hubbub.packs.tabletop.service import TabletopService
    from hubbub.packs.tabletop.store_status import make_store_metrics
    from hubbub.packs.tabletop.tools import actors, campaigns, context, participants, rolls, sessions, transfer

    service = TabletopService(server, choose_backend(settings))
    server.metrics += make_store_metrics(service.backend.status)
    tools = (context, campaigns, participants, actors, sessions, rolls, transfer)
    for module in (*tools, prompts, resources):
        module.register(service)
    return service


@asynccontextmanager
async def lifespan(service: TabletopService) -> AsyncIterator[None]:
    """Check the store soon after the start, so that a failure is logged; close it when the server stops."""
    check_task = asyncio.create_task(_check_soon(service))
    try:
        yield
    finally:
        check_task.cancel()
        await asyncio.wait([check_task])
        await service.backend.close()


async def _check_soon(service: TabletopService) -> None:
    await asyncio.sleep(limits.FIRST_CHECK_DELAY_S)
    await health(service)  # Failures are logged there.


async def health(service: TabletopService) -> Health:
    """Report whether campaigns can be read and written now."""
    from hubbub.packs.tabletop.failures import Failure

    try:
        await service.backend.check()
    except Failure as failure:
        return Health(False, failure.message)
    return Health(True)


async def campaigns(settings: TabletopSettings) -> Check:
    """Check for `hubbub doctor` that campaigns can be stored here; does not create a database."""
    from hubbub.packs.tabletop.backend_factory import choose_backend
    from hubbub.packs.tabletop.failures import Failure

    backend = choose_backend(settings)
    try:
        await backend.check()
    except Failure as failure:
        return Check("campaigns", False, failure.reason, _suggest_fix(settings))
    finally:
        await backend.close()
    return Check("campaigns", True, _describe_location(settings))


def _describe_location(settings: TabletopSettings) -> str:
    if settings.addr is not None:
        return f"stored by the campaign server at {settings.addr}"
    if settings.database is None:
        from hubbub.packs.tabletop.store_backend import default_path

        path = default_path()
        return f"stored in {path}" if path.exists() else f"will be stored in {path}"
    return "stored in the database of HUBBUB_TABLETOP_DATABASE or [packs.tabletop]"


def _suggest_fix(settings: TabletopSettings) -> str:
    if settings.addr is not None:
        return f"start it: hubbub campaign-server --addr {settings.addr}"
    if settings.database is not None:
        return "check that the database of HUBBUB_TABLETOP_DATABASE or [packs.tabletop] is running"
    return "make the data folder writable, or name another database in HUBBUB_TABLETOP_DATABASE"


pack = Pack(
    name="tabletop",
    summary="campaigns, sessions and Duality dice for tabletop games with an AI",
    install=install,
    settings=TabletopSettings,
    lifespan=lifespan,
    health=health,
    checks=(campaigns,),
    commands={
        "campaign-server": Command(
            "hubbub.packs.tabletop.campaign_server:main", "Store campaigns for servers in other processes"
        )
    },
    single_dash_flags=("transport", "http-addr", "addr"),
    extra="tabletop",
    requires=("sqlalchemy", "alembic", "grpc", "grpc_health", "grpc_reflection", "google.protobuf"),
)
