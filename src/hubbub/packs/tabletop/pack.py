"""The tabletop pack as `hubbub` finds it. Light: whoever lists packs imports it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hubbub import Check, Health, Pack
from hubbub.packs.tabletop.settings import TabletopSettings

if TYPE_CHECKING:
    from hubbub import Server
    from hubbub.packs.tabletop.table import Table


def install(server: Server, settings: TabletopSettings) -> Table:
    """Register the tools, the resources and the prompts."""
    from hubbub.packs.tabletop import completions, prompts, resources
    from hubbub.packs.tabletop.choosing import choose_backend
    from hubbub.packs.tabletop.table import Table
    from hubbub.packs.tabletop.tools import actors, campaigns, context, participants, rolls, sessions, transfer

    table = Table(server, choose_backend(settings))
    tools = (context, campaigns, participants, actors, sessions, rolls, transfer)
    for part in (*tools, resources, prompts, completions):
        part.register(table)
    return table


@asynccontextmanager
async def lifespan(table: Table) -> AsyncIterator[None]:
    """Let go of the store when the server stops."""
    try:
        yield
    finally:
        await table.backend.close()


async def health(table: Table) -> Health:
    """Whether campaigns can be read and written now."""
    from hubbub.packs.tabletop.failures import Failure

    try:
        await table.backend.check()
    except Failure as failure:
        return Health(False, failure.message)
    return Health(True)


async def campaigns(settings: TabletopSettings) -> Check:
    """For `hubbub doctor`: whether campaigns can be read here."""
    from hubbub.packs.tabletop import diagnosis

    return await diagnosis.campaigns(settings)


pack = Pack(
    name="tabletop",
    summary="campaigns, sessions and Duality dice for a table with an AI at it",
    install=install,
    settings=TabletopSettings,
    lifespan=lifespan,
    health=health,
    checks=(campaigns,),
    commands={"campaign-server": "hubbub.packs.tabletop.campaign_server:main"},
    extra="tabletop",
    requires=("sqlalchemy", "alembic", "grpc", "grpc_health", "google.protobuf"),
)
