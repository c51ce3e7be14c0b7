"""The stores: SQLite and PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.identity.conftest import oidc_provider, start_oidc_provider
from tests.packs.tabletop.backends import new_database, postgresql_server

__all__ = ["oidc_provider", "start_oidc_provider"]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Any]:
    with postgresql_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "postgresql":
        return new_database(request.getfixturevalue("postgresql"))
    return f"sqlite:///{tmp_path / 'oauth.db'}"
