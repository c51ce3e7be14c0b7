"""A hub with tenants, built from a settings file as `hubbub serve` builds it, with callers that differ in one part."""

import asyncio
import os
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.http.eras import modern_request
from tests.http.in_process_server import RunningServer, run_server
from tests.http.keyring import Keyring
from tests.http.raw_http import TIMEOUT_S, Response
from tests.http.server_process import HUBBUB
from tests.hub.file_hub import reload_count, reload_problem, replace_file, wait_until

from hubbub.assembly.assemble import assemble
from hubbub.assembly.serve_settings import read_serve_settings
from hubbub.hub.front import Front
from hubbub.settings import collect_sources

Key = dict[str, str]
TENANTS = """
[[tenants]]
name = "acme"
allow_stdio = true
allow_plain = true

[[tenants]]
name = "beta"
allow_stdio = true
allow_plain = true
"""
PARTS = ["tenant", "user", "credential", "rotation"]
"""The parts of a principal; a rotated key is another credential."""


class TenantHub:
    """The hub, its settings file and its callers."""

    def __init__(self, path: Path, ring: Keyring, running: RunningServer, callers: dict[str, Key]) -> None:
        self.path = path
        self.ring = ring
        self.site = running.site
        assert isinstance(running.server, Front)
        self.front = running.server
        self.ada = callers["ada"]
        """The user `ada` of the tenant `acme`."""
        self._callers = callers

    async def other(self, part: str) -> Key:
        """A caller that differs from `ada` in one part."""
        return await self.rotate() if part == "rotation" else self._callers[part]

    async def rotate(self) -> Key:
        """Make the next version of the key of `ada`, with `hubbub keys rotate`; the current one stays valid."""
        command = [str(HUBBUB), "keys", "rotate", "laptop", "--key-file", str(self.ring.path), "--overlap", "1h"]
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
        new_key, errors = await process.communicate()
        assert process.returncode == 0, errors
        rotated = {"X-API-Key": new_key.decode().strip()}
        async with asyncio.timeout(TIMEOUT_S):
            while (await self.send(rotated, "tools/list")).status != 200:
                await asyncio.sleep(0.05)
        return rotated

    async def change(self, change: Callable[[str], str]) -> None:
        """Change the settings file, and wait until the hub has applied it."""
        before = reload_count(self.front)
        replace_file(self.path, change(self.path.read_text()))
        await wait_until(lambda: reload_count(self.front) > before or reload_problem(self.front))
        assert reload_problem(self.front) is None

    async def send(self, key: Key, method: str, /, *, capabilities: Any = None, **params: Any) -> Response:
        body, headers = modern_request(method, params, capabilities=capabilities)
        return await self.site.post(body, headers | key)

    async def call(self, key: Key, name: str, /, **arguments: Any) -> str:
        """Call a tool; return its text."""
        answer = await self.send(key, "tools/call", name=name, arguments=arguments)
        assert answer.status == 200, answer
        assert "result" in answer.json, answer
        result = answer.json["result"]
        assert not result.get("isError"), result
        return str(result["content"][0]["text"])


@asynccontextmanager
async def run_tenant_hub(folder: Path, text: str, tenants: str = TENANTS) -> AsyncIterator[TenantHub]:
    """Serve the hub of these settings on a free port."""
    ring = Keyring(folder / "keys.toml")
    callers = {
        "ada": ring.add("laptop", tenant="acme", user="ada"),
        "credential": ring.add("phone", tenant="acme", user="ada"),
        "user": ring.add("bob", tenant="acme", user="bob"),
        "tenant": ring.add("beta", tenant="beta", user="ada"),
        "admin": ring.add("operator", tenant="acme", user="operator", scopes=("hub:admin",)),
    }
    path = folder / "hubbub.toml"
    path.write_text(text + tenants)
    flags = {"--config": str(path), "--key-file": str(ring.path), "--transport": "http", "--port": "0"}
    sources = collect_sources(flags, {**os.environ, "HUBBUB_HUB__LIST_S": "60"})
    front = assemble(read_serve_settings(sources, lambda line: None), sources)
    async with run_server(front, key_file=str(ring.path), limits=("off",)) as running:
        yield TenantHub(path, ring, running, callers)
