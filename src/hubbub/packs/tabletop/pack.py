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
    from hubbub.packs.tabletop.table import Table


def install(server: Server, settings: TabletopSettings) -> Table:
    """Register the tools, the resources and the prompts."""
    from hubbub.packs.tabletop import prompts, resources
    from hubbub.packs.tabletop.choosing import choose_backend
    from hubbub.packs.tabletop.store_status import store_figures
    from hubbub.packs.tabletop.table import Table
    from hubbub.packs.tabletop.tools import actors, campaigns, context, participants, rolls, sessions, transfer

    table = Table(server, choose_backend(settings))
    server.metrics += store_figures(table.backend.status)
    tools = (context, campaigns, participants, actors, sessions, rolls, transfer)
    for part in (*tools, prompts, resources):
        part.register(table)
    return table


@asynccontextmanager
async def lifespan(table: Table) -> AsyncIterator[None]:
    """Check the store soon after the start, so that a failure is logged; close it when the server stops."""
    look = asyncio.create_task(_check_soon(table))
    try:
        yield
    finally:
        look.cancel()
        await asyncio.wait([look])
        await table.backend.close()


async def _check_soon(table: Table) -> None:
    await asyncio.sleep(limits.TABLE_FIRST_CHECK_S)
    await health(table)  # Failures are logged there.


async def health(table: Table) -> Health:
    """Report whether campaigns can be read and written now."""
    from hubbub.packs.tabletop.failures import Failure

    try:
        await table.backend.check()
    except Failure as failure:
        return Health(False, failure.message)
    return Health(True)


async def campaigns(settings: TabletopSettings) -> Check:
    """Check for `hubbub doctor` that campaigns can be stored here; does not create a database."""
    from hubbub.packs.tabletop.choosing import choose_backend
    from hubbub.packs.tabletop.failures import Failure

    backend = choose_backend(settings)
    try:
        await backend.check()
    except Failure as failure:
        return Check("campaigns", False, failure.reason, _advice(settings))
    finally:
        await backend.close()
    return Check("campaigns", True, _where(settings))


def _where(settings: TabletopSettings) -> str:
    if settings.addr is not None:
        return f"kept by the campaign server at {settings.addr}"
    if settings.database is None:
        from hubbub.packs.tabletop.store_backend import usual_path

        path = usual_path()
        return f"kept in {path}" if path.exists() else f"will be kept in {path}"
    return "kept in the database that is set"


def _advice(settings: TabletopSettings) -> str:
    if settings.addr is not None:
        return f"hubbub campaign-server --addr {settings.addr}"
    if settings.database is not None:
        return "see whether the database of HUBBUB_TABLETOP_DATABASE runs"
    return "make the data folder writable, or name another database in HUBBUB_TABLETOP_DATABASE"


pack = Pack(
    name="tabletop",
    summary="campaigns, sessions and Duality dice for a table with an AI at it",
    install=install,
    settings=TabletopSettings,
    lifespan=lifespan,
    health=health,
    checks=(campaigns,),
    commands={
        "campaign-server": Command(
            "hubbub.packs.tabletop.campaign_server:main", "Keep campaigns for servers in other processes"
        )
    },
    single_dash_flags=("transport", "http-addr", "addr"),
    extra="tabletop",
    requires=("sqlalchemy", "alembic", "grpc", "grpc_health", "grpc_reflection", "google.protobuf"),
)
