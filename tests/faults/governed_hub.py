"""A hub with tenants, keys, policy, quotas and audit in one process, and the server behind it in another."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.faults.hub_harness import wait_until
from tests.http.eras import modern_request
from tests.http.keyring import Keyring
from tests.http.raw_http import Response
from tests.http.server_process import HUBBUB, ServerProcess

RECORDING_SERVER = Path(__file__).with_name("recording_server.py")
TENANTS = """
[[tenants]]
name = "acme"
allow_plain = true
[[tenants]]
name = "beta"
"""
Key = dict[str, str]


class GovernedHub:
    """The files of the hub, the keys of its callers, and its process while `serving`."""

    def __init__(self, folder: Path, upstream: str) -> None:
        self.folder = folder
        self.config = folder / "hubbub.toml"
        self.audit = folder / "audit"
        self.ring = Keyring(folder / "keys.toml")
        self.ada = self.ring.add("ada", tenant="acme", user="ada")
        self.bob = self.ring.add("bob", tenant="beta", user="bob")
        self.admin = self.ring.add("admin", tenant="acme", user="admin", scopes=("hub:admin",))
        self._upstream = upstream
        self.process: ServerProcess | None = None

    def beside(self, folder: Path) -> "GovernedHub":
        """Another hub with the same server and keys of its own."""
        folder.mkdir()
        other = GovernedHub(folder, self._upstream)
        other.write_config()
        return other

    def write_config(self, rules: str = "", *, top: str = "", tenants: str = TENANTS, audit: str = "") -> None:
        """Write the settings file in one step."""
        draft = self.config.with_suffix(".new")
        draft.write_text(
            f'key_file = "{self.ring.path}"\n{top}\n'
            f'[servers.rec]\nurl = "{self._upstream}"\nallow_private_network = true\nprefix = "never"\n'
            f'{tenants}\n{rules}\n[audit]\nfolder = "{self.audit}"\n{audit}\n'
        )
        draft.replace(self.config)

    @contextmanager
    def serving(self, *flags: str) -> Iterator[ServerProcess]:
        """Run the hub until the block ends."""
        with ServerProcess("--config", str(self.config), "--limit", "off", "--drain-s", "1", *flags) as process:
            self.process = process
            yield process

    @asynccontextmanager
    async def serving_in_thread(self) -> AsyncIterator[None]:
        """Like `serving`, while other tasks go on."""
        with ExitStack() as stack:
            await asyncio.to_thread(lambda: stack.enter_context(self.serving()))
            yield

    async def request(self, key: Key, method: str, path: str = "/mcp", **params: Any) -> Response:
        """Send a modern request."""
        assert self.process is not None
        body, headers = modern_request(method, params)
        return await self.process.site.post(body, headers | {"Accept": "application/json"} | key, path=path)

    async def call(self, key: Key, tool: str, path: str = "/mcp", **arguments: Any) -> Response:
        return await self.request(key, "tools/call", path, name=tool, arguments=arguments)

    async def tool_names(self, key: Key) -> set[str]:
        answer = await self.request(key, "tools/list")
        return {entry["name"] for entry in answer.json["result"]["tools"]}

    async def administer(self, tool: str, **arguments: Any) -> Any:
        """Call a tool of administration as an administrator of the tenant acme."""
        answer = await self.call(self.admin, tool, "/mcp/admin", **arguments)
        return answer.json["result"]

    def log(self) -> str:
        assert self.process is not None
        return "".join(self.process.stderr_lines)

    async def wait_for_log(self, text: str) -> None:
        await wait_until(lambda: text in self.log(), self.log)

    def executed(self) -> list[str]:
        """What the server executed, in this order."""
        path = self.folder / "executed.log"
        return path.read_text().splitlines() if path.exists() else []

    def records(self, event: str = "") -> list[dict[str, Any]]:
        """The records of the journal, or those of one event."""
        lines = [
            line
            for path in sorted(self.audit.glob("journal-*.jsonl"))
            for line in path.read_bytes().splitlines(keepends=True)
        ]
        found = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [record for record in found if event in ("", record["event"])]

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of Hubbub."""
        return subprocess.run([HUBBUB, *arguments], capture_output=True, text=True, check=False, cwd=self.folder)

    def verify(self) -> "subprocess.CompletedProcess[str]":
        return self.run("audit", "verify", "--folder", str(self.audit))


def digest(arguments: Any) -> str:
    """The digest of arguments in records, for requests of these tests."""
    return sha256(json.dumps(arguments).encode()).hexdigest()


def texts(response: Response) -> str:
    """The text of the result of a tool; an error fails the test."""
    result = response.json["result"]
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


def error_text(response: Response) -> str:
    """The error of a call, as a model or a program reads it."""
    found = response.json
    if "error" in found:
        return json.dumps(found["error"])
    assert found["result"].get("isError"), found
    return json.dumps(found["result"])


@contextmanager
def governed_hub(folder: Path, rules: str = "", **options: Any) -> Iterator[GovernedHub]:
    """Run the recording server; the hub is started with `serving`."""
    program = Path(shutil.copy(RECORDING_SERVER, folder))
    with ServerProcess(str(program), "--limit", "off") as upstream:
        hub = GovernedHub(folder, f"{upstream.url}/mcp")
        hub.write_config(rules, **options)
        yield hub


def quote(names: Sequence[str]) -> str:
    """A list of texts in TOML."""
    return json.dumps(list(names))
