"""Results and entries in each revision, typed or raw."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from hubbub import (
    Annotations,
    Audio,
    Call,
    Caller,
    EmbeddedResource,
    Icon,
    Image,
    Implementation,
    PromptEntry,
    PromptMessage,
    RawReply,
    RemoteError,
    ResourceContents,
    ResourceEntry,
    ResourceLink,
    ResourceNotFound,
    Revision,
    TemplateEntry,
    Text,
    ToolAnnotations,
    ToolEntry,
    ToolError,
    ToolResult,
)
from hubbub.protocol.calls import NO_META
from hubbub.protocol.error_codes import translate_error
from hubbub.protocol.jsonrpc import NULL
from hubbub.protocol.params import ReadResourceParams
from hubbub.protocol.results import (
    PromptReply,
    PromptsReply,
    ReadReply,
    ResourcesReply,
    TemplatesReply,
    UnionToolResult,
)
from hubbub.protocol.revisions import LEGACY, PLAIN, R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28
from hubbub.protocol.shape import (
    NEWER_FIELDS,
    identity_meta,
    needs_wrapping,
    shape,
    shape_raw_entry,
    shape_tool_entry,
)

HUB = identity_meta(Implementation("hub", "1"))
KEY = "io.modelcontextprotocol/serverInfo"
THEIRS = {"name": "theirs", "version": "2"}
TEXT = {"type": "text", "text": "hello"}
LINK = {"type": "resource_link", "uri": "memo://a", "name": "a", "x": 1}
AUDIO = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/mp3"}
ALL = (R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28, PLAIN)


def shape_raw(body: Any, source: Revision, target: Revision, **fields: Any) -> Any:
    reply = RawReply(body=Raw(msgspec.json.encode(body)), revision=source, **fields)
    return msgspec.json.decode(msgspec.json.encode(shape(reply, target, HUB)))


@pytest.mark.parametrize("revision", [R2025_06_18, R2025_11_25, R2026_07_28])
def test_shaping_to_the_same_revision_changes_no_byte(revision: Revision) -> None:
    body = Raw(b'{ "content":[], "x" : {"deep": [1.50]},"_meta":{}, "resultType":"complete" }')
    assert shape(RawReply(body=body, revision=revision), revision, HUB) is body


def test_a_legacy_result_becomes_a_modern_one() -> None:
    found = shape_raw({"content": [TEXT], "isError": True}, R2025_11_25, R2026_07_28)
    assert found == {
        "resultType": "complete",
        "_meta": {KEY: {"name": "hub", "version": "1"}},
        "content": [TEXT],
        "isError": True,
    }
    with_meta = shape_raw({"content": [], "_meta": {"a/b": 1}}, R2025_11_25, R2026_07_28)
    assert with_meta["_meta"] == {KEY: {"name": "hub", "version": "1"}, "a/b": 1}
    read = shape_raw({"contents": []}, R2025_11_25, R2026_07_28)
    assert (read["ttlMs"], read["cacheScope"]) == (0, "private")
    assert shape_raw({}, R2025_11_25, R2026_07_28)["resultType"] == "complete"


def test_text_that_resembles_members_is_unchanged() -> None:
    tricky = {"type": "text", "text": '"_meta" "resultType": {"content":'}
    found = shape_raw({"content": [tricky]}, R2025_11_25, R2026_07_28)
    assert found["content"] == [tricky]
    assert found["resultType"] == "complete"
    assert KEY in found["_meta"]


def test_a_modern_result_loses_modern_members_for_a_legacy_caller() -> None:
    body = {"resultType": "complete", "ttlMs": 5, "cacheScope": "public", "contents": [], "_meta": {KEY: THEIRS}}
    assert shape_raw(body, R2026_07_28, R2025_11_25) == {"contents": []}
    kept = shape_raw({"content": [], "_meta": {KEY: THEIRS, "a/b": 1}, "new": 2}, R2026_07_28, R2025_11_25)
    assert kept == {"content": [], "_meta": {"a/b": 1}, "new": 2}


@pytest.mark.parametrize("value", [42, "text", [1, 2], None, True])
def test_structured_content_that_is_not_an_object_is_wrapped(value: Any) -> None:
    body = {"content": [], "structuredContent": value, "resultType": "complete"}
    assert shape_raw(body, R2026_07_28, R2025_11_25)["structuredContent"] == {"result": value}
    assert shape_raw(body, R2026_07_28, R2026_07_28)["structuredContent"] == value


def test_an_object_is_wrapped_only_if_its_schema_is() -> None:
    body = {"content": [], "structuredContent": {"a": 1}}
    assert shape_raw(body, R2026_07_28, R2025_06_18)["structuredContent"] == {"a": 1}
    assert shape_raw(body, R2026_07_28, R2025_06_18, wraps=True)["structuredContent"] == {"result": {"a": 1}}


@pytest.mark.parametrize("source", [R2025_11_25, R2026_07_28])
def test_unknown_content_becomes_text_for_the_oldest_revision(source: Revision) -> None:
    body = {"content": [TEXT, LINK, AUDIO, {"type": "new", "y": 2}], "structuredContent": {}}
    found = shape_raw(body, source, R2024_11_05)
    assert found == {
        "content": [
            TEXT,
            {"type": "text", "text": "a: memo://a"},
            {"type": "resource", "resource": {"uri": "data:audio", "mimeType": "audio/mp3", "blob": "UklGRg=="}},
            {"type": "new", "y": 2},
        ]
    }
    assert shape_raw(body, source, R2025_03_26)["content"][2] == AUDIO
    prompt = shape_raw({"messages": [{"role": "user", "content": LINK}, 7]}, source, R2024_11_05)
    assert prompt == {"messages": [{"role": "user", "content": {"type": "text", "text": "a: memo://a"}}, 7]}


def test_plain_callers_get_content_alone_and_failures_as_errors() -> None:
    body = {"content": [TEXT], "structuredContent": {"a": 1}, "_meta": {"a/b": 1}, "isError": False}
    assert shape_raw(body, R2025_11_25, PLAIN) == {"content": [TEXT]}
    with pytest.raises(ToolError, match="hello"):
        shape_raw(body | {"isError": True}, R2026_07_28, PLAIN)
    with pytest.raises(ToolError, match="The tool failed"):
        shape_raw({"content": [LINK, 3], "isError": True}, R2026_07_28, PLAIN)
    assert shape_raw({"contents": [1], "_meta": {}}, R2025_11_25, PLAIN) == {"contents": [1]}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    body=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("content", "structuredContent", "contents", "messages", "other"), json_values)
    ),
    source=st.sampled_from(ALL[:-1]),
    target=st.sampled_from(ALL),
)
def test_any_result_is_shaped_and_unknown_members_are_kept(
    body: dict[str, Any], source: Revision, target: Revision
) -> None:
    found = shape_raw(body, source, target)
    if "other" in body and (target.is_mcp or not {"content", "structuredContent"} & set(body)):
        assert found["other"] == body["other"]


# -- typed and raw ---------------------------------------------------------------

blocks = st.one_of(
    st.builds(Text, st.text()),
    st.builds(Image, st.binary(), st.just("image/png")),
    st.builds(Audio, st.binary(), st.sampled_from(["audio/wav", "audio/mp3"])),
    st.builds(ResourceLink, st.text(), st.text(), title=st.sampled_from([UNSET, "t"])),
    st.builds(EmbeddedResource, st.builds(ResourceContents, st.text(), text=st.text())),
)
metas = st.sampled_from(
    [UNSET, {}, {"a/b": 1}, {"io.modelcontextprotocol/x": 1}, {"io.modelcontextprotocol/x": 1, "a": 2}]
)
tool_replies = st.builds(
    lambda kind, **fields: kind(**fields),
    st.sampled_from([ToolResult, UnionToolResult]),
    content=st.just(UNSET) | st.lists(blocks, max_size=4),
    structured_content=st.just(UNSET) | json_values,
    is_error=st.sampled_from([UNSET, False, True]),
    meta=metas,
)
prompt_replies = st.builds(
    PromptReply, messages=st.lists(st.builds(PromptMessage, st.just("user"), blocks), max_size=3), meta=metas
)
read_replies = st.builds(ReadReply, contents=st.just([]), ttl_ms=st.just(5), cache_scope=st.just("private"), meta=metas)


def shape_outcome(reply: Any, revision: Revision) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(shape(reply, revision, HUB)))
    except ToolError as error:
        return error.message


@given(reply=tool_replies | prompt_replies | read_replies, revision=st.sampled_from(ALL))
def test_a_reply_is_shaped_alike_before_and_after_it_is_encoded(reply: Any, revision: Revision) -> None:
    assume(revision.is_mcp or getattr(reply, "content", ()) is not UNSET)  # plain text is written with indents
    body = Raw(msgspec.json.encode(shape(copy.deepcopy(reply), R2026_07_28, HUB)))
    raw = RawReply(body=body, revision=R2026_07_28, wraps=getattr(reply, "wraps", False))
    assert shape_outcome(raw, revision) == shape_outcome(reply, revision)


@pytest.mark.parametrize("name", NEWER_FIELDS["tool result"])
def test_each_newer_member_of_a_tool_result_is_removed_for_a_caller_that_lacks_it(name: str) -> None:
    fields = {field.encode_name: field.name for field in msgspec.structs.fields(ToolResult)}
    member: dict[str, Any] = {fields[name]: {}}
    result = shape(ToolResult(content=[Text("x")], **member), PLAIN, HUB)
    assert getattr(result, fields[name]) is UNSET


texts = st.sampled_from([UNSET, "x"])
dicts = st.sampled_from([UNSET, {"a/b": 1}])
icons = st.sampled_from([UNSET, [Icon("data:,")]])
hints = st.sampled_from([UNSET, Annotations(priority=1.0)])
entries = st.one_of(
    st.builds(
        ResourceEntry, st.just("memo://a"), st.just("a"), texts, title=texts, annotations=hints, icons=icons, meta=dicts
    ),
    st.builds(TemplateEntry, st.just("memo://{a}"), st.just("a"), texts, title=texts, annotations=hints, meta=dicts),
    st.builds(PromptEntry, st.just("a"), texts, title=texts, icons=icons, meta=dicts),
)
LISTS: dict[type, tuple[type, str]]
LISTS = {ResourceEntry: (ResourcesReply, "resources"), TemplateEntry: (TemplatesReply, "resource_templates"),
         PromptEntry: (PromptsReply, "prompts")}  # fmt: skip


def decode(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def raw_members(value: Any) -> dict[str, Raw]:
    return msgspec.json.decode(msgspec.json.encode(value), type=dict[str, Raw])


@given(entry=entries, revision=st.sampled_from(ALL))
def test_an_entry_is_shaped_alike_before_and_after_it_is_encoded(entry: Any, revision: Revision) -> None:
    kind, attribute = LISTS[type(entry)]
    raw = shape_raw_entry(raw_members(entry), R2026_07_28, revision)
    reply = shape(kind(**{attribute: [entry]}), revision, HUB)
    assert decode(raw) == decode(getattr(reply, attribute)[0])


@given(
    entry=st.builds(
        ToolEntry,
        st.just("a"),
        texts,
        st.just({"type": "object"}),
        title=texts,
        output_schema=st.sampled_from([UNSET, {"type": "object"}, {"type": "integer"}]),
        annotations=st.sampled_from([UNSET, ToolAnnotations(read_only_hint=True)]),
        icons=icons,
        meta=dicts,
    ),
    revision=st.sampled_from(ALL),
)
def test_a_tool_is_shaped_alike_before_and_after_it_is_encoded(entry: ToolEntry, revision: Revision) -> None:
    is_wrapped = entry.output_schema == {"type": "integer"}
    wrapped = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    raw = shape_raw_entry(raw_members(entry), R2026_07_28, revision)
    assert decode(raw) == decode(shape_tool_entry(entry, wrapped if is_wrapped else None, revision))


# -- lists -----------------------------------------------------------------------


def entry(source: Revision, target: Revision, **members: Any) -> dict[str, Any]:
    raw = {name: Raw(msgspec.json.encode(value)) for name, value in members.items()}
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(shape_raw_entry(raw, source, target)))
    return found


def test_entries_have_the_members_of_the_revision_and_unknown_ones() -> None:
    members = {
        "name": "a",
        "title": "A",
        "icons": [],
        "annotations": {},
        "_meta": {},
        "outputSchema": {"type": "object"},
    }
    full = members | {"x-new": 1}
    assert entry(R2026_07_28, R2026_07_28, **full) == full
    assert set(entry(R2026_07_28, R2025_06_18, **full)) == set(full) - {"icons"}
    assert set(entry(R2026_07_28, R2025_03_26, **full)) == {"name", "annotations", "x-new"}
    assert set(entry(R2026_07_28, R2024_11_05, **full)) == {"name", "x-new"}


def test_output_schemas_are_wrapped_like_their_results() -> None:
    schema = {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "string"}], "$defs": {"A": {"type": "object"}}}
    found = entry(R2026_07_28, R2025_11_25, name="a", outputSchema=schema)["outputSchema"]
    assert found == {
        "type": "object",
        "properties": {"result": {"anyOf": schema["anyOf"]}},
        "required": ["result"],
        "$defs": schema["$defs"],
    }
    assert needs_wrapping({"outputSchema": Raw(msgspec.json.encode(schema))})
    assert not needs_wrapping({"outputSchema": Raw(b'{"type":"object"}')})
    assert not needs_wrapping({})
    itself = {"type": "array", "items": {"$ref": "#"}}
    assert "outputSchema" not in entry(R2026_07_28, R2025_11_25, name="a", outputSchema=itself)
    assert entry(R2025_11_25, R2025_06_18, name="a", outputSchema=schema)["outputSchema"] == schema


# -- errors ----------------------------------------------------------------------


def make_call(revision: Revision, method: str = "resources/read") -> Call:
    params = ReadResourceParams(uri="memo://a")
    caller = Caller(revision=revision)
    return Call(id=NULL, method=method, raw=NULL, params=params, meta=NO_META, caller=caller, back=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ALL)
def test_a_missing_resource_has_the_error_code_of_the_dialect(target: Revision) -> None:
    for error, source in (
        (RemoteError(-32002, "gone"), R2025_11_25),
        (RemoteError(-32602, "gone", {"uri": "memo://a"}), R2026_07_28),
    ):
        found = translate_error(error, make_call(target), source)
        assert isinstance(found, ResourceNotFound)
        assert (found.uri, found.message) == ("memo://a", "gone")


def test_other_errors_are_unchanged_except_for_new_codes() -> None:
    error = RemoteError(-32603, "bad", {"field": 1})
    assert translate_error(error, make_call(R2025_11_25), R2026_07_28) is error
    assert translate_error(RemoteError(-32002, "x"), make_call(R2025_11_25, "tools/call"), R2025_11_25).code == -32002  # type: ignore[attr-defined]
    needs = translate_error(RemoteError(-32021, "needs", {"a": 1}), make_call(next(iter(LEGACY.values()))), R2026_07_28)
    assert isinstance(needs, RemoteError)
    assert (needs.code, needs.message, needs.data) == (-32600, "needs", {"a": 1})
    same = RemoteError(-32021, "needs")
    assert translate_error(same, make_call(R2026_07_28), R2026_07_28) is same
