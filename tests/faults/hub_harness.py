"""Faulty servers behind a hub in a separate process, with counts of its resources."""

import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
from tests.http.eras import modern_request
from tests.http.raw_http import Response
from tests.http.server_process import ServerProcess
from tests.interop.external_servers import run_http_server
from tests.processes import is_running

FAULTY_SERVER = Path(__file__).with_name("faulty_server.py")
WAIT_TIMEOUT_S = 60.0


class HubHarness:
    """A hub process, and the journals of its servers by name."""

    def __init__(self, hub: ServerProcess, folder: Path) -> None:
        self.hub = hub
        self.site = hub.site
        self._folder = folder

    async def request_result(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Send a modern request and return its result; an error fails the test."""
        answer = await self.request(method, params, **options)
        assert "result" in answer.json, answer.json
        return answer.json["result"]

    async def request(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Response:
        body, headers = modern_request(method, params, **options)
        # Without streams: these tests are about the upstreams.
        return await self.site.post(body, headers | {"Accept": "application/json"})

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        return await self.request_result("tools/call", {"name": tool, "arguments": arguments})

    async def tools(self) -> dict[str, Any]:
        found = await self.request_result("tools/list")
        return {entry["name"]: entry for entry in found["tools"]}

    def journal(self, server: str) -> list[str]:
        path = self._folder / f"{server}.journal"
        return path.read_text().splitlines() if path.exists() else []

    def calls(self, server: str) -> Counter[str]:
        return Counter(line.split()[1] for line in self.journal(server) if line.startswith("called "))

    def processes(self, server: str) -> list[int]:
        return [int(line.split()[1]) for line in self.journal(server) if line.startswith("started ")]

    def break_server(self, server: str) -> None:
        (self._folder / f"{server}.journal.sick").touch()

    def repair_server(self, server: str) -> None:
        (self._folder / f"{server}.journal.sick").unlink()

    def memory(self) -> int:
        return int(psutil.Process(self.hub.pid).memory_info().rss)

    def resource_counts(self) -> tuple[int, int, int]:
        """Count the open files, threads and child processes of the hub."""
        process = psutil.Process(self.hub.pid)
        children = [child for child in process.children(recursive=True) if is_running(child)]
        return process.num_fds(), process.num_threads(), len(children)


def stdio_config(folder: Path, name: str, *modes: str) -> dict[str, Any]:
    """Return the configuration of a server on stdio."""
    return {"command": sys.executable, "args": [str(FAULTY_SERVER), "stdio", str(folder / f"{name}.journal"), *modes]}


@contextlib.contextmanager
def http_config(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Run a server over HTTP; yield its configuration."""
    with run_http_server([sys.executable, str(FAULTY_SERVER), "http", str(folder / f"{name}.journal")]) as port:
        yield {"url": f"http://127.0.0.1:{port}/mcp"}


def write_config(
    folder: Path, servers: Mapping[str, Mapping[str, Any]], hub: Mapping[str, Any] | None = None
) -> list[str]:
    """Write the settings file of the hub; return the flags that name it. Names always have their server as prefix."""
    lines: list[str] = []
    for name, fields in servers.items():
        lines.append(f"[servers.{name}]")
        chosen = {"prefix": "always", "protocol_version": "2025-11-25", **fields}
        lines += [f"{key} = {json.dumps(value)}" for key, value in chosen.items()]
    lines += ["[hub]", *(f"{key} = {json.dumps(value)}" for key, value in (hub or {}).items())]
    path = folder / "hubbub.toml"
    path.write_text("\n".join(lines))
    return ["--config", str(path)]


@contextlib.contextmanager
def start_hub(
    folder: Path, servers: Mapping[str, Mapping[str, Any]], hub: Mapping[str, Any] | None = None
) -> Iterator[HubHarness]:
    """Run a hub with these servers."""
    with ServerProcess(*write_config(folder, servers, hub), "--limit", "off", "--drain-s", "1") as process:
        yield HubHarness(process, folder)


def result_text(result: Any) -> str:
    return str(result["content"][0]["text"])


async def wait_until(
    condition: Callable[[], bool], describe: Callable[[], Any] = lambda: "", timeout_s: float = WAIT_TIMEOUT_S
) -> None:
    """Wait until the condition is true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, describe()
        await asyncio.sleep(0.02)
