"""The authorization suite of the official conformance suite, against the front door of a hub.

It shows a person a URL and waits for the redirect; the person is scripted here.
"""

import asyncio
import shutil
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest
from tests.interop.external_servers import free_port
from tests.oauth.front_door.door_site import App, open_door

ROOT = Path(__file__).parent.parent.parent
SUITE = ROOT / "tests/judges/node_modules/@modelcontextprotocol/conformance/dist/index.js"


def find_node() -> str:
    local = ROOT / ".node/bin/node"
    found = str(local) if local.exists() else shutil.which("node")
    if found is None or not SUITE.exists():
        pytest.skip("no Node.js with the conformance suite here: `make setup` installs them")
    return found


async def test_both_scenarios_pass(tmp_path: Path) -> None:
    node, port = find_node(), free_port()
    redirect_uri = f"http://127.0.0.1:{port}/callback"
    async with open_door(tmp_path) as door:
        client = await door.register(redirect_uri)
        arguments = ("--url", door.url, "--client-id", client["client_id"], "--resource", f"{door.url}/mcp")
        process = await asyncio.create_subprocess_exec(
            node, str(SUITE), "authorization", *arguments, "-p", str(port), stdout=PIPE, stderr=STDOUT
        )
        assert process.stdout is not None
        lines = []
        try:
            async for line in process.stdout:
                lines.append(text := line.decode().strip())
                if text.startswith(f"{door.url}/oauth/authorize?"):
                    person = App(door, client["client_id"], redirect_uri="http://unused.invalid/")
                    page = await asyncio.to_thread(person.browser.visit, text)
                    page = await person.log_in(page)
                    page = await person.submit(page, {}, button=("decision", "allow"))
                    assert page.status == 200
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    output = "\n".join(lines)
    assert "authorization-code-grant: 1 passed, 0 failed" in output, output
    assert "authorization-server-metadata-endpoint: 2 passed, 0 failed" in output, output
