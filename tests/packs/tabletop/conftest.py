"""What the tests of keepers share: every kind of keeper, under one name."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.packs.tabletop.backends import (
    KINDS,
    OpenBackend,
    new_database,
    open_grpc_backend,
    open_store_backend,
    postgresql_server,
)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Any]:
    with postgresql_server() as server:
        yield server


@pytest.fixture(params=("sqlite", "postgresql"))
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, of either kind."""
    if request.param == "postgresql":
        return new_database(request.getfixturevalue("postgresql"))
    return f"sqlite:///{tmp_path / 'table.db'}"


@pytest.fixture(params=KINDS)
def open_backend(request: pytest.FixtureRequest, tmp_path: Path) -> OpenBackend:
    """Opens a keeper of each kind, on a database that was empty when the test began."""
    if request.param == "postgresql":
        return partial(open_store_backend, new_database(request.getfixturevalue("postgresql")))
    url = f"sqlite:///{tmp_path / 'table.db'}"
    return partial(open_grpc_backend if request.param == "grpc" else open_store_backend, url)
