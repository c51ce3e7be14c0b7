"""Hubbub's client and hub against a server of the Python SDK 1.9, which crashes at unknown requests."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.client.harness import assert_no_leaks
from tests.hub.upstreams import open_upstream

from hubbub import Client, ServerConfig

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".judges" / "old-sdk" / "bin" / "python"
SERVER = str(Path(__file__).parent / "servers" / "old_sdk.py")

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="the old Python SDK is not installed; `make setup` does it")


def old_server(**fields: Any) -> ServerConfig:
    return ServerConfig(id="old", command=str(PYTHON), args=[SERVER], **{"timeout_s": 60, **fields})


async def test_the_client_detects_the_era_of_an_old_server_and_calls_its_tools() -> None:
    async with assert_no_leaks(), Client(old_server()) as client:
        assert client.era == "legacy"
        assert client.protocol_version == "2025-03-26"
        assert [tool.name for tool in await client.tools()] == ["echo"]
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
        assert (await client.read_resource("file:///readme")).contents[0].text == "old_sdk.py"


async def test_a_pinned_version_is_used_without_detection() -> None:
    async with assert_no_leaks(), Client(old_server(protocol_version="2024-11-05")) as client:
        assert client.protocol_version == "2024-11-05"
        assert [tool.name for tool in await client.tools()] == ["echo"]


async def test_the_hub_serves_an_old_server() -> None:
    async with open_upstream(old_server(), list_s=60) as upstream:
        await upstream.refresh()
        assert [entry.name for entry in upstream.snapshot.tools] == ["echo"]


def test_the_command_line_detects_the_era_once(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    for _ in range(2):
        listed = subprocess.run(
            [sys.executable, "-m", "hubbub", "tools", "--json", "--", str(PYTHON), SERVER],
            env=environment, capture_output=True, timeout=80, check=True,
        )  # fmt: skip
        assert [tool["name"] for tool in json.loads(listed.stdout)["tools"]] == ["echo"]
        file = tmp_path / "hubbub" / "legacy-servers.json"
        assert len(json.loads(file.read_text())["until"]) == 1
        assert SERVER not in file.read_text()
