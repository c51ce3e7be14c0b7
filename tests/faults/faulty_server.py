"""A server whose tools misbehave in different ways: `faulty_server.py stdio|http JOURNAL [sickly] [family] [stubborn]`.

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

TRANSPORT, JOURNAL, *MODES = sys.argv[1:]
SLEEP_SCRIPT = "import time; time.sleep(600)"
HUGE_BYTES = 100 * 1024 * 1024
tool_names = ["echo", "crash", "hang", "huge", "garbage", "stderr", "chatter", "swap", "nap"]
journal_lock = threading.Lock()


def write_journal(line: str) -> None:
    with journal_lock, Path(JOURNAL).open("a") as file:
        file.write(f"{line}\n")


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}}


def serve(request: dict[str, Any], send_line: Callable[[bytes], object]) -> dict[str, Any] | None:
    """Return the response to one request; None if it is never answered."""
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}}
        server_info = {"name": "unwell", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": server_info}
    if method == "tools/list":
        return {"tools": [tool(name) for name in tool_names]}
    if method == "tools/call":
        write_journal(f"called {params['name']} {params['arguments'].get('text', '')}")
        return misbehave(params["name"], params["arguments"], send_line)
    if method == "ping":
        return {}
    raise LookupError(method)


def misbehave(name: str, arguments: dict[str, Any], send_line: Callable[[bytes], object]) -> dict[str, Any] | None:
    match name:
        case "crash":
            sys.stderr.write("the last words\n")
            sys.stderr.flush()
            os._exit(3)
        case "hang":
            return None
        case "nap":
            time.sleep(arguments["seconds"])
        case "huge":
            return text("x" * HUGE_BYTES)
        case "garbage":
            for line in (b"\x00\xff not json", b"{}", b"[]", b"42", b'{"jsonrpc": "2.0", "id": 1e999}', b"[" * 5000):
                send_line(line)
        case "stderr":
            stderr_line = "a line that nobody reads " * 40 + "\n"
            for _ in range(arguments["megabytes"] * 1024):
                sys.stderr.write(stderr_line)
            sys.stderr.flush()
        case "chatter":
            for number in range(arguments["times"]):
                progress = {"progressToken": "nobody's", "progress": number}
                send_line(note("notifications/progress", progress))
                send_line(note("notifications/message", {"level": "info", "data": "x" * 100}))
                send_line(note("notifications/tools/list_changed"))
        case "swap":
            tool_names.remove("swap")
            tool_names.append("swapped")
            send_line(note("notifications/tools/list_changed"))
            time.sleep(0.3)
    return text(arguments.get("text", name))


def note(method: str, params: dict[str, Any] | None = None) -> bytes:
    message = {"jsonrpc": "2.0", "method": method}
    return json.dumps(message if params is None else message | {"params": params}).encode()


def answer(request: dict[str, Any], send_line: Callable[[bytes], object]) -> bytes | None:
    try:
        result = serve(request, send_line)
    except LookupError:
        error = {"code": -32601, "message": "Method not found"}
        return json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode()
    if result is None:
        return None
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()


def on_stdio() -> None:
    lock = threading.Lock()

    def send_line(line: bytes) -> None:
        with lock:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()

    def serve_one(request: dict[str, Any]) -> None:
        if (found := answer(request, send_line)) is not None:
            send_line(found)

    for line in sys.stdin:
        request = json.loads(line)
        if request["method"] == "notifications/cancelled":
            write_journal("cancelled")
        if "id" in request and request["method"] == "tools/call":
            threading.Thread(target=serve_one, args=(request,), daemon=True).start()
        elif "id" in request:
            serve_one(request)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = request.get("params", {}).get("name") if request["method"] == "tools/call" else None
        if "id" not in request:
            return self.reply(202, b"")
        if name in ("crash", "garbage"):
            write_journal(f"called {name} ")
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
    write_journal(f"started {os.getpid()}")
    if "sickly" in MODES and Path(f"{JOURNAL}.sick").exists():
        sys.stderr.write("cannot find my files\n")
        raise SystemExit(7)
    if "stubborn" in MODES:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "family" in MODES:
        detached: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
        }
        for options in ({}, detached):
            child = subprocess.Popen([sys.executable, "-c", SLEEP_SCRIPT], **options)
            write_journal(f"started {child.pid}")
    if TRANSPORT == "http":
        over_http()
    else:
        on_stdio()
    if "stubborn" in MODES:
        time.sleep(600)


main()
