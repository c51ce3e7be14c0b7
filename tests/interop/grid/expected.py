"""Payloads that a client must get from a workshop, and their order; they depend only on the client's era."""

from typing import Any

from tests.interop.grid.feature_checks import MODERN

PIXEL = "iVBORw0KGgo="
NAMES = ["echo", "add", "series", "gallery", "failing", "slow", "chatty", "wait", "interview", "haiku", "both"]
NAMES += ["touch", "grow", "whose"]
NUMBERS = {"type": "array", "items": {"type": "integer"}}
SUM = {
    "type": "object",
    "properties": {"total": {"type": "integer"}, "terms": NUMBERS},
    "required": ["total", "terms"],
}
WRAPPED = {"type": "object", "properties": {"result": NUMBERS}, "required": ["result"]}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 0}},
    "required": ["name"],
}
SURE = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
WHO = ("elicitation", "Who are you?", PERSON)
POEM = (
    "sampling",
    [{"role": "user", "content": {"type": "text", "text": "A haiku about frogs"}}],
    "You are a poet",
    64,
    0.5,
)


def tools(room: str) -> dict[str, Any]:
    words = "grüß dich\n\u0000 🎲"
    return {
        "names": NAMES,
        "echo": {
            "name": "echo",
            "title": "Echo",
            "description": "The tool echo.",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            "annotations": {"title": "Echo", "readOnlyHint": True, "openWorldHint": False},
            "_meta": {"workshop/shelf": 3},
        },
        "called": {
            "content": [{"type": "text", "text": words}],
            "isError": False,
            "_meta": {"workshop/length": len(words)},
        },
        "gallery": [
            {"type": "text", "text": "all kinds"},
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
            {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": f"{room}/inside", "mimeType": "text/plain", "text": "inside"}},
            {"type": "resource_link", "uri": f"{room}/static", "name": "static"},
        ],
        "failing": {"content": [{"type": "text", "text": "the well is dry"}], "isError": True},
        "unknown": -32602,
        "many": True,
    }


def structured(*, is_bare: bool) -> dict[str, Any]:
    """A bare list is wrapped for eras that allow only objects; what an upstream wrapped stays wrapped."""
    return {
        "schemas": (SUM, NUMBERS if is_bare else WRAPPED),
        "add": ({"total": 5, "terms": [2, 3]}, '{"total": 5, "terms": [2, 3]}'),
        "series": [0, 1, 2] if is_bare else {"result": [0, 1, 2]},
    }


PROGRESS = [*(("progress", step, 5, f"step {step}") for step in range(1, 6)), "5 steps"]


def logs() -> dict[str, Any]:
    def said(*levels: str) -> list[Any]:
        received: list[Any] = []
        for number, level in enumerate(("debug", "info", "warning", "error"), 1):
            if level in levels:
                received.append(("log", level, {"said": level}, "workshop"))
            received.append(("progress", number, 4, None))
        return [*received, "said"]

    return {"warning": said("warning", "error"), "debug": said("debug", "info", "warning", "error")}


ACCEPTED = [
    WHO,
    ("progress", 1, 2, "known"),
    ("elicitation", "Are you sure, Ada?", SURE),
    ("progress", 2, 2, "sure"),
    "Ada is sure",
]
DECLINED = [WHO, "decline, then"]
ROUNDS = [
    ("elicitation/create", "Who are you?"),
    ("elicitation/create", "Are you sure, Ada?"),
    "Ada is not sure",
]
SAMPLING = {"haiku": [POEM, "basho: old pond"], "both": [WHO, POEM, "Ada reads old pond"]}


def resources(room: str, client: str) -> dict[str, Any]:
    watched = f"{room}/watched"
    plain = {"mimeType": "text/plain"}
    return {
        "listed": [
            {"uri": f"{room}/static", "name": "static", "title": "A memo", "size": 11, **plain},
            {"uri": f"{room}/bytes", "name": "bytes", "mimeType": "image/png"},
            {"uri": watched, "name": "watched", **plain},
        ],
        "templates": [{"uriTemplate": f"{room}/people/{{name}}", "name": "person", **plain}],
        "static": [{"uri": f"{room}/static", "text": "static text", **plain}],
        "bytes": [{"uri": f"{room}/bytes", "mimeType": "image/png", "blob": PIXEL}],
        "person": [{"uri": f"{room}/people/ada", "text": "about ada", **plain}],
        "missing": -32602 if client == MODERN else -32002,
        "watched": {
            "is_new": True,
            "honored": {"resourceSubscriptions": [watched]} if client == MODERN else None,
            "afterwards": [],
        },
    }


PROMPTS = {
    "listed": [
        {
            "name": "greeting",
            "title": "Greeting",
            "description": "Greet someone.",
            "arguments": [
                {"name": "name", "description": "Whom", "required": True},
                {"name": "style", "required": False},
            ],
        }
    ],
    "got": (
        "The prompt greeting",
        [
            {"role": "user", "content": {"type": "text", "text": "Greet Ada in a formal style"}},
            {"role": "assistant", "content": {"type": "image", "data": PIXEL, "mimeType": "image/png"}},
        ],
    ),
    "missing": -32602,
}
COMPLETION = {
    "prompt": {"values": ["formal", "friendly"], "total": 2, "hasMore": False},
    "template": {"values": ["ada", "alan"], "total": 2, "hasMore": False},
    "context": ["plain for ada"],
}
CHANGES = {
    "tool": {"received": ["tool"], "is_listed": True, "used": "it greets Ada"},
    "prompt": {"received": ["prompt"], "is_listed": True, "used": "This is it"},
    "resource": {"received": ["resource"], "is_listed": True, "used": "about it"},
}
