"""The tabletop pack as `hubbub` finds it. Light: whoever lists packs imports it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from hubbub import Check, Health, Pack
from hubbub.packs.tabletop.settings import TabletopSettings

if TYPE_CHECKING:
    from hubbub import Server
    from hubbub.packs.tabletop.backend import Backend


class Tabletop(msgspec.Struct, frozen=True):
    """The pack on one server."""

    backend: Backend
    """Reaches its store or its server when it is first used."""


def install(server: Server, settings: TabletopSettings) -> Tabletop:
    """Register the tools and resources."""
    from hubbub.packs.tabletop.choosing import choose_backend

    return Tabletop(choose_backend(settings))


@asynccontextmanager
async def lifespan(table: Tabletop) -> AsyncIterator[None]:
    """Let go of the store when the server stops."""
    try:
        yield
    finally:
        await table.backend.close()


async def health(table: Tabletop) -> Health:
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
