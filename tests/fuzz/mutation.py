"""Valid messages of every dialect, and seeded mutations of them."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from tests.http.eras import NEWEST_LEGACY, modern_request
from tests.http.raw_http import call, request

Message = dict[str, Any]
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", NEWEST_LEGACY)
CALLS: list[tuple[str, Message]] = [
    ("ping", {}),
    ("tools/list", {}),
    ("tools/call", {"name": "echo", "arguments": {"text": "é\U0001f600"}}),
    ("tools/call", {"name": "turns", "arguments": {"count": 3}, "_meta": {"progressToken": 1}}),
    ("tools/call", {"name": "fails"}),
    ("tools/call", {"name": "declared", "arguments": {}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "file:///a"}),
    ("resources/read", {"uri": "file:///bb.txt"}),
    ("resources/subscribe", {"uri": "file:///a"}),
    ("resources/unsubscribe", {"uri": "file:///a"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "poem", "arguments": {"topic": "sea"}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "poem"}, "argument": {"name": "topic", "value": "s"}},
    ),
    ("logging/setLevel", {"level": "debug"}),
    ("server/discover", {}),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["file:///a"]}}),
    ("echo", {"text": "by name"}),
    ("", {}),
]
NOTIFICATIONS: list[Message] = [
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
    {"jsonrpc": "2.0", "id": 1, "result": {"action": "accept", "content": {"name": "x"}}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}},
]
VALUES: list[Any] = [
    None, True, False, 0, -1, 1.5, 10**25, -0.0, "", "x", "\x00", "é", "\U0001f600", [], {}, [[]], {"": {}}, [None],
    "2026-07-28", "2025-03-26", "tools/call", "initialize", "file:///a", "A" * 2000, {"a": 1} | {"b": [1, 2]},
]  # fmt: skip
TOKENS = [
    b"007", b"-", b"1e999", b"1e-999", b"NaN", b"null", b"9" * 400, b"\\u0000", b"\\ud800", b"\\ud83d\\ude00", b'"',
    b"\\", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x00", b"\r\n", b"\n", b"\n\n", b"[" * 130, b"{" * 3,
    b"]" * 3, b'"id":1,', b'"id":"x",', b'"\\u0069d":2,', b'"method":"ping",', b'"params":{},',
    b"Content-Length: 5\r\n\r\n", b"data: ", b":", b",",
]  # fmt: skip


def valid_message(rng: Random) -> Any:
    """Return a valid message of some dialect, or a batch."""
    kind = rng.random()
    if kind < 0.08:
        return [valid_message(rng) for _ in range(rng.randint(0, 4))]
    if kind < 0.2:
        return rng.choice(NOTIFICATIONS)
    if kind < 0.28:
        params = {"protocolVersion": rng.choice(LEGACY), "capabilities": {"elicitation": {}}}
        return request("initialize", params, rng.randint(1, 9))
    method, params = rng.choice(CALLS)
    identifier = rng.choice([1, 2, "a", "b", 77])
    if kind < 0.6:
        return modern_request(method, params, id=identifier, capabilities={"elicitation": {}})[0]
    return request(method, params, identifier)


def echo_call(identifier: Any) -> Message:
    """Return a call that every dialect answers."""
    return call("echo", {"text": "still here"}, id=identifier)


# -- changes of the structure ------------------------------------------------------


def _list_members(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found.append((value, key))
        _list_members(inner, found)
    return found


def change_structure(rng: Random, message: Any) -> Any:
    """Replace, remove, rename or copy one member somewhere inside."""
    copied = json.loads(json.dumps(message))
    places = _list_members(copied, [])
    if not places:
        return rng.choice(VALUES)
    holder, key = rng.choice(places)
    change = rng.random()
    if change < 0.5:
        holder[key] = rng.choice(VALUES)
    elif change < 0.7:
        del holder[key]
    elif change < 0.85 and isinstance(holder, dict):
        holder[rng.choice(["", "id", "method", "params", "_meta", "name", "x" * 300])] = holder.pop(key)
    else:
        other, place = rng.choice(places)
        other[place] = json.loads(json.dumps(holder[key])) if key in holder or isinstance(holder, list) else None
    return copied


# -- changes of the bytes ------------------------------------------------------------


def _flip(rng: Random, data: bytes, at: int) -> bytes:
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _insert(rng: Random, data: bytes, at: int) -> bytes:
    return data[:at] + rng.choice(TOKENS) + data[at:]


def _overwrite(rng: Random, data: bytes, at: int) -> bytes:
    token = rng.choice(TOKENS)
    return data[:at] + token + data[at + len(token) :]


def _cut(rng: Random, data: bytes, at: int) -> bytes:
    return data[:at] + data[at + rng.randint(1, 12) :]


def _end(rng: Random, data: bytes, at: int) -> bytes:
    return data[:at]


def _repeat(rng: Random, data: bytes, at: int) -> bytes:
    piece = data[at : at + rng.randint(1, 40)]
    return data[:at] + piece * rng.randint(2, 4) + data[at + len(piece) :]


BYTE_CHANGES: list[Callable[[Random, bytes, int], bytes]] = [_flip, _insert, _overwrite, _cut, _end, _repeat]


def change_bytes(rng: Random, data: bytes) -> bytes:
    """Change bytes at one to three positions."""
    for _ in range(rng.randint(1, 3)):
        data = rng.choice(BYTE_CHANGES)(rng, data, rng.randrange(len(data) + 1))
    return data


def random_message(rng: Random) -> bytes:
    """Return the bytes of one message: valid, with a changed structure, or with changed bytes."""
    message = valid_message(rng)
    kind = rng.random()
    if kind < 0.55:
        message = change_structure(rng, message)
    data = json.dumps(message, ensure_ascii=rng.random() < 0.7).encode(errors="surrogatepass")
    return change_bytes(rng, data) if 0.35 < kind < 0.9 else data


def split_randomly(rng: Random, data: bytes) -> list[bytes]:
    """Split the bytes into random chunks."""
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randint(0, 6)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
