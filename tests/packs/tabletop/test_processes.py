"""The commands of the contract: a campaign server, an HTTP server that uses it, curl, and stdio."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.http.raw_http import Site, call, request
from tests.http.shell_scripts import COOKIE_SESSION, run_script
from tests.interop.external_servers import free_port
from tests.packs.tabletop.contract import CONTRACT_TOOLS, ODDS
from tests.packs.tabletop.processes import run_campaign_server, run_tabletop_server

ROOT = Path(__file__).parents[3]
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here, with which to paste")


def parse_responses(printed: str) -> list[Any]:
    decoder, responses, position = json.JSONDecoder(), [], 0
    while position < len(printed):
        response, position = decoder.raw_decode(printed, position)
        responses.append(response)
    return responses


@needs_curl
def test_the_commands_of_the_contract_work(tmp_path: Path) -> None:
    backend, port = free_port(), free_port()
    with run_campaign_server(tmp_path, backend), run_tabletop_server(port, "--addr", f"localhost:{backend}"):
        opened, listed, health = parse_responses(run_script(COOKIE_SESSION, port, tmp_path / "cookies.txt"))
        assert opened["result"]["protocolVersion"] == "2024-11-05"
        assert set(CONTRACT_TOOLS) <= {tool["name"] for tool in listed["result"]["tools"]}
        assert health == {"status": "ready", "problems": []}
        more = """
curl -sS -b /tmp/mcp-cookies.txt -X POST http://localhost:8081/mcp -H "Content-Type: application/json" \\
  -d '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"campaign_create","arguments":
       {"name":"The Lost Expedition","gm_mode":"HUMAN"}}}'
curl -sS -b /tmp/mcp-cookies.txt -X POST http://localhost:8081/mcp -H "Content-Type: application/json" \\
  -d '{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"campaigns://list"}}'
curl -sS -b /tmp/mcp-cookies.txt -X POST http://localhost:8081/mcp -H "Content-Type: application/json" \\
  -d '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"duality_probability","arguments":
       {"modifier":2,"difficulty":15}}}'
"""
        made, read, odds = parse_responses(run_script(more, port, tmp_path / "cookies.txt"))
        identifier = json.loads(made["result"]["content"][0]["text"])["id"]
        (campaign,) = json.loads(read["result"]["contents"][0]["text"])["campaigns"]
        assert campaign["id"] == identifier
        assert json.loads(odds["result"]["content"][0]["text"]) == ODDS


async def test_health_reflects_the_campaign_server(tmp_path: Path) -> None:
    backend, port = free_port(), free_port()
    with run_tabletop_server(port, "--addr", f"localhost:{backend}"):
        site = Site(port)
        down = await site.get("/mcp/health")
        assert down.status == 503
        assert down.json["problems"][0].startswith("tabletop: ")
        # `initialize` and `tools/list` never wait for the campaign server.
        assert (await site.post(request("tools/list"))).status == 200
        failed = await site.post(call("campaign_create", {"name": "x", "gm_mode": "AI"}))
        assert failed.json["error"]["data"] == {"code": "Unavailable"}
        assert str(backend) not in failed.json["error"]["message"]
        assert "see the log of the server" in failed.json["error"]["message"]
        assert 'hubbub_store_up{store="tabletop"} 0.0' in (await site.get("/metrics")).body.decode()
        with run_campaign_server(tmp_path, backend):
            await _wait_for_health(200, site)
            made = await site.post(call("campaign_create", {"name": "x", "gm_mode": "AI"}))
            assert "result" in made.json
        await _wait_for_health(503, site)


async def _wait_for_health(status: int, site: Site) -> None:
    while (await site.get("/mcp/health")).status != status:
        pass  # Each request takes as long as the check of the campaign server.


async def test_two_servers_share_one_campaign_server(tmp_path: Path) -> None:
    backend, first, second = free_port(), free_port(), free_port()
    where = ("--addr", f"localhost:{backend}")
    with (
        run_campaign_server(tmp_path, backend),
        run_tabletop_server(first, *where),
        run_tabletop_server(second, *where),
    ):
        one, two = Site(first), Site(second)
        made = await one.post(request("campaign_create", {"name": "Shared", "gm_mode": "AI"}))
        campaign = made.json["result"]["id"]
        read = await two.post(request("resources/read", {"uri": f"campaign://{campaign}"}))
        assert json.loads(read.json["result"]["contents"][0]["text"])["campaign"]["name"] == "Shared"
        starts = await asyncio.gather(
            *(site.post(request("session_start", {"campaign_id": campaign})) for site in (one, two) for _ in range(4))
        )
        assert sum("result" in response.json for response in starts) == 1
        codes = [response.json["error"]["data"]["code"] for response in starts if "error" in response.json]
        assert codes == ["FailedPrecondition"] * 7


def test_the_script_starts_stdio_from_any_directory(tmp_path: Path) -> None:
    """Needs a finished setup, as `make test` leaves it: otherwise the script would use the network."""
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/mcp.sh", checkout / "scripts/mcp.sh")
    (checkout / "scripts/setup").write_text('#!/bin/sh\n[ "$1" = run ] && echo set up >&2\n')
    (checkout / "scripts/setup").chmod(0o755)
    (checkout / ".venv").symlink_to(Path(sys.executable).parents[1])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "linked").symlink_to(checkout / "scripts/mcp.sh")
    message = b'{"jsonrpc":"2.0","id":1,"method":"duality_rules_version"}\n'
    for command in (str(checkout / "scripts/mcp.sh"), "../checkout/scripts/mcp.sh", "./linked"):
        done = subprocess.run([command], input=message, cwd=elsewhere, capture_output=True, check=True)
        assert json.loads(done.stdout)["result"]["system"] == "Daggerheart"
        assert b"set up" in done.stderr


def test_go_style_flags_are_accepted(tmp_path: Path) -> None:
    message = b'{"jsonrpc":"2.0","id":1,"method":"duality_rules_version"}\n'
    hubbub = Path(sys.executable).with_name("hubbub")
    done = subprocess.run(
        [hubbub, "serve", "-transport=stdio", "-addr=localhost:1", "--pack", "tabletop"],
        input=message, capture_output=True, cwd=tmp_path,
    )  # fmt: skip
    assert json.loads(done.stdout)["error"]["data"]["code"] == "Unavailable"
