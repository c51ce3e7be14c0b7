"""List the modules that one call runs through: `python -m bench.walk`.

A modern HTTP caller calls a tool of a legacy stdio server behind a hub; the server elicits, the caller sends the
answer in a second request. The caller is a plain socket, so only the hub's side is counted. Prints

* the modules of hubbub whose functions ran between the first byte and the last answer;
* the routes of the messages, each with its crossings between packages: of the call, from the first byte to the
  server's stdin; of the question, from the server's stdout to where the call is suspended; of the answer, from the
  first byte of the second request to the suspended call, and from there back along the route of the question. A
  route is the call stack at its end, below the stacks that created its tasks;
* every pair of packages of which one calls the other, whatever for. Replies return through the boundaries that
  requests came through, so most pairs are there in both directions, and no route passes all of them.
"""

from __future__ import annotations

import asyncio
import http.client
import inspect
import json
import os
import signal
import sys
import threading
import time
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import hubbub
from hubbub.app import serve_http
from hubbub.assembly.assemble import assemble
from hubbub.assembly.serve_settings import read_serve_settings
from hubbub.rounds import Round
from hubbub.settings import collect_sources
from hubbub.transports.stdio_client import ServerProcess

_ROOT = str(Path(hubbub.__file__).parent) + "/"
_PARTS = ("transports", "server", "hub", "client")
"""The packages whose crossings count: those that a call passes through, not the libraries below them."""
_TIMERS = ("sweep", "on_tick")
"""Functions that the HTTP server runs periodically; not part of any call."""
_UNCOUNTED = ("bounds", "errors", "app", "transports.http_server", "hub.reload", "hub.file_watch")
"""Constants and errors, and what runs beside the calls: the main task and the watch of the hub's files."""
_ROUTE_ENDS = {
    function.__qualname__: message
    for function, message in ((ServerProcess.send, "call"), (Round.request, "question"), (Round.deliver, "answer"))
}
"""The functions at which the route of a message ends."""
_CALL = b'"tools/call"'
_SETTLE_S = 3.0
"""Time for the hub to finish listing in the background."""
_VERSION = "2026-07-28"
_UPSTREAM = """
from dataclasses import dataclass
from hubbub import Context, Server, run

server = Server("upstream")

@dataclass
class Form:
    name: str

@server.tool
async def ask(context: Context) -> str:
    answer = await context.elicit("Which?", Form)
    return answer.content.name

run(server)
"""


_creators: WeakKeyDictionary[asyncio.Task[Any], list[str]] = WeakKeyDictionary()
"""The packages on the route to where each task was created."""


class Walk:
    """Records which modules run, and the route of each message, while it is active."""

    def __init__(self) -> None:
        self.modules: dict[str, None] = {}
        self.pairs: dict[tuple[str, str], None] = {}
        self.routes: dict[str, list[str]] = {}
        self.is_active = False

    def on_event(self, frame: FrameType, event: str, _: object) -> None:
        if not self.is_active or event != "call" or not (name := _module(frame.f_code)):
            return
        frames = _stack(frame)
        if any(one.f_code.co_name in _TIMERS for one in frames):
            return
        self.modules[name] = None
        packages = _packages(frames)
        if name.partition(".")[0] in _PARTS:
            self.pairs |= dict.fromkeys(pairwise(packages))
        message = _ROUTE_ENDS.get(frame.f_code.co_qualname)
        if message is not None and (message != "call" or _CALL in frame.f_locals["data"]):
            self.routes.setdefault(message, _find_route(frame, asyncio.get_running_loop()))

    def report(self, title: str) -> None:
        """Print what was recorded."""
        routes = dict(self.routes)
        routes["answer"] = _without_repetition([*routes["answer"], *reversed(routes["question"])])
        print(f"{title}: {len(self.modules)} modules")
        print("  " + " ".join(self.modules))
        for message, route in routes.items():
            print(f"  {message}: {' -> '.join(route)} ({len(route) - 1} crossings)")
        print(f"  {len(self.pairs)} pairs: " + ", ".join(f"{one} -> {other}" for one, other in self.pairs))


def remember_creator(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
    """Task factory that records the route to where each task is created."""
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
    _creators[task] = _find_route(inspect.currentframe(), loop)
    return task


def _find_route(frame: FrameType | None, loop: asyncio.AbstractEventLoop) -> list[str]:
    """Return the packages from the arrival of a message to this frame."""
    task = asyncio.current_task(loop)
    before = [] if task is None else _creators.get(task, [])
    return _without_repetition([*before, *_packages(_stack(frame))])


def _stack(frame: FrameType | None) -> list[FrameType]:
    """Return this frame and its callers, outermost first."""
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def _packages(frames: list[FrameType]) -> list[str]:
    found = (_module(frame.f_code).partition(".")[0] for frame in frames)
    return _without_repetition([package for package in found if package in _PARTS])


def _without_repetition(packages: list[str]) -> list[str]:
    return [package for package, _ in groupby(packages)]


@cache
def _module(code: CodeType) -> str:
    """Return the module of a counted function of hubbub; empty for others."""
    path = code.co_filename
    is_inside = path.startswith(_ROOT) and code.co_name != "<module>"
    name = path[len(_ROOT) : -3].replace("/", ".") if is_inside else ""
    return "" if name in _UNCOUNTED else name


def call(url: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send one modern request and return its result."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    prefix = "io.modelcontextprotocol/"
    meta = {
        f"{prefix}protocolVersion": _VERSION,
        f"{prefix}clientInfo": {"name": "walk", "version": "1"},
        f"{prefix}clientCapabilities": {"elicitation": {"form": {}}},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": _VERSION,
        "Mcp-Method": method,
        **({"Mcp-Name": params["name"]} if "name" in params else {}),
    }
    connection.request("POST", "/mcp", json.dumps(body), headers)
    answer = connection.getresponse().read().decode()
    connection.close()
    return dict(json.loads(answer)["result"])


def ask(url: str) -> None:
    """Call the tool, and answer its elicitation."""
    params: dict[str, Any] = {"name": "ask", "arguments": {}}
    input_required = call(url, "tools/call", params)
    answers = {key: {"action": "accept", "content": {"name": "this"}} for key in input_required["inputRequests"]}
    answered = call(
        url, "tools/call", {**params, "inputResponses": answers, "requestState": input_required["requestState"]}
    )
    assert answered["content"][0]["text"] == "this", answered


def main() -> None:
    """Serve a hub, trace two calls, and print the results."""
    walks = {"first call (opens a session)": Walk(), "second call (session is open)": Walk()}

    def make_calls(url: str) -> None:
        try:
            call(url, "tools/list", {})
            time.sleep(_SETTLE_S)
            for walk in walks.values():
                walk.is_active = True
                ask(url)
                walk.is_active = False
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def started(url: str) -> None:
        asyncio.get_running_loop().set_task_factory(remember_creator)
        threading.Thread(target=make_calls, args=(url,)).start()

    def on_event(frame: FrameType, event: str, argument: object) -> None:
        for walk in walks.values():
            walk.on_event(frame, event, argument)

    with TemporaryDirectory() as folder:
        upstream, listed = Path(folder, "upstream.py"), Path(folder, "mcp.json")
        upstream.write_text(_UPSTREAM)
        entry = {"command": sys.executable, "args": [str(upstream)], "protocolVersion": "2025-11-25"}
        listed.write_text(json.dumps({"mcpServers": {"upstream": entry}}))
        sources = collect_sources({"--mcp-json": str(listed), "--port": "0", "--limit": ["mcp=1000/second"]})
        settings = read_serve_settings(sources, print)
        server = assemble(settings, sources)
        sys.setprofile(on_event)
        serve_http(server, settings, on_started=started)
        sys.setprofile(None)
    for title, walk in walks.items():
        walk.report(title)


if __name__ == "__main__":
    main()
