"""Parts of the client, each by itself: cache, rounds, pagination, results, tool headers, forwarding."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from tests.client.harness import interop_client
from tests.clock import advance_clock

from hubbub import (
    Call,
    Caller,
    DeadlineExceeded,
    InputRefused,
    InvalidParams,
    Meta,
    MethodNotFound,
    Notification,
    PromptResult,
    PromptsPage,
    RawReply,
    RemoteError,
    ResourceResult,
    Text,
    ToolEntry,
    ToolResult,
    ToolsPage,
    TransportError,
    bounds,
)
from hubbub.client import input_required
from hubbub.client.pagination import fetch_all_pages
from hubbub.client.raw_calls import ToolHeaders
from hubbub.client.results import decode_result
from hubbub.client.subscriptions import ResultCache
from hubbub.protocol.calls import NO_META
from hubbub.protocol.revisions import NEWEST_MODERN


def raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


# -- cache ---------------------------------------------------------------------------


def page(**members: Any) -> ToolsPage:
    return decode_result(Raw(msgspec.json.encode({"tools": [], **members})), ToolsPage)


def test_a_result_is_cached_for_its_ttl() -> None:
    now = [0.0]
    cache = ResultCache(clock=lambda: now[0])
    cached = page(ttlMs=1000)
    cache.put("tools/list", None, cached)
    assert cache.get("tools/list", None) is cached
    assert cache.get("tools/list", "") is None
    now[0] = 1.0
    assert cache.get("tools/list", None) is None
    for members in ({}, {"ttlMs": 0}, {"ttlMs": -5}):
        cache.put("tools/list", None, page(**members))
        assert len(cache) == 0
    cache.put("tools/list", None, page(ttlMs=10**15))
    now[0] = 24 * 3600.0 + 1
    assert cache.get("tools/list", None) is None


def test_cached_results_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "CACHED_BYTES", 3000)
    cache = ResultCache()

    def put(key: str, size: int) -> None:
        cache.put("tools/list", key, page(ttlMs=1000, x="x" * size))

    def cached_names() -> list[str]:
        return [key for key in ("a", "b", "c", "d") if cache.get("tools/list", key) is not None]

    put("a", 1000)
    put("b", 1000)
    put("b", 1000)  # replaces the other entry
    assert cached_names() == ["a", "b"]
    put("c", 1000)
    assert cached_names() == ["b", "c"]
    put("d", 4000)  # larger than the whole cache
    assert cached_names() == ["b", "c"]
    put("d", 2900)
    assert cached_names() == ["d"]


@pytest.mark.requirement("I5")
def test_private_results_are_not_cached_if_the_caller_may_change() -> None:
    cache = ResultCache(keeps_private=False)
    cache.put("tools/list", None, page(ttlMs=1000))
    cache.put("tools/list", "a", page(ttlMs=1000, cacheScope="private"))
    cache.put("tools/list", "b", page(ttlMs=1000, cacheScope="public"))
    assert len(cache) == 1


def test_changed_results_are_removed_from_the_cache() -> None:
    cache = ResultCache()
    for key in ("a", "b"):
        cache.put("resources/read", key, page(ttlMs=1000))
    cache.put("tools/list", None, page(ttlMs=1000))
    cache.drop("resources/read", key="a")
    assert len(cache) == 2
    cache.drop("tools/list", "resources/read")
    assert len(cache) == 0


# -- rounds --------------------------------------------------------------------------


INPUT_REQUIRED = {
    "resultType": "input_required",
    "inputRequests": {"k": {"method": "m", "params": {"a": 1}}},
    "requestState": "s\u00e9",
}


async def test_a_round_repeats_the_request_with_responses_and_state() -> None:
    sent: list[dict[str, Any]] = []

    async def send(params: dict[str, Any]) -> Raw:
        sent.append(params)
        return raw({"resultType": "complete", "done": True})

    async def answer(method: str, params: Raw) -> Any:
        return {"method": method, "params": msgspec.json.decode(params)}

    done = await input_required.resolve_input(raw(INPUT_REQUIRED), {"name": "t"}, send, answer)
    assert b"done" in bytes(done)
    assert sent == [
        {"name": "t", "inputResponses": {"k": {"method": "m", "params": {"a": 1}}}, "requestState": "s\u00e9"}
    ]


async def test_without_a_request_state_none_is_returned() -> None:
    sent: list[dict[str, Any]] = []

    async def send(params: dict[str, Any]) -> Raw:
        sent.append(params)
        return raw({})

    async def answer(method: str, params: Raw) -> Any:
        return {}

    first = {key: value for key, value in INPUT_REQUIRED.items() if key != "requestState"}
    await input_required.resolve_input(raw(first), {}, send, answer)
    await input_required.resolve_input(raw({"resultType": "input_required", "requestState": "x"}), {}, send, answer)
    assert sent == [{"inputResponses": {"k": {}}}, {"requestState": "x"}]


async def test_the_number_of_rounds_is_limited() -> None:
    count = 0

    async def send(params: dict[str, Any]) -> Raw:
        nonlocal count
        count += 1
        return raw(INPUT_REQUIRED)

    async def answer(method: str, params: Raw) -> Any:
        return {}

    with pytest.raises(InputRefused, match="after 10 rounds"):
        await input_required.resolve_input(raw(INPUT_REQUIRED), {}, send, answer)
    assert count == 10


async def test_input_requests_without_a_handler_are_refused() -> None:
    async def send(params: dict[str, Any]) -> Raw:
        raise AssertionError

    async def answer(method: str, params: Raw) -> Any:
        raise MethodNotFound(method)

    with pytest.raises(InputRefused, match="requires m, but"):
        await input_required.resolve_input(raw(INPUT_REQUIRED), {}, send, answer)
    for wrong in ({"resultType": "input_required"}, {"resultType": "input_required", "inputRequests": 1}):
        with pytest.raises(TransportError):
            await input_required.resolve_input(raw(wrong), {}, send, answer)
    with pytest.raises(TransportError, match="unknown type"):
        input_required.is_complete(raw({"resultType": "task"}))


# -- pages ---------------------------------------------------------------------------


async def test_an_empty_cursor_is_valid_and_only_a_missing_one_ends_the_list() -> None:
    cursors: list[str | None] = []
    following = {None: {"nextCursor": ""}, "": {"nextCursor": "b"}, "b": {}}

    async def fetch(cursor: str | None, left_s: float) -> ToolsPage:
        cursors.append(cursor)
        return page(tools=[{"name": f"t{len(cursors)}"}], **following[cursor])

    assert [tool.name for tool in await fetch_all_pages(fetch, lambda found: found.tools, limit_s=60)] == [
        "t1",
        "t2",
        "t3",
    ]
    assert cursors == [None, "", "b"]


async def test_an_endless_list_is_an_error() -> None:
    count = 0

    async def fetch(cursor: str | None, left_s: float) -> ToolsPage:
        nonlocal count
        count += 1
        return page(nextCursor=str(count))

    with pytest.raises(TransportError, match="1000 pages"):
        await fetch_all_pages(fetch, lambda found: found.tools, limit_s=60)


@pytest.mark.parametrize(
    ("bound", "limit", "message"),
    [("LIST_BYTES", 5000, "more than 5000 bytes"), ("LIST_ITEMS", 5, "more than 5 items")],
)
async def test_the_size_limit_of_a_list_covers_all_its_pages(
    bound: str, limit: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, bound, limit)
    count = 0

    async def fetch(cursor: str | None, left_s: float) -> ToolsPage:
        nonlocal count
        count += 1
        return page(tools=[{"name": f"t{count}", "description": "x" * 1000}], nextCursor=str(count))

    with pytest.raises(TransportError, match=message) as raised:
        await fetch_all_pages(fetch, lambda found: found.tools, limit_s=60)
    assert raised.value.code == "INVALID_RESPONSE"
    assert count <= 6


async def test_the_size_limit_includes_the_last_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LIST_ITEMS", 2)

    async def fetch(cursor: str | None, left_s: float) -> ToolsPage:
        return page(tools=[{"name": f"t{number}"} for number in range(3)])

    with pytest.raises(TransportError, match="more than 2 items"):
        await fetch_all_pages(fetch, lambda found: found.tools, limit_s=60)


async def test_the_time_limit_of_a_list_covers_all_its_pages() -> None:
    fetched = 0

    async def fetch(cursor: str | None, left_s: float) -> ToolsPage:
        nonlocal fetched
        fetched += 1
        assert left_s <= 200 - 50 * (fetched - 1)
        advance_clock(50)
        return page(nextCursor=str(fetched))

    with pytest.raises(DeadlineExceeded, match="after 200 s"):
        await fetch_all_pages(fetch, lambda found: found.tools, limit_s=200)
    assert fetched == 4


# -- results -------------------------------------------------------------------------


def test_schemas_are_unchanged() -> None:
    schema = {
        "$schema": "x",
        "$defs": {"a": {"$anchor": "b"}},
        "if": {},
        "additionalProperties": False,
        "type": "object",
    }
    tool = page(tools=[{"name": "t", "inputSchema": schema, "outputSchema": {"type": "array"}}]).tools[0]
    assert list(tool.input_schema) == list(schema)
    assert tool.input_schema == schema
    assert tool.output_schema == {"type": "array"}


def test_a_result_of_another_type_is_refused() -> None:
    for wrong in (b"[]", b"1", b'{"tools": 5}'):
        with pytest.raises(TransportError, match="not a valid ToolsPage"):
            decode_result(Raw(wrong), ToolsPage)
    with pytest.raises(TransportError, match="not a valid ResourceResult"):
        decode_result(Raw(b"{}"), ResourceResult)


def test_missing_lists_are_empty() -> None:
    assert decode_result(Raw(b"{}"), ToolResult).content == []
    for prompts in (b'[{"name": "p"}]', b'[{"name": "p"}, 7]'):
        page = decode_result(Raw(b'{"prompts": %b}' % prompts), PromptsPage)
        assert [prompt.arguments for prompt in page.prompts] == [[]]


def test_unusual_messages_of_a_prompt_are_kept() -> None:
    result = decode_result(Raw(b'{"messages":[{"role":"user","content":{"type":"scent","x":1}}]}'), PromptResult)
    assert result.messages[0].content.fields == {"type": "scent", "x": 1}  # type: ignore[union-attr]


def test_a_text_block_is_decoded_as_text() -> None:
    result = decode_result(
        raw({"content": [{"type": "text", "text": "a", "annotations": {"priority": 1}}]}), ToolResult
    )
    assert result.content
    assert isinstance(result.content[0], Text)


# -- headers of tools ----------------------------------------------------------------


def test_the_cache_of_tool_definitions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LIST_ITEMS", 3)
    headers = ToolHeaders()
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    for number in range(5):
        headers.read_annotations(
            [ToolEntry(f"t{number}", input_schema=schema), ToolEntry(f"plain{number}", input_schema={})]
        )
    found = [
        name
        for name in (f"t{n}" for n in range(5))
        if headers.headers_for({"name": name, "arguments": {"region": "eu"}})
    ]
    assert found == ["t2", "t3", "t4"]


def test_arguments_become_headers() -> None:
    headers = ToolHeaders()
    properties = {
        "a": {"type": "string", "x-mcp-header": "A"},
        "b": {"type": "integer", "x-mcp-header": "B"},
        "c": {"type": "object", "properties": {"d": {"type": "boolean", "x-mcp-header": "D"}}},
    }
    tools = [
        ToolEntry("t", input_schema={"type": "object", "properties": properties}),
        ToolEntry("u", input_schema={"type": "object", "properties": {"x": {"x-mcp-header": ""}}}),
    ]
    assert [tool.name for tool in headers.read_annotations(tools)] == ["t"]
    arguments = {"a": " x", "b": 7.0, "c": {"d": True}}
    wanted = {"Mcp-Param-A": "=?base64?IHg=?=", "Mcp-Param-B": "7", "Mcp-Param-D": "true"}
    assert headers.headers_for({"name": "t", "arguments": arguments}) == wanted
    assert headers.headers_for({"name": "t", "arguments": raw(arguments)}) == wanted
    assert headers.headers_for({"name": "t", "arguments": {"a": None}}) == {}
    assert headers.headers_for({"name": "unheard"}) == {}
    with pytest.raises(InvalidParams):
        headers.headers_for({"name": "t", "arguments": {"b": 7.5}})


# -- forwarding ----------------------------------------------------------------------


class RecordingReturnPath:
    """The return path of a caller; records what is sent through it."""

    def __init__(self) -> None:
        self.notes: list[Notification] = []
        self.questions: list[Call] = []

    async def request(self, call: Call) -> RawReply:
        self.questions.append(call)
        return RawReply(body=raw({"action": "accept", "content": {"name": "Grace", "age": 1}}))

    async def notify(self, note: Notification) -> None:
        self.notes.append(note)

    def send_nowait(self, note: Notification) -> bool:
        return False

    async def release(self) -> None:
        pass


def make_call(method: str, params: dict[str, Any], back: RecordingReturnPath, meta: Meta = NO_META) -> Call:
    caller = Caller(revision=NEWEST_MODERN)
    return Call(id=Raw(b"7"), method=method, raw=raw(params), params=None, meta=meta, caller=caller, back=back)


@pytest.mark.parametrize(
    ("transport", "version"),
    [("stdio", None), ("stdio", "2025-11-25"), ("streamable_http", None), ("streamable_http", "2025-11-25")],
)
async def test_a_client_is_a_peer(transport: str, version: str | None) -> None:
    fields: dict[str, Any] = {"capabilities": {"elicitation": {}}}
    async with interop_client(transport, version, fields=fields) as client:
        back = RecordingReturnPath()
        params = {"name": "slow", "arguments": {"steps": 2}, "_meta": {"progressToken": "theirs", "x": 1}}
        reply = await client.request(make_call("tools/call", params, back, Meta(progress_token=Raw(b'"theirs"'))))
        assert isinstance(reply, RawReply)
        assert b"2 steps" in bytes(reply.body)
        progress_notes = [note.params for note in back.notes if note.method == "notifications/progress"]
        assert [bytes(progress.progress_token) for progress in progress_notes] == [b'"theirs"'] * 2
        elicited = await client.request(make_call("tools/call", {"name": "ask_name", "arguments": {}}, back))
        assert b"Grace is 1" in bytes(elicited.body)  # type: ignore[attr-defined]
        assert [question.method for question in back.questions] == ["elicitation/create"]
        listed = await client.request(make_call("tools/list", {}, back))
        assert b'"echo"' in bytes(listed.body)  # type: ignore[attr-defined]
        with pytest.raises(RemoteError):
            await client.request(make_call("tools/call", {"name": "nothing"}, back))
        with pytest.raises(InvalidParams):
            await client.request(make_call("tools/call", {"arguments": {}}, back))
