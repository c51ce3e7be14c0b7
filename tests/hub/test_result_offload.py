"""Results that are too large: what the caller gets instead, and how it reads the rest."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from tests.server.raw_client import DIALECTS, ERAS, LEGACY, MODERN, PLAIN, RawClient, connect_raw_client
from tests.server.raw_transport import RawTransport

from hubbub import (
    Audio,
    Call,
    EmbeddedResource,
    Image,
    Notification,
    Peer,
    Principal,
    RawReply,
    Reply,
    ResourceContents,
    Server,
    Text,
    ToolError,
    ToolResult,
    bounds,
)
from hubbub.hub.config import READ_RESULT
from hubbub.hub.result_offload import OffloadingPeer, estimate_size
from hubbub.hub.stored_results import RESULTS_URI, register_result_readers
from hubbub.store.spill import Spill

LIMIT = 10_000
STORY = "Once upon a time 🌍 there was a café. " * 10_000
ROWS = [{"number": number, "word": "wörd"} for number in range(5_000)]
MISSING = {PLAIN: -32001, "2025-11-25": -32002, MODERN: -32602}


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class ForeignTools:
    """Returns raw results for some tools, as an upstream would; passes other calls to the server."""

    def __init__(self, inside: Peer, results: dict[str, Any]) -> None:
        self._inside = inside
        self._results = results

    async def request(self, call: Call) -> Reply:
        if call.method == "tools/call" and call.params.name in self._results:
            return RawReply(body=Raw(json.dumps(self._results[call.params.name]).encode()))
        return await self._inside.request(call)

    async def notify(self, note: Notification) -> None:
        await self._inside.notify(note)


class ExceptReadResult:
    """Passes calls of the built-in tool to the server directly, without the limit."""

    def __init__(self, inside: Peer, limited: Peer) -> None:
        self._inside, self._limited = inside, limited

    async def request(self, call: Call) -> Reply:
        is_own = call.method == "tools/call" and call.params.name == READ_RESULT
        return await (self._inside if is_own else self._limited).request(call)

    async def notify(self, note: Notification) -> None:
        await self._inside.notify(note)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def spill(clock: Clock) -> Iterator[Spill]:
    spill = Spill(clock=clock)
    yield spill
    spill.close()


def make_server(
    spill: Spill,
    foreign: dict[str, Any] | None = None,
    *,
    limit: int = LIMIT,
    with_output_schema: tuple[str, ...] = ("rows", "number_of"),
) -> Server:
    server = Server("hub")

    @server.tool
    async def story() -> Text:
        return Text(STORY)

    @server.tool
    async def rows() -> list[dict[str, Any]]:
        return ROWS

    @server.tool
    async def short() -> str:
        return "short"

    @server.tool
    async def fails() -> ToolResult:
        return ToolResult(content=[Text(STORY)], is_error=True)

    @server.tool
    async def raises() -> Text:
        raise ToolError("x" * 100)

    register_result_readers(server, spill)
    limited = OffloadingPeer(
        ForeignTools(server.peer, foreign or {}),
        spill,
        limit=lambda: limit,
        has_output_schema=lambda name: name in with_output_schema,
    )
    server.wrap(lambda inside: ExceptReadResult(inside, limited))
    return server


def find_link(result: dict[str, Any]) -> dict[str, Any]:
    link: dict[str, Any]
    (link,) = [block for block in result["content"] if block["type"] == "resource_link"]
    return link


def find_id(result: dict[str, Any]) -> str:
    return str(find_link(result)["uri"]).removeprefix(RESULTS_URI)


async def read_all(client: RawClient, uri: str) -> str:
    """Read all pages, following `_meta.next`."""
    text, following = "", uri
    while following:
        (contents,) = (await client.result("resources/read", {"uri": following}))["contents"]
        assert len(contents["text"].encode()) <= bounds.RESULT_PAGE_BYTES
        text += contents["text"]
        following = contents["_meta"].get("next", "")
    return text


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_results_within_the_limit_are_unchanged(spill: Spill, dialect: str) -> None:
    foreign = {"exact": {"content": [{"type": "text", "text": "a" * 100}], "strange": [1, 2]}}
    async with connect_raw_client(make_server(spill, foreign), dialect) as client:
        assert (await client.call("short"))["content"][0]["text"] == "short"
        assert (await client.call("exact"))["strange"] == [1, 2]
    assert len(spill) == 0


async def test_a_result_of_exactly_the_limit_is_unchanged(spill: Spill) -> None:
    result = {"content": [{"type": "text", "text": "a" * 5000}]}
    size = len(json.dumps(result))
    async with connect_raw_client(make_server(spill, {"exact": result}, limit=size), LEGACY[-1]) as client:
        assert await client.call("exact") == result
    async with connect_raw_client(make_server(spill, {"exact": result}, limit=size - 1), LEGACY[-1]) as client:
        assert find_link(await client.call("exact"))["size"] == 5000


async def test_no_result_is_stored_when_the_limit_is_off(spill: Spill) -> None:
    async with connect_raw_client(make_server(spill, limit=0), MODERN) as client:
        assert (await client.call("story"))["content"] == [{"type": "text", "text": STORY}]


@pytest.mark.parametrize("dialect", ["2025-06-18", "2025-11-25", MODERN])
async def test_a_long_text_becomes_a_preview_and_a_link(spill: Spill, clock: Clock, dialect: str) -> None:
    async with connect_raw_client(make_server(spill), dialect) as client:
        result = await client.call("story")
        text, link = result["content"]
        size = len(STORY.encode())
        assert result.get("isError") is None
        assert link["size"] == size
        assert link["mimeType"] == "text/plain"
        note, _, beginning = text["text"].partition("\n\n")
        assert STORY.startswith(beginning)
        assert bounds.PREVIEW_BYTES - 4 <= len(beginning.encode()) <= bounds.PREVIEW_BYTES
        assert f"{size} bytes" in note
        assert READ_RESULT in note
        assert link["uri"] in note
        assert result["_meta"]["dev.hubbub/result"] == {
            "uri": link["uri"],
            "size": size,
            "expiresAt": "2027-01-15T09:00:00Z",
        }
        assert await read_all(client, link["uri"]) == STORY


@pytest.mark.parametrize("dialect", [PLAIN, "2024-11-05", "2025-03-26"])
async def test_a_client_without_resource_links_gets_the_uri_as_text(spill: Spill, dialect: str) -> None:
    async with connect_raw_client(make_server(spill), dialect) as client:
        result = await client.call("story")
        assert [block["type"] for block in result["content"]] == ["text", "text"]
        uri = result["content"][1]["text"].rpartition(" ")[2]
        assert uri.startswith(RESULTS_URI)
        assert len(json.dumps(result)) < 2 * bounds.PREVIEW_BYTES
        (contents,) = (await client.result("resources/read", {"uri": uri}))["contents"]
        assert STORY.startswith(contents["text"])


@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
async def test_the_rest_of_a_result_can_be_read_with_the_tool(spill: Spill, dialect: str) -> None:
    async with connect_raw_client(make_server(spill), dialect) as client:
        summary = (await client.call("story"))["content"][0]["text"]
        found = re.search(r"id (\S+), offset (\d+)\)", summary)
        assert found is not None
        read, offset = summary.partition("\n\n")[2], int(found[2])
        while True:
            page, note = (await client.call(READ_RESULT, {"id": found[1], "offset": offset}))["content"]
            assert len(page["text"].encode()) <= bounds.RESULT_PAGE_BYTES
            read += page["text"]
            following = re.search(r"Continue with offset (\d+)", note["text"])
            if following is None:
                assert "end" in note["text"]
                break
            offset = int(following[1])
        assert read == STORY


async def test_the_tool_accepts_a_uri_and_a_length(spill: Spill) -> None:
    async with connect_raw_client(make_server(spill), MODERN) as client:
        link = find_link(await client.call("story"))["uri"]
        page, _ = (await client.call(READ_RESULT, {"id": f"{link}?offset=7", "offset": 5, "limit": 4}))["content"]
        assert page["text"] == STORY[5:9]


async def test_an_offset_inside_a_character_moves_to_the_next(spill: Spill) -> None:
    async with connect_raw_client(make_server(spill), MODERN) as client:
        identifier = find_id(await client.call("story"))
        inside = STORY.encode().index("🌍".encode()) + 1
        page, _ = (await client.call(READ_RESULT, {"id": identifier, "offset": inside, "limit": 6}))["content"]
        assert page["text"] == " there"


@pytest.mark.parametrize("offset", ["-1", "x", "1e3", "٣", "9" * 5000])
async def test_an_invalid_offset_is_refused(spill: Spill, offset: str) -> None:
    async with connect_raw_client(make_server(spill), MODERN) as client:
        uri = find_link(await client.call("story"))["uri"]
        error = await client.error("resources/read", {"uri": f"{uri}?offset={offset}"})
        assert error["code"] == -32602


async def test_an_offset_beyond_the_end_returns_an_empty_page(spill: Spill) -> None:
    async with connect_raw_client(make_server(spill), MODERN) as client:
        uri = find_link(await client.call("story"))["uri"]
        (contents,) = (await client.result("resources/read", {"uri": f"{uri}?offset=999999999999"}))["contents"]
        assert contents["text"] == ""
        assert "next" not in contents["_meta"]


@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
async def test_an_unknown_id_is_not_found(spill: Spill, dialect: str) -> None:
    async with connect_raw_client(make_server(spill), dialect) as client:
        uri = f"{RESULTS_URI}AAAAAAAAAAAAAAAAAAAAAA"
        assert (await client.error("resources/read", {"uri": uri}))["code"] == MISSING[dialect]


async def test_a_result_can_be_read_by_its_caller_only(spill: Spill) -> None:
    server = make_server(spill)

    async def request(method: str, params: dict[str, Any], principal: str, scope: str) -> dict[str, Any]:
        async with RawTransport(server, principal=Principal(principal), scope=scope) as link:
            client = RawClient(link, "2025-11-25", {})
            await client.result("initialize", {"protocolVersion": "2025-11-25"})
            return await client.ask(method, params)

    called = await request("tools/call", {"name": "story"}, "ann", "one")
    uri = find_link(called["result"])["uri"]
    arguments = {"name": READ_RESULT, "arguments": {"id": uri}}
    assert "result" in await request("resources/read", {"uri": uri}, "ann", "one")
    for principal, scope in (("bob", "one"), ("ann", "two"), ("bob", "two")):
        read = await request("resources/read", {"uri": uri}, principal, scope)
        assert read["error"]["code"] == -32002
        assert read["error"]["message"] == "Resource not found"
        assert (await request("tools/call", arguments, principal, scope))["result"]["isError"] is True


@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
async def test_the_error_says_that_a_result_has_expired(spill: Spill, clock: Clock, dialect: str) -> None:
    async with connect_raw_client(make_server(spill), dialect) as client:
        uri = f"{RESULTS_URI}{find_any_id(await client.call('story'))}"
        clock.now += bounds.RESULT_TTL_S
        error = await client.error("resources/read", {"uri": uri})
        assert error["code"] == MISSING[dialect]
        assert "Resource expired" in error["message"]
        if dialect != PLAIN:
            again = await client.call(READ_RESULT, {"id": uri})
            assert again["isError"] is True
            assert "has expired" in json.dumps(again)


def find_any_id(result: dict[str, Any]) -> str:
    found = re.search(rf"{RESULTS_URI}([\w-]+)", json.dumps(result))
    assert found is not None
    return found[1]


async def test_a_result_too_large_to_store_is_cut_and_marked() -> None:
    spill = Spill(total_bytes=20_000)
    async with connect_raw_client(make_server(spill), MODERN) as client:
        result = await client.call("story")
        (text,) = result["content"]
        assert "ask for less" in text["text"]
        assert STORY[:1000] in text["text"]
        assert "dev.hubbub/result" not in result["_meta"]


@pytest.mark.parametrize("dialect", ["2025-11-25", MODERN])
async def test_a_stored_failure_keeps_is_error(spill: Spill, dialect: str) -> None:
    async with connect_raw_client(make_server(spill), dialect) as client:
        result = await client.call("fails")
        assert result["isError"] is True
        assert await read_all(client, find_link(result)["uri"]) == STORY


async def test_structured_content_with_an_output_schema_stays_and_its_text_is_stored(spill: Spill) -> None:
    async with connect_raw_client(make_server(spill), MODERN) as client:
        result = await client.call("rows")
        assert result["structuredContent"] == ROWS
        assert len(result["content"][0]["text"]) < 2 * bounds.PREVIEW_BYTES
        link = find_link(result)
        assert link["mimeType"] == "application/json"
        assert json.loads(await read_all(client, link["uri"])) == ROWS


async def test_structured_content_without_an_output_schema_is_stored(spill: Spill) -> None:
    async with connect_raw_client(make_server(spill, with_output_schema=()), MODERN) as client:
        result = await client.call("rows")
        assert "structuredContent" not in result
        assert len(json.dumps(result)) < 2 * bounds.PREVIEW_BYTES
        assert json.loads(await read_all(client, find_link(result)["uri"])) == ROWS


@pytest.mark.parametrize("dialect", ["2025-11-25", MODERN])
async def test_a_text_with_an_output_schema_is_replaced_by_its_preview(spill: Spill, dialect: str) -> None:
    wrapped = {"content": [{"type": "text", "text": STORY}], "structuredContent": {"result": STORY}}
    async with connect_raw_client(
        make_server(spill, {"wrapped": wrapped}, with_output_schema=("wrapped",)), dialect
    ) as client:
        result = await client.call("wrapped")
        assert result["structuredContent"] == {"result": result["content"][0]["text"]}
        assert await read_all(client, find_link(result)["uri"]) == STORY


async def test_text_and_data_that_differ_are_both_stored(spill: Spill) -> None:
    both = {"content": [{"type": "text", "text": STORY}], "structuredContent": {"words": 70_000}}
    async with connect_raw_client(make_server(spill, {"both": both}, with_output_schema=("both",)), MODERN) as client:
        result = await client.call("both")
        assert result["structuredContent"] == {"words": 70_000}
        assert json.loads(await read_all(client, find_link(result)["uri"])) == both


async def test_structured_content_beyond_the_message_limit_is_an_error_with_the_reason(spill: Spill) -> None:
    huge = {"content": [], "structuredContent": {"rows": ["x" * 1000] * 5000}}
    async with connect_raw_client(make_server(spill, {"huge": huge}, with_output_schema=("huge",)), MODERN) as client:
        result = await client.call("huge")
        assert result["isError"] is True
        assert "The call succeeded: do not repeat it" in result["content"][0]["text"]
        assert "structuredContent" not in result
        assert json.loads(await read_all(client, find_link(result)["uri"])) == huge["structuredContent"]


async def test_images_and_links_stay_in_the_result(spill: Spill) -> None:
    picture = {"type": "image", "data": "aGVsbG8=" * 10_000, "mimeType": "image/png", "strange": True}
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    mixed = {"content": [picture, {"type": "text", "text": STORY}, link], "_meta": {"theirs": 1}}
    async with connect_raw_client(
        make_server(spill, {"mixed": mixed, "picture": {"content": [picture]}}), "2025-11-25"
    ) as client:
        assert (await client.call("picture"))["content"] == [picture]
        result = await client.call("mixed")
        assert [block["type"] for block in result["content"]] == ["text", "resource_link", "image", "resource_link"]
        assert result["content"][2:] == [picture, link]
        assert result["_meta"]["theirs"] == 1
        assert json.loads(await read_all(client, result["content"][1]["uri"])) == mixed


async def test_too_many_images_are_stored(spill: Spill) -> None:
    picture = {"type": "image", "data": "A" * (bounds.INLINE_BYTES // 2), "mimeType": "image/png"}
    album = {"content": [picture] * 3}
    async with connect_raw_client(make_server(spill, {"album": album}), "2025-11-25") as client:
        result = await client.call("album")
        assert [block["type"] for block in result["content"]] == ["text", "resource_link"]
        assert json.loads(await read_all(client, result["content"][1]["uri"])) == album


async def test_audio_that_stays_is_converted_for_older_clients(spill: Spill) -> None:
    sound = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    mixed = {"content": [sound, {"type": "text", "text": STORY}]}
    async with connect_raw_client(make_server(spill, {"mixed": mixed}), "2024-11-05") as client:
        result = await client.call("mixed")
        assert [block["type"] for block in result["content"]] == ["text", "text", "resource"]


@pytest.mark.parametrize(
    "strange",
    [
        {"resultType": "input_required", "inputRequests": {"a": {"x": "y" * 20_000}}},
        {"content": "y" * 20_000},
        {"content": [1, "y" * 20_000]},
        {"more": "y" * 20_000},
    ],
)
async def test_results_of_an_unknown_form_are_unchanged(spill: Spill, strange: dict[str, Any]) -> None:
    async with connect_raw_client(make_server(spill, {"strange": strange}), "2025-11-25") as client:
        assert await client.call("strange") == strange
    assert len(spill) == 0


async def test_a_large_resource_is_not_stored(spill: Spill) -> None:
    server = make_server(spill)

    @server.resource("text:long")
    async def long() -> str:
        return STORY

    async with connect_raw_client(server, MODERN) as client:
        (contents,) = (await client.result("resources/read", {"uri": "text:long"}))["contents"]
        assert contents["text"] == STORY


@pytest.mark.parametrize(
    "reply",
    [
        ToolResult(content=[Text("a" * 1000)]),
        ToolResult(structured_content={"a": "b" * 1000}),
        ToolResult(content=[Image(bytes(750))]),
        ToolResult(content=[Audio(bytes(750))]),
        ToolResult(content=[EmbeddedResource(ResourceContents("a:b", text="c" * 1000))]),
        RawReply(body=Raw(b'"' + b"a" * 1000 + b'"')),
    ],
)
def test_the_estimated_size_of_a_reply_is_close_to_its_json(reply: Reply) -> None:
    size = estimate_size(reply)
    assert 1000 <= size <= 1200
    if isinstance(reply, ToolResult):
        assert size <= len(msgspec.json.encode(reply)) <= size + 100
