"""Calls to an upstream as a front makes them, with a return path that records and answers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw

from hubbub import Call, Caller, Implementation, Notification, Peer, Principal, RawReply, Reply, ReturnPath, Revision
from hubbub.protocol.calls import ANONYMOUS
from hubbub.protocol.jsonrpc import decode_envelope
from hubbub.protocol.params import decode_params
from hubbub.protocol.revisions import NEWEST_LEGACY, NEWEST_MODERN
from hubbub.protocol.shape import identity_meta, shape
from hubbub.server.responses import respond_to_call

HUB = identity_meta(Implementation("hub", "1"))
ALL_CAPABILITIES = {"elicitation": {"form": {}}, "sampling": {}, "roots": {"listChanged": True}}
ELICITATION: dict[str, Any] = {"elicitation": {"form": {}}}
MODERN, LEGACY = NEWEST_MODERN, NEWEST_LEGACY


class RecordingReturnPath:
    """Records notifications and client requests, and answers the latter."""

    def __init__(self, name: str = "ada") -> None:
        self.name = name
        self.notes: list[tuple[str, Any]] = []
        self.requests: list[tuple[str, Any]] = []
        self.answers: dict[str, Any] = {
            "elicitation/create": {"action": "accept", "content": {"name": name, "age": 36}},
            "sampling/createMessage": {
                "role": "assistant",
                "content": {"type": "text", "text": f"a poem of {name}"},
                "model": "m",
                "stopReason": "endTurn",
            },
            "roots/list": {"roots": [{"uri": f"file:///{name}"}]},
        }
        self.before_answer: Callable[[], Awaitable[Any]] | None = None

    async def request(self, call: Call) -> Reply:
        self.requests.append((call.method, msgspec.json.decode(call.raw)))
        if self.before_answer is not None:
            await self.before_answer()
        return RawReply(body=Raw(msgspec.json.encode(self.answers[call.method])))

    async def notify(self, note: Notification) -> None:
        self.notes.append((note.method, msgspec.json.decode(msgspec.json.encode(note.params))))

    def send_nowait(self, note: Notification) -> bool:
        return False

    async def release(self) -> None:
        pass

    def notes_of(self, method: str) -> list[Any]:
        return [params for name, params in self.notes if name == method]


def make_caller(
    revision: Revision = MODERN,
    capabilities: dict[str, Any] | None = None,
    *,
    scope: str | None = None,
    level: str | None = None,
    principal: str = "",
) -> Caller:
    return Caller(
        revision=revision,
        capabilities=capabilities or {},
        scope=scope,
        log_level=level,
        principal=Principal(principal) if principal else ANONYMOUS,
    )


def make_call(method: str, params: dict[str, Any], who: Caller, back: ReturnPath | None = None, **fields: Any) -> Call:
    """Make a call as a front makes it from a message."""
    message = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    envelope = decode_envelope(message)
    assert not isinstance(envelope, list)
    raw = envelope.params
    assert isinstance(raw, Raw)
    decoded, meta = decode_params(method, raw)
    return Call(
        id=Raw(b"1"),
        method=method,
        raw=raw,
        params=decoded,
        meta=meta,
        caller=who,
        back=RecordingReturnPath() if back is None else back,
        **fields,
    )


async def request_result(
    upstream: Peer,
    method: str,
    params: dict[str, Any],
    who: Caller | None = None,
    back: ReturnPath | None = None,
    **fields: Any,
) -> Any:
    """Send a request; return the result in the form of the caller, or raise the error."""
    built_call = make_call(method, params, who or make_caller(), back, **fields)
    reply = await upstream.request(built_call)
    return msgspec.json.decode(msgspec.json.encode(shape(reply, built_call.caller.revision, HUB)))


async def call_tool(
    upstream: Peer,
    name: str,
    arguments: dict[str, Any] | None = None,
    who: Caller | None = None,
    back: ReturnPath | None = None,
) -> Any:
    """Call a tool and return its result."""
    return await request_result(upstream, "tools/call", {"name": name, "arguments": arguments or {}}, who, back)


async def request_message(upstream: Peer, method: str, params: dict[str, Any], who: Caller | None = None) -> Any:
    """Send a request; return the complete JSON-RPC response, which may be an error."""
    async with asyncio.timeout(60):
        data, _ = await respond_to_call(upstream, make_call(method, params, who or make_caller()), HUB)
    return msgspec.json.decode(data)


def result_text(found: Any) -> str:
    (block,) = found["content"]
    return str(block["text"])


async def call_until_complete(
    upstream: Any, name: str, arguments: dict[str, Any], back: RecordingReturnPath, **who: Any
) -> Any:
    """Call a tool as a modern client and continue its rounds until it is complete."""
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    while True:
        found = await request_result(upstream, "tools/call", params, make_caller(MODERN, ALL_CAPABILITIES, **who), back)
        if found["resultType"] == "complete":
            return found
        input_requests = found["inputRequests"]
        back.requests += [(item["method"], item.get("params")) for item in input_requests.values()]
        params["inputResponses"] = {key: back.answers[item["method"]] for key, item in input_requests.items()}
        params["requestState"] = found["requestState"]
