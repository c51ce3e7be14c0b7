"""Fixtures for the tests of the peers pack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.packs.peers import judge as judging


@pytest.fixture(scope="session")
def judge() -> Iterator[judging.Judge]:
    process = judging.start()
    try:
        yield judging.Judge(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def exit_stack() -> Iterator[ExitStack]:
    """Cleans up at the end of the test, for instance ends processes."""
    with ExitStack() as stack:
        yield stack
