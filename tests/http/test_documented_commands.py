"""The commands of the interface documents, run in a shell unchanged except for the port."""

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.http.in_process_server import run_server
from tests.http.raw_http import Site, call, request
from tests.http.server_process import PLAYGROUND, ServerProcess
from tests.http.shell_scripts import COOKIE_SESSION, SHELL_TIMEOUT_S, environment_without_proxies, run_script

from hubbub import Server, __version__
from hubbub.packs.demo import WELCOME

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

LIST_TOOLS = """\
curl -X POST http://localhost:3000/mcp \\
  -H "Content-Type: application/json" \\
  -d '{
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/list"
  }'
"""
LISTEN = """\
curl -N http://localhost:3000/mcp \\
  -H "Accept: text/event-stream"
"""
TOOLS: list[dict[str, Any]] = [
    {
        "name": "hello-world",
        "description": "Returns a simple greeting message",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    },
    {
        "name": "echo",
        "description": "Echoes back the provided text",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "Text to echo back"}},
            "required": ["text"],
            "additionalProperties": False,
        },
    },
    {
        "name": "health",
        "description": "Returns the server's status, version and uptime",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    },
]


def test_the_documented_tools_list_command_gets_the_exact_response(demo: Site) -> None:
    assert run_script(LIST_TOOLS, demo.port) == json.dumps(
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": TOOLS}}, separators=(",", ":")
    )


def test_the_documented_cookie_script_gets_the_exact_responses(demo: Site, tmp_path: Path) -> None:
    jar = tmp_path / "cookies.txt"
    printed = run_script(COOKIE_SESSION, demo.port, jar)
    decoder, answers, position = json.JSONDecoder(), [], 0
    while position < len(printed):
        answer, position = decoder.raw_decode(printed, position)
        answers.append(answer)
    opened, listed, health = answers
    assert opened["id"] == 1
    assert opened["result"]["protocolVersion"] == "2024-11-05"
    assert opened["result"]["serverInfo"]["name"] == "hubbub"
    assert listed == {"jsonrpc": "2.0", "id": 2, "result": {"tools": TOOLS}}
    assert health == {"status": "ready", "problems": []}
    assert "#HttpOnly_localhost\tFALSE\t/\tFALSE\t0\tmcp_session\t" in jar.read_text()


def test_the_documented_curl_command_receives_change_notifications() -> None:
    with ServerProcess(str(PLAYGROUND)) as process:
        script = LISTEN.replace("3000", str(process.site.port))
        with subprocess.Popen(
            ["bash", "-c", f"exec {script}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment_without_proxies(),
        ) as curl:
            try:
                assert curl.stdout is not None
                add_tool_once_listened(process)
                lines = [curl.stdout.readline() for _ in range(3)]
            finally:
                curl.kill()
                curl.communicate()
    name, data, end = lines
    assert (name, end) == (b"event: message\n", b"\n")
    assert data.startswith(b"data: {")
    note = json.loads(data.removeprefix(b"data: "))
    timestamp = note["params"].pop("timestamp")
    assert isinstance(timestamp, int)
    assert timestamp > 1_700_000_000_000
    assert note == {
        "jsonrpc": "2.0",
        "method": "notifications/tools/list_changed",
        "params": {"type": "tool_added", "toolName": "calculator"},
    }
    assert list(json.loads(data.removeprefix(b"data: "))["params"]) == ["type", "toolName", "timestamp"]


def add_tool_once_listened(process: ServerProcess) -> None:
    """Register the tool once the server has a listener."""

    async def work() -> None:
        async with asyncio.timeout(SHELL_TIMEOUT_S):
            while "1" not in (await process.site.post(call("listeners"))).json["result"]["content"][0]["text"]:
                await asyncio.sleep(0.05)
        await process.site.post(call("add_tool", {"name": "calculator"}))

    asyncio.run(work())


# -- documented responses ----------------------------------------


async def test_the_root_path_describes_the_server(demo: Site) -> None:
    answer = await demo.get("/")
    assert answer.status == 200
    assert answer.header("content-type") == "application/json"
    assert answer.json == {
        "name": "hubbub",
        "version": __version__,
        "transport": "streamable-http",
        "endpoints": {"health": "/health", "mcp": "/mcp"},
        "status": "ready",
    }
    assert list(answer.json) == ["name", "version", "transport", "endpoints", "status"]


async def test_the_root_path_has_the_title_and_health_the_name() -> None:
    async with run_server(Server("dingdong-mcp", version="0.0.1", title="DingDong MCP")) as there:
        root, health = await there.site.get("/"), await there.site.get("/health")
    assert (root.json["name"], root.json["version"]) == ("DingDong MCP", "0.0.1")
    assert health.json["server"] == "dingdong-mcp"


async def test_health_has_a_timestamp_in_milliseconds(demo: Site) -> None:
    answer = await demo.get("/health")
    health = answer.json
    assert answer.status == 200
    assert TIMESTAMP.fullmatch(health.pop("timestamp"))
    assert health == {"status": "healthy", "server": "hubbub"}


async def test_readiness_is_served_at_mcp_health(demo: Site) -> None:
    answer = await demo.get("/mcp/health")
    assert (answer.status, answer.json["status"]) == (200, "ready")


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        (
            call("echo", {"text": "Hello, MCP!"}, id=2),
            b'{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text",'
            b'"text":"{\\n  \\"echo\\": \\"Hello, MCP!\\"\\n}"}]}}',
        ),
        (
            request("resources/list", id=3),
            b'{"jsonrpc":"2.0","id":3,"result":{"resources":[{"uri":"prompt://welcome","name":"Welcome Prompt",'
            b'"description":"Welcome message and usage instructions","mimeType":"text/plain"}]}}',
        ),
        (
            request("resources/read", {"uri": "prompt://welcome"}, id=4),
            b'{"jsonrpc":"2.0","id":4,"result":{"contents":[{"uri":"prompt://welcome","mimeType":"text/plain",'
            b'"text":' + json.dumps(WELCOME).encode() + b"}]}}",
        ),
        (
            call("unknown-tool"),
            b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Tool not found",'
            b'"data":{"toolName":"unknown-tool","availableTools":["hello-world","echo","health"]}}}',
        ),
    ],
    ids=["call_tool", "list_resources", "read_resource", "unknown_tool"],
)
async def test_plain_responses_have_the_documented_bytes(demo: Site, question: Any, wanted: bytes) -> None:
    answer = await demo.post(question)
    assert answer.status == 200
    assert answer.header("content-type") == "application/json"
    assert answer.body == wanted


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{nonsense", 400, -32700),
        (b'{"jsonrpc":"2.0","id":1}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', 200, -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', 200, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"prompt://none"}}', 200, -32001),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}', 200, -32003),
    ],
)
async def test_documented_errors_have_their_codes(demo: Site, body: bytes, status: int, code: int) -> None:
    answer = await demo.request("POST", "/mcp", {"Content-Type": "application/json"}, body)
    assert (answer.status, answer.code) == (status, code)


async def test_a_failed_tool_has_the_documented_code(playground: Site) -> None:
    answer = await playground.post(call("broken"))
    assert (answer.status, answer.code) == (200, -32002)
    assert answer.json["error"]["message"] == "out of order"
