"""Servers that many tests share. A test that changes settings or stops the server starts its own."""

from collections.abc import Iterator

import pytest
from tests.http.raw_http import Site
from tests.http.server_process import PLAYGROUND, ServerProcess


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
