"""A server on stdio whose argument selects how it misbehaves. Standard library only, so that it starts fast."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

MODE = sys.argv[1]
SLEEPER = "import time; time.sleep(600)"


def send(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(request: dict[str, Any], result: object) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def child(**options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SLEEPER], **options)


def serve(request: dict[str, Any]) -> None:
    """Handle a request correctly."""
    method = request["method"]
    if method == "initialize":
        version = os.environ.get("ODD_VERSION", request["params"]["protocolVersion"])
        answer(request, {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "odd", "version": "1"}})
    elif method == "tools/list":
        cursor = request.get("params", {}).get("cursor")
        page = {"tools": [{"name": "echo" if cursor is None else "second", "inputSchema": {"type": "object"}}]}
        answer(request, page if cursor is not None or MODE == "changes" else {**page, "nextCursor": ""})
    elif method == "tools/call":
        answer(request, {"content": [{"type": "text", "text": json.dumps(request["params"]["arguments"])}]})
    elif method == "ping":
        answer(request, {})
    elif "id" in request:
        send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}})


def misbehave(request: dict[str, Any]) -> bool:
    """Misbehave according to the mode; return whether the request is handled."""
    method, identifier = request["method"], request.get("id")
    if method == "initialize" or identifier is None:
        return False
    match MODE:
        case "silent":
            return True
        case "garbage":
            sys.stdout.write('\x00not json\n{}\n[]\n42\n{"jsonrpc": "2.0"}\n')
            sys.stdout.flush()
            return False
        case "twice":
            serve(request)
            return False
        case "wrong-id":
            send({"jsonrpc": "2.0", "id": 10_000 + identifier, "result": {"tools": []}})
            send({"jsonrpc": "2.0", "id": None, "result": {}})
            return False
        case "string-id":
            send({"jsonrpc": "2.0", "id": str(identifier), "result": {"tools": []}})
            return True
        case "huge":
            answer(request, {"tools": [], "x": "x" * (20 << 20)})
            return True
        case "endless":
            while True:
                sys.stdout.write("x" * (1 << 20))
                sys.stdout.flush()
        case "exit":
            sys.stderr.write("one\nlast words\n")
            sys.stderr.flush()
            raise SystemExit(3)
        case "exit-after-answer":
            serve(request)
            os._exit(0)
        case "exit-with-child":
            child()
            serve(request)
            os._exit(4)
        case "close-output":
            os.close(1)
            time.sleep(600)
        case "large-pages" | "slow-pages":
            if method.endswith("/list"):
                if MODE == "slow-pages":
                    time.sleep(0.2)
                key = {"resources/templates/list": "resourceTemplates"}.get(method, method.split("/")[0])
                entry = {"name": f"n{identifier}", "uri": f"x://{identifier}", "uriTemplate": f"x://{identifier}/{{a}}"}
                size = 7_000_000 if MODE == "large-pages" else 0
                page = {key: [{**entry, "description": "x" * size}], "nextCursor": str(identifier)}
                answer(request, page)
                return True
        case "loop-cursor":
            if method == "tools/list":
                answer(request, {"tools": [], "nextCursor": "again"})
                return True
        case "question-with-our-id":
            if method == "tools/call":
                send({"jsonrpc": "2.0", "id": identifier, "method": "ping"})
                send({"jsonrpc": "2.0", "id": "q1", "method": "sampling/createMessage", "params": {}})
                pong, refused = (json.loads(sys.stdin.readline()) for _ in range(2))
                answer(request, {"content": [], "structuredContent": {"pong": pong, "refused": refused}})
                return True
        case "changes":
            send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            return False
        case "withdraws-its-question":
            if method == "tools/call":
                send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "?"}})
                ping = json.loads(sys.stdin.readline())
                send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q"}})
                serve(ping)
                return False
        case "odd-content":
            if method == "tools/call":
                blocks = [
                    {"type": "text", "text": "a"},
                    {"type": "hologram", "x": 1},
                    {"type": "image", "data": "%%%"},
                    7,
                ]
                answer(request, {"content": blocks, "isError": False, "ttlMs": "soon"})
                return True
            if method == "tools/list":
                answer(request, {"tools": [{"name": "good"}, {"name": 5}, "x", {"description": "nameless"}]})
                return True
    return False


def main() -> None:
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE in ("family", "stubborn"):
        # One child inherits our pipes, the other does not.
        child()
        child(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if MODE == "start-and-fail":
        sys.stderr.write("cannot find my files\n")
        raise SystemExit(7)
    for line in sys.stdin:
        request = json.loads(line)
        if MODE == "record":
            sys.stderr.write(line)
            sys.stderr.flush()
        if not misbehave(request):
            serve(request)
    if MODE == "stubborn":
        time.sleep(600)


main()
