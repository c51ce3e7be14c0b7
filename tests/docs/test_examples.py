"""The examples, and the pack that the page on packs shows, run as their readers would."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.agent.chat_endpoint import answer, run_endpoint
from tests.docs.blocks import ROOT, read_blocks

from hubbub import Client, RemoteError, ServerConfig

EXAMPLES = ROOT / "examples"
README = (EXAMPLES / "README.md").read_text(encoding="utf-8")
SERVERS = ("echo.py", "weather.py")
COMMANDS = re.findall(r"`(hubbub call [^`]+|cd examples [^`]+)`", README)
_URL = re.compile(rb"running on (http://127\.0\.0\.1:[0-9]+)")
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'


def ask(message: bytes, *arguments: str, folder: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "hubbub", "serve", *arguments, "--transport", "stdio"],
        input=message, cwd=folder, env=os.environ | {"PYTHONPATH": str(folder / "src")},
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)["result"]


@pytest.mark.parametrize("name", SERVERS)
def test_an_example_can_be_served(name: str, tmp_path: Path) -> None:
    assert ask(LIST, str(EXAMPLES / name), folder=tmp_path)["tools"]


def test_the_list_of_examples_is_complete() -> None:
    assert sorted(re.findall(r"^\| \[(.+?)\]\(\1\)", README, re.MULTILINE)) == sorted(
        path.name for path in EXAMPLES.glob("*.py")
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_in_the_list_of_examples_work(command: str) -> None:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-euc", command], cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    expected = {"echo": "hello", "forecast": "degrees_celsius", "echo__echo": "hello", "pytest": "7 passed"}
    assert expected[command.split()[3] if command.startswith("hubbub") else "pytest"] in done.stdout


async def test_the_agent_example_uses_the_result_of_the_tool() -> None:
    call = answer(None, ("call-1", "mcp_weather__forecast", '{"city": "Bergen", "days": 1}'))
    async with run_endpoint(call, answer("Take a coat.")) as endpoint:
        agent = await asyncio.create_subprocess_exec(
            sys.executable, str(EXAMPLES / "agent.py"), "What shall I pack?",
            env=os.environ | {"MODEL_URL": endpoint.url, "MODEL": "any"}, stdout=subprocess.PIPE,
        )  # fmt: skip
        said, _ = await agent.communicate()
    assert said.decode().strip() == "Take a coat."
    question, with_result = (body["messages"] for body in endpoint.bodies)
    assert question[-1]["content"] == "What shall I pack?"
    assert "degrees_celsius" in with_result[-1]["content"]


async def test_the_fastapi_example_serves_its_pages_and_the_tools() -> None:
    app = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "uvicorn", "fastapi_app:app", "--app-dir", str(EXAMPLES), "--port", "0",
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert app.stderr is not None
        found = None
        while found is None:
            line = await app.stderr.readline()
            assert line, "it ended before it listened"
            found = _URL.search(line)
        url = found[1].decode()
        shop = ServerConfig(id="shop", transport="streamable_http", url=f"{url}/tools/mcp")
        async with Client(shop) as client:
            assert (await client.call_tool("reserve", {"item": "tea", "count": 2})).text == "10"
            assert (await client.call_tool("reserve", {"item": "coffee"})).is_error
            with pytest.raises(RemoteError):
                await client.call_tool("refund", {})
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"GET /stock HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b'{"tea":10,"coffee":0}')
        writer.close()
    finally:
        app.kill()
        await app.communicate()


def test_the_documented_pack_is_found_and_reads_its_settings(tmp_path: Path) -> None:
    blocks = {block.title: block.text for block in read_blocks(ROOT / "docs/packs.md") if block.title is not None}
    source = tmp_path / "src"
    (source / "tides").mkdir(parents=True)
    (source / "tides/pack.py").write_text(blocks["src/tides/pack.py"])
    (tmp_path / "hubbub.toml").write_text(blocks["hubbub.toml"])
    # The metadata that pip would write from the page's pyproject.toml.
    (source / "tides-1.0.0.dist-info").mkdir()
    (source / "tides-1.0.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: tides\nVersion: 1.0.0\n")
    entry = blocks["pyproject.toml"].split('[project.entry-points."hubbub.packs"]\n')[1].replace('"', "")
    (source / "tides-1.0.0.dist-info/entry_points.txt").write_text(f"[hubbub.packs]\n{entry}")
    call = b'{"jsonrpc":"2.0","id":1,"method":"tide"}\n'
    tides = ("--config", "hubbub.toml", "--pack", "tides")
    assert ask(call, *tides, folder=tmp_path) == "6 m at Dover"
    assert ask(call, *tides, "--harbour", "Brest", folder=tmp_path) == "6 m at Brest"
