"""The stores: SQLite and PostgreSQL."""

from pathlib import Path

import pytest
from tests.packs.tabletop.backends import new_database


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "postgresql":
        return new_database(request.getfixturevalue("postgresql"))
    return f"sqlite:///{tmp_path / 'oauth.db'}"
