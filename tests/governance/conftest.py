"""Fixtures: a PostgreSQL server."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.packs.tabletop.backends import postgresql_server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Any]:
    with postgresql_server() as server:
        yield server
