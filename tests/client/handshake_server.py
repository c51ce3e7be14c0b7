"""A server on stdio whose first argument selects its handshake; logs its starts and the methods it reads to a file."""

import json
import sys
import time
from pathlib import Path
from typing import Any

MODE, LOG = sys.argv[1], Path(sys.argv[2])


def log(text: str) -> None:
    with LOG.open("a") as file:
        file.write(text + "\n")


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        raise SystemExit(0)
    message: dict[str, Any] = json.loads(line)
    log(message["method"])
    return message


def respond(request: dict[str, Any], **answer: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}) + "\n")
    sys.stdout.flush()


def reject(request: dict[str, Any]) -> None:
    respond(request, error={"code": -32601, "message": "Method not found"})


def serve(request: dict[str, Any]) -> None:
    method = request["method"]
    if method == "initialize" and MODE in ("late-modern", "modern"):
        respond(request, error={"code": -32022, "message": "modern only", "data": {"supported": ["2026-07-28"]}})
    elif method == "initialize":
        version = request["params"]["protocolVersion"]
        respond(request, result={"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": MODE}})
    elif method == "server/discover" and MODE in ("late-modern", "modern", "late-both"):
        respond(request, result={"supportedVersions": ["2026-07-28"], "capabilities": {}})
    elif method == "tools/list":
        respond(
            request, result={"tools": [{"name": "echo", "inputSchema": {"type": "object"}}], "resultType": "complete"}
        )
    elif method == "tools/call":
        if MODE == "ends-in-a-call":
            raise SystemExit(1)
        respond(request, result={"content": []})
    elif "id" in request and MODE != "ignores":
        reject(request)


def main() -> None:
    log("start")
    if MODE == "never-reads":
        time.sleep(600)
    first = read()
    if MODE.startswith("late"):
        # Like a slow start: both messages are already waiting.
        second = read()
        if MODE == "late-modern":
            first, second = second, first
        serve(first)
        serve(second)
    elif first["method"] == "server/discover" and MODE == "breaks":
        read()  # like the Python SDK until 1.9: no response, and it exits at the next message
        raise SystemExit(1)
    elif first["method"] == "server/discover" and MODE == "hangs":
        while True:
            read()
    elif first["method"] == "server/discover" and MODE == "ends":
        raise SystemExit(1)
    else:
        serve(first)
    while True:
        serve(read())


main()
