"""Clients' own programs read what `hubbub install` writes for them, and opencode calls a tool.

The programs are hundreds of megabytes, so they are no judges that `make setup` installs. To run these tests:

    npm install --prefix /tmp/clients @openai/codex opencode-ai @anthropic-ai/claude-code @google/gemini-cli
    PATH=/tmp/clients/node_modules/.bin:$PATH .venv/bin/python -m pytest tests/interop/test_installed_clients.py
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from typing import Any

import pytest

PROGRAMS = {"codex": "codex", "claude-code": "claude", "gemini": "gemini", "opencode": "opencode"}
LISTS = {
    "codex": ["codex", "mcp", "get", "hubbub"],
    "claude-code": ["claude", "mcp", "get", "hubbub"],
    "gemini": ["gemini", "mcp", "list"],
    "opencode": ["opencode", "mcp", "list"],
}
STARTED = {"claude-code": "Connected", "opencode": "connected"}
"""What those say that start the server; Codex only shows the entry, and Gemini CLI trusts no folder without a login."""


class Home:
    """A home folder, and commands that run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environ = {
            "HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")
        }  # fmt: skip

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self._environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=100,
        )  # fmt: skip
        return done.stdout

    def install(self, *arguments: str) -> str:
        return self.run(sys.executable, "-m", "hubbub", "install", *arguments)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("way", [[], ["--use-cli"]], ids=["file", "own command"])
def test_a_client_reads_its_entry(name: str, way: list[str], home: Home) -> None:
    require(PROGRAMS[name])
    if way and name == "opencode":
        pytest.skip("its command asks questions")
    home.install("--client", name, "--pack", "demo", *way)
    shown = home.run(*LISTS[name])
    assert sys.executable in shown
    assert "-P -m hubbub serve --pack demo --transport stdio" in shown
    assert STARTED.get(name, "") in shown
    home.install("--client", name, "--uninstall", *way)
    assert sys.executable not in home.run(*LISTS[name])


def test_opencode_calls_a_tool(home: Home) -> None:
    require("opencode")
    with serve_script() as (url, requests):
        provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": url}, "models": {"scripted": {}}}
        config = home.folder / ".config/opencode/opencode.json"
        config.parent.mkdir(parents=True)
        config.write_text(json.dumps({"provider": {"local": provider}, "permission": "allow"}))
        home.install("--client", "opencode", "--pack", "demo")
        output = home.run("opencode", "run", "--model", "local/scripted", "Say it back.")
    tools = [message for request in requests for message in request["messages"] if message["role"] == "tool"]
    assert tools, output
    assert "hello from opencode" in json.dumps(tools)


def require(program: str) -> None:
    if which(program) is None:
        pytest.skip(f"{program} is not installed; the module says how to install it")


@contextmanager
def serve_script() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A model that calls `echo` once, and then ends; asked without tools, as for a title, it only says a word."""
    requests: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(request)
            names = [tool["function"]["name"] for tool in request.get("tools", [])]
            echo = next((name for name in names if name.endswith("echo")), None)
            delta: dict[str, Any] = {"role": "assistant", "content": "done"}
            if echo is not None and request["messages"][-1]["role"] != "tool":
                call = {"name": echo, "arguments": json.dumps({"text": "hello from opencode"})}
                delta = {
                    "role": "assistant",
                    "tool_calls": [{"index": 0, "id": "1", "type": "function", "function": call}],
                }
            reason = "tool_calls" if "tool_calls" in delta else "stop"
            chunks: list[dict[str, Any]] = [{"delta": delta}, {"delta": {}, "finish_reason": reason}]
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for chunk in chunks:
                body = {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, **chunk}]}
                self.wfile.write(f"data: {json.dumps(body)}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
