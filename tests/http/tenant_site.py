"""A server whose callers belong to tenants."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.http.in_process_server import RunningServer, run_server
from tests.http.keyring import Keyring
from tests.http.playground import make_server

from hubbub import Server
from hubbub.governance.tenants import Tenants
from hubbub.settings.governance import TenantSettings

Key = dict[str, str]


class TenantSite(NamedTuple):
    """The server, its keys and tenants, and the credentials of four callers."""

    running: RunningServer
    ring: Keyring
    tenants: Tenants
    ada: Key
    """The user `ada` of the tenant `acme`."""
    others: dict[str, Key]
    """Callers that differ from `ada` in one part: the credential, the user, or the tenant."""


@asynccontextmanager
async def run_with_tenants(
    folder: Path, server: Server | None = None, *, allow_plain: bool = False, **settings: Any
) -> AsyncIterator[TenantSite]:
    """Serve two tenants."""
    server = make_server() if server is None else server
    server.tenants = tenants = Tenants(
        [TenantSettings(name=name, allow_plain=allow_plain) for name in ("acme", "beta")]
    )
    ring = Keyring(folder / "keys.toml")
    ada = ring.add("laptop", tenant="acme", user="ada")
    others = {
        "credential": ring.add("phone", tenant="acme", user="ada"),
        "user": ring.add("bob", tenant="acme", user="bob"),
        "tenant": ring.add("beta", tenant="beta", user="ada"),
    }
    async with run_server(server, key_file=str(ring.path), **settings) as running:
        yield TenantSite(running, ring, tenants, ada, others)
