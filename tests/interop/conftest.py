"""Fixtures for third-party clients: the command of our server, and the Node.js that runs theirs."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.http.server_process import ServerProcess
from tests.interop.http_recorder import ServerAddress

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SERVER = HERE / "server.py"
JUDGES = ROOT / "tests" / "judges" / "node_modules"
DEADLINE_S = 120.0


@pytest.fixture(scope="session")
def command() -> list[str]:
    """The command of the server on stdio."""
    return [sys.executable, str(SERVER)]


@pytest.fixture(params=["stdio", "http"])
def address(request: pytest.FixtureRequest, command: list[str]) -> Iterator[ServerAddress]:
    """The address of a new server, over each transport in turn."""
    if request.param == "stdio":
        yield command
        return
    with ServerProcess(str(SERVER)) as process:
        yield f"{process.url}/mcp"


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a new server over HTTP."""
    with ServerProcess(str(SERVER)) as process:
        yield f"{process.url}/mcp"


@pytest.fixture(scope="session")
def run_async() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine to its end, or fail at the deadline."""

    def run(work: Coroutine[Any, Any, Any], seconds: float = DEADLINE_S) -> Any:
        async def run_with_deadline() -> Any:
            async with asyncio.timeout(seconds):
                return await work

        return asyncio.run(run_with_deadline())

    return run


@pytest.fixture(scope="session")
def node() -> list[str]:
    """The Node.js of the judges; the test is skipped if it is not installed."""
    local = ROOT / ".node" / "bin" / "node"
    found = str(local) if local.exists() else shutil.which("node")
    if found is None or not JUDGES.is_dir():
        pytest.skip("no Node.js judges here: `make setup` on a machine with node and npm installs them")
    return [found]


@pytest.fixture(scope="session")
def run_script(node: list[str]) -> Callable[..., Any]:
    """Run one of our client scripts against a server; return the JSON that it printed."""

    def run(address: ServerAddress, script: str, *arguments: str) -> Any:
        # `import` looks for packages beside the script, so the folder of the judges is passed explicitly.
        environment = os.environ | {"JUDGES": str(JUDGES)}
        done = subprocess.run(
            [*node, str(HERE / script), *arguments, *([address] if isinstance(address, str) else address)],
            capture_output=True,
            timeout=DEADLINE_S,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    return run
