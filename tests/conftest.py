"""Runs each `async def` test in its own loop with a deadline, without a plugin; isolates the user's folders."""

import inspect
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests import clock

DEADLINE_S = 120.0
# Set by `coverage run`, under which tests take twice the CPU time.
DEADLINE_FACTOR = 4 if "COVERAGE_RUN" in os.environ else 1


def pytest_configure() -> None:
    # A shell starts background jobs with SIGINT ignored, which programs started by the tests would inherit.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _isolated_user_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep tests from writing to the user's folders and reading the user's settings."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))
    os.environ["XDG_DATA_HOME"] = str(tmp_path_factory.mktemp("data"))
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """User folders for this test only, if files of other tests would affect it."""
    for kind in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path_factory.mktemp(kind.lower())))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Any]:
    """A PostgreSQL server for all tests of this process."""
    from tests.packs.tabletop.backends import postgresql_server  # few tests need it

    with postgresql_server() as server:
        yield server


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    clock.run_test(test(**arguments), DEADLINE_FACTOR * DEADLINE_S)
    return True
