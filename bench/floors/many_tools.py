"""A bare server on stdio with a thousand tools: `python -m bench.floors.many_tools`, and `--core N` as `bare_stdio`.

A call of one of them changes the list: the version in each description increases, and the
client is notified. The names are ten verbs times a hundred nouns, with realistic schemas.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec

VERBS = ("get", "list", "search", "create", "update", "delete", "export", "import", "watch", "check")
THINGS = 100
CHANGING = "update_thing_0"
"""The tool that changes the list."""
_CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
_INFO = {"name": "many", "version": "1"}
_encode = msgspec.json.encode


class Params(msgspec.Struct):
    """The parameters that are used."""

    name: str = ""


class Message(msgspec.Struct):
    """The parts of a message that are used."""

    method: str = ""
    id: int | str | None = None
    params: Params = msgspec.field(default_factory=Params)

    @property
    def changes(self) -> bool:
        """Whether the call changes the list."""
        return self.method == "tools/call" and self.params.name == CHANGING


def tools(version: int) -> list[dict[str, Any]]:
    """Return all tools."""
    return [_tool(verb, number, version) for verb in VERBS for number in range(THINGS)]


def _tool(verb: str, number: int, version: int) -> dict[str, Any]:
    properties = {
        "id": {"type": "string", "description": "Which one, as it is written on the label."},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10, "description": "How many at most."},
        "fields": {"type": "array", "items": {"type": "string"}, "description": "Which parts of it to give back."},
    }
    return {
        "name": f"{verb}_thing_{number}",
        "title": f"{verb.capitalize()} thing {number}",
        "description": f"{verb.capitalize()} the thing that has the number {number} on its label. Version {version}.",
        "inputSchema": {"type": "object", "properties": properties, "required": ["id"]},
        "annotations": {"readOnlyHint": verb in ("get", "list", "search"), "destructiveHint": verb == "delete"},
    }


class Many:
    def __init__(self) -> None:
        self._version = 1

    def answer(self, message: Message) -> dict[str, Any]:
        """Return the result or error of a message."""
        match message.method:
            case "initialize":
                capabilities = {"tools": {"listChanged": True}}
                return _result(protocolVersion="2025-11-25", capabilities=capabilities, serverInfo=_INFO)
            case "tools/list":
                return _result(tools=tools(self._version))
            case "tools/call":
                self._version += message.changes
                return _result(content=[{"type": "text", "text": str(self._version)}])
            case _:
                return {"error": {"code": -32601, "message": "Method not found"}}


def _result(**members: Any) -> dict[str, Any]:
    return {"result": members}


def main() -> None:
    """Answer until the input ends."""
    if "--core" in sys.argv:
        os.sched_setaffinity(0, {int(sys.argv[sys.argv.index("--core") + 1])})
    decode, many, output = msgspec.json.Decoder(Message).decode, Many(), sys.stdout.buffer
    for line in sys.stdin.buffer:
        message = decode(line)
        if message.id is None:
            continue
        if message.changes:
            output.write(_CHANGED)
        output.write(_encode({"jsonrpc": "2.0", "id": message.id, **many.answer(message)}) + b"\n")
        output.flush()


if __name__ == "__main__":
    main()
