"""Runs `async def` tests: each in a loop of its own and within a deadline, without a plugin; keeps the home clean."""

import asyncio
import inspect
import os

import pytest

DEADLINE_S = 30.0


async def _within_deadline(deadline_s, test, arguments):
    async with asyncio.timeout(deadline_s):
        await test(**arguments)


@pytest.fixture(scope="session", autouse=True)
def _own_data_folder(tmp_path_factory):
    """No test leaves anything in the folders of whoever runs it."""
    os.environ["XDG_DATA_HOME"] = str(tmp_path_factory.mktemp("data"))
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in wanted}
    marker = pyfuncitem.get_closest_marker("deadline")
    asyncio.run(_within_deadline(marker.args[0] if marker else DEADLINE_S, test, arguments))
    return True
