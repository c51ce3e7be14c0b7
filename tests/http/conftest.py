"""Servers that many tests share. One that changes its settings or dies starts its own."""

from collections.abc import Iterator

import pytest
from tests.http.processes import PLAYGROUND, ServerProcess
from tests.http.wire import Site


@pytest.fixture(scope="session")
def demo_process() -> Iterator[ServerProcess]:
    with ServerProcess("--pack", "demo") as process:
        yield process


@pytest.fixture(scope="session")
def demo(demo_process: ServerProcess) -> Site:
    return demo_process.site


@pytest.fixture(scope="session")
def playground_process() -> Iterator[ServerProcess]:
    with ServerProcess(str(PLAYGROUND)) as process:
        yield process


@pytest.fixture(scope="session")
def playground(playground_process: ServerProcess) -> Site:
    return playground_process.site
