"""Random conversations: whatever a client sends, nothing crashes, hangs or is answered twice."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.server import Name, make_server
from tests.server.raw_client import LEGACY, PLAIN, modern_meta
from tests.server.raw_transport import RawTransport

from hubbub import Context, MessageError, Server, bounds
from hubbub.protocol.jsonrpc import decode_envelope, id_key, salvage_id

DEADLINE_S = 60.0


def busy_server() -> Server:
    server = make_server()

    @server.tool
    def in_a_thread(number: int = 1) -> dict[str, int]:
        return {"number": number}

    @server.tool
    async def asks(ctx: Context) -> str:
        return (await ctx.elicit("Name?", Name, key="who")).action

    @server.tool
    async def changes_the_list() -> None:
        server.tool(name="extra")(nothing)
        server.tools.unregister("extra")
        server.resource_updated("file:///a")

    return server


async def nothing() -> None:
    """Does nothing."""


# -- messages ------------------------------------------------------------------------

IDS: st.SearchStrategy[Any] = st.sampled_from([1, 2, 3, "a", "b", 1.5, None, True, {}, -7, 10**30, "\\", "é"])
SCALARS = st.sampled_from([None, True, 0, -1, 1.5, 10**25, "", "x", "tools", "\x00", "é", "\U0001f600"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
TOOLS = st.sampled_from(
    ["echo", "in_a_thread", "turns", "fails", "asks", "declared", "changes_the_list", "no_such", "", "tools/call"]
)
ARGUMENTS: st.SearchStrategy[Any] = st.sampled_from(
    [{}, {"text": "hi"}, {"number": 2}, {"count": 4}, {"text": 5}, {"extra": 1}, [], None]
)
METHODS = st.sampled_from(
    ["initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read",
     "resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get", "completion/complete",
     "logging/setLevel", "server/discover", "subscriptions/listen", "notifications/cancelled",
     "notifications/initialized", "echo", "no/such", ""]
)  # fmt: skip
METAS: st.SearchStrategy[Any] = st.sampled_from(
    [
        modern_meta(),
        modern_meta({}),
        modern_meta() | {"progressToken": 1},
        modern_meta() | {"io.modelcontextprotocol/protocolVersion": "2030-01-01"},
        {"io.modelcontextprotocol/protocolVersion": "2026-07-28"},
        {"progressToken": "p"},
        {"progressToken": None},
        {},
        [],
        None,
        5,
    ]
)
ANSWERS = st.sampled_from(
    [{"who": {"action": "accept", "content": {"name": "x"}}}, {"who": {"action": "decline"}}, {"who": 5}, {}, None]
)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "name": TOOLS | st.just("poem"),
        "arguments": ARGUMENTS,
        "uri": st.sampled_from(["file:///a", "file:///bb.txt", "file:///../a.txt", "", 5]),
        "cursor": st.sampled_from(["", "AAAA", 5]),
        "level": st.sampled_from(["debug", "loud"]),
        "protocolVersion": st.sampled_from([*LEGACY, "2030-01-01", 5]),
        "capabilities": st.sampled_from([{}, {"elicitation": {}}, {"sampling": {}}, []]),
        "ref": st.sampled_from([{"type": "ref/prompt", "name": "poem"}, {"type": "x"}]),
        "argument": st.just({"name": "topic", "value": ""}),
        "notifications": st.sampled_from([{}, {"toolsListChanged": True}, {"resourceSubscriptions": ["file:///a"]}, 5]),
        "requestId": IDS,
        "requestState": st.sampled_from(["", "AAAA", 5]),
        "inputResponses": ANSWERS,
        "_meta": METAS,
    },
)
REQUESTS = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "id": IDS, "method": METHODS}, optional={"params": PARAMS | VALUES}
)
CALLS = st.builds(
    lambda identifier, name, arguments, meta: {
        "jsonrpc": "2.0",
        "id": identifier,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments, **({} if meta is None else {"_meta": meta})},
    },
    IDS, TOOLS, ARGUMENTS, METAS,
)  # fmt: skip
HELLOS = st.builds(
    lambda identifier, version: {
        "jsonrpc": "2.0",
        "id": identifier,
        "method": "initialize",
        "params": {"protocolVersion": version, "capabilities": {"elicitation": {}}},
    },
    IDS, st.sampled_from(LEGACY),
)  # fmt: skip
NOTIFICATIONS = st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "method": METHODS}, optional={"params": PARAMS})
CANCELS = st.builds(
    lambda identifier: {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": identifier}}, IDS
)
REPLIES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "id": IDS},
    optional={"result": VALUES, "error": st.just({"code": 1, "message": "m"}) | VALUES},
)
ODDITIES = st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result"]), VALUES)
MESSAGES = CALLS | REQUESTS | NOTIFICATIONS | CANCELS | REPLIES | HELLOS | ODDITIES
BATCHES = st.lists(MESSAGES | VALUES, max_size=5)


def mutate_bytes(data: bytes, position: int, change: bytes) -> bytes:
    position %= len(data) + 1
    return data[:position] + change + data[position + len(change) :]


WELL_FORMED = (MESSAGES | BATCHES | VALUES).map(lambda message: json.dumps(message).encode())
MUTATED = st.builds(mutate_bytes, WELL_FORMED, st.integers(0, 10_000), st.binary(min_size=1, max_size=3))
INPUT = st.lists(WELL_FORMED | MUTATED | st.binary(max_size=20), max_size=25)


# -- invariants -------------------------------------------------------------------


def ids_in(data: bytes) -> list[bytes]:
    """Return the ids of all messages in the data whose id can be read."""
    try:
        decoded = decode_envelope(data)
    except MessageError:
        decoded = [data]
    items = decoded if isinstance(decoded, list) else [data]
    return [id_key(salvage_id(item)) for item in items]


def check_message(message: Any) -> None:
    """Check that one outgoing message is valid JSON-RPC."""
    assert message["jsonrpc"] == "2.0"
    if "method" in message:
        assert isinstance(message["method"], str)
        assert set(message) <= {"jsonrpc", "id", "method", "params"}
    else:
        assert set(message) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
        if "error" in message:
            assert isinstance(message["error"]["code"], int)
            assert isinstance(message["error"]["message"], str)
            assert set(message["error"]) <= {"code", "message", "data"}


async def converse(inputs: list[bytes], pauses: list[int]) -> list[Any]:
    """Send all messages, end the input, and return everything that was received."""
    server = busy_server()
    async with asyncio.timeout(DEADLINE_S), server.running():
        async with RawTransport(server) as link:
            for number, data in enumerate(inputs):
                link.send(data)
                for _ in range(pauses[number % len(pauses)]):
                    await asyncio.sleep(0)
            await server.rounds.close()
            await link.finish()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(bounds, "IN_FLIGHT", 1)
                assert not link.duplex.is_busy  # as it would be with one call that runs
            received = [json.loads(await link.receive()) for _ in range(link.pending_count())]
        assert len(server.broadcaster) == 0
    assert len(server.rounds) == 0
    return [message for item in received for message in (item if isinstance(item, list) else [item])]


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(INPUT, st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_random_messages_get_valid_json_rpc_and_no_extra_responses(inputs: list[bytes], pauses: list[int]) -> None:
    outgoing = asyncio.run(converse(inputs, pauses))
    for message in outgoing:
        check_message(message)
    sent_ids = Counter(identifier for data in inputs for identifier in ids_in(data))
    answered = Counter(
        id_key(json.dumps(message["id"], ensure_ascii=False).encode())
        for message in outgoing
        if "method" not in message and message["id"] is not None
    )
    for identifier, count in answered.items():
        assert count <= sent_ids[identifier]


ORDERLY_METHODS = st.sampled_from(
    [
        ("ping", {}),
        ("tools/list", {}),
        ("tools/list", {"cursor": "AAAA"}),
        ("tools/call", {"name": "echo", "arguments": {"text": "x"}}),
        ("tools/call", {"name": "in_a_thread"}),
        ("tools/call", {"name": "turns", "arguments": {"count": 5}}),
        ("tools/call", {"name": "fails"}),
        ("tools/call", {"name": "changes_the_list"}),
        ("tools/call", {"name": "asks"}),
        ("tools/call", {"name": "declared"}),
        ("tools/call", {"name": "no_such"}),
        ("tools/call", {}),
        ("resources/read", {"uri": "file:///a"}),
        ("resources/read", {"uri": "no:such"}),
        ("prompts/get", {"name": "poem", "arguments": {"topic": "x"}}),
        ("no/such", {}),
        ("server/discover", {}),
    ]
)
ORDERLY = st.lists(
    st.tuples(ORDERLY_METHODS, st.booleans(), st.sampled_from(["alone", "batched", "cancelled", "notified"])),
    max_size=30,
)


def orderly_message(number: int, method: str, params: dict[str, Any], is_modern: bool) -> dict[str, Any]:
    params = params | {"_meta": modern_meta()} if is_modern else params
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([PLAIN, "2025-03-26"]), ORDERLY, st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_every_request_with_its_own_id_is_answered_exactly_once_unless_cancelled(
    dialect: str, steps: list[Any], pauses: list[int]
) -> None:
    inputs, expected, optional = [], set(), set()
    if dialect != PLAIN:
        hello = {"protocolVersion": dialect, "capabilities": {"elicitation": {}}}
        inputs.append(json.dumps(orderly_message(-1, "initialize", hello, False)).encode())
        expected.add(-1)
    for number, ((method, params), is_modern, delivery) in enumerate(steps):
        message = orderly_message(number, method, params, is_modern)
        if delivery == "notified":
            del message["id"]
            inputs.append(json.dumps(message).encode())
            continue
        sent = [message, {"jsonrpc": "2.0", "method": "x"}] if delivery == "batched" else message
        inputs.append(json.dumps(sent).encode())
        if delivery == "cancelled":
            optional.add(number)
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
            inputs.append(json.dumps(cancel).encode())
        else:
            expected.add(number)
    outgoing = asyncio.run(converse(inputs, pauses))
    answered = Counter(message["id"] for message in outgoing if "method" not in message)
    assert set(answered.values()) <= {1}
    assert expected <= set(answered) <= expected | optional
