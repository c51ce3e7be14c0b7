"""Hubs for a team, their users, and what their journals have."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.hub.local_hubs import make_hub
from tests.server.raw_client import MODERN, RawClient, connect_raw_client

from hubbub import Principal, Server
from hubbub.assembly.governance import add_governor
from hubbub.governance.audit_events import AuditRecord
from hubbub.governance.journal_reader import read_records
from hubbub.hub.gateway import Gateway
from hubbub.settings.governance import GovernanceSettings

LEGACY = "2025-11-25"
ERAS = [LEGACY, MODERN]
each_era = pytest.mark.parametrize("dialect", ERAS)
TENANTS = [{"name": "red", "servers": ["library"]}, {"name": "blue"}]


def user(tenant: str, name: str = "ada") -> Principal:
    return Principal(f"{tenant}/{name}#c1", tenant=tenant, user=name, credential="c1")


def shop(ran: list[str]) -> Server:
    server = Server("shop")

    @server.tool
    async def order(item: str) -> str:
        """Order an item."""
        ran.append(item)
        return f"ordered {item}"

    return server


def governed_hub(*servers: Server, folder: Path | None = None, **settings: Any) -> Gateway:
    audit = {} if folder is None else {"audit": {"folder": str(folder), "sync": "off"}}
    governance = msgspec.convert({"tenants": TENANTS, **audit, **settings}, GovernanceSettings)
    if folder is None:
        governance = msgspec.structs.replace(governance, tenants=())
    hub = make_hub(*servers, governance=governance)
    add_governor(hub)
    return hub


@asynccontextmanager
async def connect(
    hub: Gateway, principal: Principal, dialect: str = LEGACY, capabilities: dict[str, Any] | None = None
) -> AsyncIterator[RawClient]:
    options: dict[str, Any] = {"principal": principal, "scope": f"session of {principal.name}"}
    async with hub.running(), connect_raw_client(hub.main_front, dialect, capabilities or {}, **options) as client:
        yield client


def decisions(folder: Path) -> list[tuple[str, str, str, str]]:
    found: list[tuple[str, str, str, str]] = []
    for _, record in read_records(folder):
        if record.event == "decision":
            assert record.decision is not None
            found.append((record.tenant, record.action, record.tool, record.decision.effect))
    return found


def journal(folder: Path, *events: str) -> list[AuditRecord]:
    return [record for _, record in read_records(folder) if record.event in events]
