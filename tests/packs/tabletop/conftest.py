"""Fixtures: a backend of every kind, and databases of every kind."""

from functools import partial
from pathlib import Path

import pytest
from tests.packs.tabletop.backends import (
    KINDS,
    OpenBackend,
    new_database,
    open_grpc_backend,
    open_store_backend,
)


@pytest.fixture(params=("sqlite", "postgresql"))
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty SQLite or PostgreSQL database."""
    if request.param == "postgresql":
        return new_database(request.getfixturevalue("postgresql"))
    return f"sqlite:///{tmp_path / 'table.db'}"


@pytest.fixture(params=KINDS)
def open_backend(request: pytest.FixtureRequest, tmp_path: Path) -> OpenBackend:
    """Opens backends of each kind; the database is empty when the test starts."""
    if request.param == "postgresql":
        return partial(open_store_backend, new_database(request.getfixturevalue("postgresql")))
    url = f"sqlite:///{tmp_path / 'table.db'}"
    return partial(open_grpc_backend if request.param == "grpc" else open_store_backend, url)
