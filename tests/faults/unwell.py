"""A server whose tools misbehave, each in its own way: `unwell.py stdio|http JOURNAL [sickly] [family] [stubborn]`.

Standard library only, so that it starts fast; legacy era. `JOURNAL` gets a line for each start and each call,
so that a call that was made twice is seen. `sickly`: it ends at once for as long as `JOURNAL.sick` exists.
`family`: it has children, one of which does not even hold its pipes. `stubborn`: nothing but KILL ends it.
Over HTTP it prints its port.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TRANSPORT, JOURNAL, *MANNERS = sys.argv[1:]
SLEEPER = "import time; time.sleep(600)"
HUGE = 100 * 1024 * 1024
names = ["echo", "crash", "hang", "huge", "garbage", "stderr", "chatter", "swap", "nap"]
writing = threading.Lock()


def write(line: str) -> None:
    with writing, Path(JOURNAL).open("a") as file:
        file.write(f"{line}\n")


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}}


def serve(request: dict[str, Any], say: Callable[[bytes], object]) -> dict[str, Any] | None:
    """Answer one request; None if it is never answered."""
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}}
        known = {"name": "unwell", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": known}
    if method == "tools/list":
        return {"tools": [tool(name) for name in names]}
    if method == "tools/call":
        write(f"called {params['name']} {params['arguments'].get('text', '')}")
        return misbehave(params["name"], params["arguments"], say)
    if method == "ping":
        return {}
    raise LookupError(method)


def misbehave(name: str, given: dict[str, Any], say: Callable[[bytes], object]) -> dict[str, Any] | None:
    match name:
        case "crash":
            sys.stderr.write("the last words\n")
            sys.stderr.flush()
            os._exit(3)
        case "hang":
            return None
        case "nap":
            time.sleep(given["seconds"])
        case "huge":
            return text("x" * HUGE)
        case "garbage":
            for line in (b"\x00\xff not json", b"{}", b"[]", b"42", b'{"jsonrpc": "2.0", "id": 1e999}', b"[" * 5000):
                say(line)
        case "stderr":
            complaint = "a line that nobody reads " * 40 + "\n"
            for _ in range(given["megabytes"] * 1024):
                sys.stderr.write(complaint)
            sys.stderr.flush()
        case "chatter":
            for number in range(given["times"]):
                progress = {"progressToken": "nobody's", "progress": number}
                say(note("notifications/progress", progress))
                say(note("notifications/message", {"level": "info", "data": "x" * 100}))
                say(note("notifications/tools/list_changed"))
        case "swap":
            names.remove("swap")
            names.append("swapped")
            say(note("notifications/tools/list_changed"))
            time.sleep(0.3)
    return text(given.get("text", name))


def note(method: str, params: dict[str, Any] | None = None) -> bytes:
    message = {"jsonrpc": "2.0", "method": method}
    return json.dumps(message if params is None else message | {"params": params}).encode()


def answer(request: dict[str, Any], say: Callable[[bytes], object]) -> bytes | None:
    try:
        result = serve(request, say)
    except LookupError:
        error = {"code": -32601, "message": "Method not found"}
        return json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode()
    if result is None:
        return None
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()


def on_stdio() -> None:
    lock = threading.Lock()

    def say(line: bytes) -> None:
        with lock:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()

    def one(request: dict[str, Any]) -> None:
        if (found := answer(request, say)) is not None:
            say(found)

    for line in sys.stdin:
        request = json.loads(line)
        if request["method"] == "notifications/cancelled":
            write("cancelled")
        if "id" in request and request["method"] == "tools/call":
            threading.Thread(target=one, args=(request,), daemon=True).start()
        elif "id" in request:
            one(request)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = request.get("params", {}).get("name") if request["method"] == "tools/call" else None
        if "id" not in request:
            return self.reply(202, b"")
        if name in ("crash", "garbage"):
            write(f"called {name} ")
            if name == "crash":
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"jsonrpc": "2.0", "id"')
                self.close_connection = True
                return None
            return self.reply(200, b"\x00\xff not json")
        found = answer(request, lambda line: None)
        if found is None:
            time.sleep(600)
        return self.reply(200, found or b"")

    def do_GET(self) -> None:
        self.reply(405, b"")

    do_DELETE = do_GET

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def over_http() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


def main() -> None:
    write(f"started {os.getpid()}")
    if "sickly" in MANNERS and Path(f"{JOURNAL}.sick").exists():
        sys.stderr.write("cannot find my files\n")
        raise SystemExit(7)
    if "stubborn" in MANNERS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "family" in MANNERS:
        apart: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
        }
        for options in ({}, apart):
            child = subprocess.Popen([sys.executable, "-c", SLEEPER], **options)
            write(f"started {child.pid}")
    if TRANSPORT == "http":
        over_http()
    else:
        on_stdio()
    if "stubborn" in MANNERS:
        time.sleep(600)


main()
