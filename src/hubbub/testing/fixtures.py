"""The pytest plugin behind `hubbub.testing`: the only module that imports pytest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hubbub import Client
from hubbub.testing import Connect, connect


@pytest.fixture
def mcp_connect() -> Iterator[Connect]:
    """Connect to a server as `hubbub.testing.connect` does; fails the test if a client is left open."""
    left_open: list[Client] = []

    @asynccontextmanager
    async def connect_and_track(*arguments: Any, **options: Any) -> AsyncIterator[Client]:
        async with connect(*arguments, **options) as client:
            left_open.append(client)
            yield client
            left_open.remove(client)

    yield connect_and_track
    assert not [client for client in left_open if client.is_open], f"Clients were left open: {left_open}"
