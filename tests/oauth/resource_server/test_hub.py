"""A hub built from a settings file: scopes of tokens decide, and tokens stay at the hub."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.http.in_process_server import run_server
from tests.http.raw_http import request
from tests.hub.local_hubs import toolbox
from tests.oauth.issuer import run_issuer
from tests.oauth.resource_server.sites import AUDIENCE, PUBLIC_URL, ProtectedSite

from hubbub.assembly.assemble import assemble
from hubbub.assembly.serve_settings import read_serve_settings
from hubbub.settings import collect_sources

SETTINGS = """
[oauth]
public_url = "{public_url}"

[[oauth.issuers]]
issuer = "{issuer}"

[servers.box]
url = "http://127.0.0.1:{port}/mcp"

[policy]
default = "deny"

[[policy.rules]]
effect = "allow"
scopes = ["box:*"]
tools = ["open"]
"""


@asynccontextmanager
async def record_traffic(port: int, received: bytearray) -> AsyncIterator[int]:
    """Forward connections to a port, and record what is sent there."""
    writers: list[asyncio.StreamWriter] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: bool) -> None:
        try:
            while data := await reader.read(65536):
                if record:
                    received.extend(data)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", port)
        writers.extend((writer, upstream_writer))
        await asyncio.gather(copy(reader, upstream_writer, True), copy(upstream_reader, writer, False))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        for writer in writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


@asynccontextmanager
async def run_hub(folder: Path, received: bytearray) -> AsyncIterator[ProtectedSite]:
    async with (
        run_issuer() as issuer,
        run_server(toolbox("box", "open", "closed")) as box,
        record_traffic(box.site.port, received) as port,
    ):
        path = folder / "hubbub.toml"
        path.write_text(SETTINGS.format(public_url=PUBLIC_URL, issuer=issuer.url, port=port))
        sources = collect_sources({"--config": str(path)}, {})
        hub = assemble(read_serve_settings(sources, lambda line: None), sources)
        async with run_server(hub) as running:
            yield ProtectedSite(running.site, issuer, hub)


async def list_tools(protected: ProtectedSite, token: str) -> list[str]:
    headers = {"Authorization": f"Bearer {token}"}
    response = await protected.site.post(request("tools/list"), headers)
    names = [tool["name"] for tool in response.json["result"]["tools"]]
    return [name for name in names if not name.startswith("hub")]


async def test_the_policy_decides_by_the_scopes_of_the_token(tmp_path: Path) -> None:
    async with run_hub(tmp_path, bytearray()) as protected:
        allowed = protected.issuer.sign(aud=AUDIENCE, scope="box:read")
        denied = protected.issuer.sign(aud=AUDIENCE, scope="other")
        assert await list_tools(protected, allowed) == ["open"]
        assert await list_tools(protected, denied) == []
        assert (await protected.call("open", authorization=f"Bearer {allowed}")).json["result"]
        assert "error" in (await protected.call("open", authorization=f"Bearer {denied}")).json
        assert (await protected.call("open")).status == 401


TOOL = """
from hubbub import Server

server = Server("notes")


@server.tool(scopes=("notes:write",))
def write_note() -> str:
    return "written"
"""
APPROVAL_SETTINGS = """
[oauth]
public_url = "{public_url}"
step_up_scopes = ["notes:write"]

[[oauth.issuers]]
issuer = "{issuer}"

[servers.notes]
target = "{target}"

[[policy.rules]]
effect = "confirm"
tools = ["write_note"]
"""


async def test_a_call_without_its_scopes_is_refused_before_anybody_is_asked_to_approve_it(tmp_path: Path) -> None:
    target, path = tmp_path / "notes.py", tmp_path / "hubbub.toml"
    target.write_text(TOOL)
    async with run_issuer() as issuer:
        path.write_text(APPROVAL_SETTINGS.format(public_url=PUBLIC_URL, issuer=issuer.url, target=target))
        sources = collect_sources({"--config": str(path)}, {})
        hub = assemble(read_serve_settings(sources, lambda line: None), sources)
        async with run_server(hub) as running:
            site = ProtectedSite(running.site, issuer, hub)
            message = request("tools/call", {"name": "write_note", "arguments": {}})
            for scope, expected in (("mcp", "insufficient_scope"), ("mcp notes:write", "approvalId")):
                headers = {"Authorization": f"Bearer {issuer.sign(aud=AUDIENCE, scope=scope)}"}
                await list_tools(site, headers["Authorization"].removeprefix("Bearer "))
                # A batch, because a single call is answered by its status before it reaches the hub.
                response = await site.site.post([message], headers)
                assert expected in response.body.decode()


async def test_tokens_are_never_sent_to_servers_behind_the_hub(tmp_path: Path) -> None:
    received = bytearray()
    async with run_hub(tmp_path, received) as protected:
        token = protected.issuer.sign(aud=AUDIENCE, scope="box:read")
        response = await protected.call("open", authorization=f"Bearer {token}")
        assert response.json["result"]["content"][0]["text"] == "box/open"
        assert b"tools/call" in received
        assert token.encode() not in received
        assert b"authorization" not in received.lower()
