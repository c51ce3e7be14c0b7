"""A hub with administration, two users with keys and an administrator, in the loop of the test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.http.eras import modern_request
from tests.http.in_process_server import RunningServer, run_server
from tests.http.keyring import Keyring
from tests.http.raw_http import Response, Site
from tests.hub.upstreams import asking_config

from hubbub import UpstreamConfig
from hubbub.admin.server import add_admin_view
from hubbub.hub.config import HubConfig
from hubbub.hub.gateway import Gateway

Key = dict[str, str]


class AdminHub(NamedTuple):
    """A hub with one server on stdio, and the headers of the keys."""

    gateway: Gateway
    running: RunningServer
    ada: Key
    bob: Key
    root: Key
    """Has the scope `hub:admin`."""

    @property
    def site(self) -> Site:
        return self.running.site

    async def call(self, tool: str, arguments: Any = None, key: Key | None = None, path: str = "/mcp") -> Response:
        """Call a tool as a modern client."""
        body, headers = modern_request("tools/call", {"name": tool, "arguments": arguments or {}})
        return await self.site.post(body, headers | (self.ada if key is None else key), path=path)

    async def administer(self, tool: str, arguments: Any = None, key: Key | None = None) -> Any:
        """Call a tool of administration; return its structured result."""
        answer = await self.call(tool, arguments, self.root if key is None else key, "/mcp/admin")
        result = answer.json["result"]
        assert not result.get("isError"), result
        return result["structuredContent"]

    async def find_pid(self, key: Key) -> int:
        """The process that serves this key."""
        return int((await self.call("pid", key=key)).json["result"]["content"][0]["text"])


@asynccontextmanager
async def open_admin_hub(folder: Path, *upstreams: UpstreamConfig) -> AsyncIterator[AdminHub]:
    """Serve the hub until the block ends."""
    ring = Keyring(folder / "keys.toml")
    ada, bob, root = ring.add("ada"), ring.add("bob"), ring.add("root", scopes=("hub:admin",))
    gateway = Gateway(HubConfig(upstreams=upstreams or (UpstreamConfig(id="asker", remote=asking_config()),)))
    add_admin_view(gateway)
    async with run_server(gateway.main_front, key_file=str(ring.path), limits=("off",)) as running:
        yield AdminHub(gateway, running, ada, bob, root)
