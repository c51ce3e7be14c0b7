"""A legacy server on stdio that works on many calls at once and asks, allowed or not, without saying about which."""

import json
import os
import sys
import threading
import time
from pathlib import Path

lock = threading.Lock()
answers = {}


def say(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(text):
    identifier = f"q{id(text)}-{time.monotonic_ns()}"
    answered = threading.Event()
    answers[identifier] = [answered, None]
    params = {"message": text, "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
    say({"id": identifier, "method": "elicitation/create", "params": params})
    answered.wait(20)
    answer = answers.pop(identifier)[1]
    return answer["content"]["name"] if answer else "refused"


def run(name, arguments):
    match name:
        case "ask":
            return f"{arguments['say']}: {ask(arguments['say'])}"
        case "ask_later":
            time.sleep(0.4)  # however often it is told to stop
            return ask(arguments["say"])
        case "nap":
            time.sleep(arguments["seconds"])
            return "slept"
        case "log":
            say({"method": "notifications/message", "params": {"level": "error", "data": arguments["say"]}})
            return "logged"
        case "chatter":
            note = {"method": "notifications/message", "params": {"level": "error", "data": 0}}
            lines = []
            for number in range(arguments["times"]):
                note["params"]["data"] = number
                lines.append(json.dumps({"jsonrpc": "2.0", **note}) + "\n")
            with lock:
                sys.stdout.write("".join(lines))
            return "said it"
        case "big":
            return "x" * arguments["size"]
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


def work(message):
    params = message["params"]
    text = run(params["name"], params.get("arguments", {}))
    say({"id": message["id"], "result": {"content": [{"type": "text", "text": text}]}})


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
        say({"id": message["id"], "result": {"protocolVersion": message["params"]["protocolVersion"], **info}})
    elif method == "tools/list":
        names = ("ask", "ask_later", "nap", "log", "big", "pid", "exit", "hang", "count")
        tools = [{"name": name, "inputSchema": {"type": "object"}, "x-unknown": {"kept": True}} for name in names]
        say({"id": message["id"], "result": {"tools": tools}})
    elif method == "tools/call":
        threading.Thread(target=work, args=(message,), daemon=True).start()
    elif "id" in message:
        say({"id": message["id"], "result": {}})
