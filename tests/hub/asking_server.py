"""A legacy server on stdio with concurrent calls that sends any client requests, without naming the call."""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

lock = threading.Lock()
answers: dict[str, list[Any]] = {}


def send(message: dict[str, Any]) -> None:
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def elicit(text: str) -> str:
    identifier = f"q{id(text)}-{time.monotonic_ns()}"
    answered = threading.Event()
    answers[identifier] = [answered, None]
    params = {"message": text, "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
    send({"id": identifier, "method": "elicitation/create", "params": params})
    answered.wait(60)
    answer = answers.pop(identifier)[1]
    return answer["content"]["name"] if answer else "refused"


def wait_for(file: str) -> None:
    while not Path(file).exists():
        time.sleep(0.01)


def run(name: str, arguments: dict[str, Any]) -> str:
    match name:
        case "ask":
            return f"{arguments['say']}: {elicit(arguments['say'])}"
        case "ask_later":
            wait_for(arguments["file"])  # even if it is cancelled
            Path(arguments["file"]).write_text(elicit(arguments["say"]))
        case "wait":
            wait_for(arguments["file"])
            return "waited"
        case "log":
            send({"method": "notifications/message", "params": {"level": "error", "data": arguments["say"]}})
            return "logged"
        case "chatter":
            lines = []
            for number in range(arguments["times"]):
                note = {"method": "notifications/message", "params": {"level": "error", "data": number}}
                lines.append(json.dumps({"jsonrpc": "2.0", **note}) + "\n")
            with lock:
                sys.stdout.write("".join(lines))
                sys.stdout.flush()
            if "file" in arguments:
                Path(arguments["file"]).touch()
            return "said it"
        case "big":
            return "x" * int(arguments["size"])
        case "pid":
            return str(os.getpid())
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(600)
        case "count":
            with Path(arguments["file"]).open("a") as file:
                file.write("called\n")
            os._exit(3)
    return name


def work(message: dict[str, Any]) -> None:
    params = message["params"]
    text = run(params["name"], params.get("arguments", {}))
    send({"id": message["id"], "result": {"content": [{"type": "text", "text": text}]}})


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method is None:
        found = answers.get(message["id"])
        if found:
            found[1] = message.get("result")
            found[0].set()
    elif method == "initialize":
        info = {"serverInfo": {"name": "asker", "version": "1"}, "capabilities": {"tools": {}, "logging": {}}}
        send({"id": message["id"], "result": {"protocolVersion": message["params"]["protocolVersion"], **info}})
    elif method == "tools/list":
        names = ("ask", "ask_later", "wait", "log", "big", "pid", "exit", "hang", "count")
        tools = [{"name": name, "inputSchema": {"type": "object"}, "x-unknown": {"kept": True}} for name in names]
        send({"id": message["id"], "result": {"tools": tools}})
    elif method == "tools/call":
        threading.Thread(target=work, args=(message,), daemon=True).start()
    elif "id" in message:
        send({"id": message["id"], "result": {}})
