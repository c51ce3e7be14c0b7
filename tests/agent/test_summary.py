"""The text of a result for a model."""

from typing import Any

import pytest

from hubbub import Block, EmbeddedResource, Image, ResourceContents, ResourceLink, Text
from hubbub.agent.summary import plain_blocks, summarize


def summarise_blocks(*blocks: Any, structured: Any = None) -> str:
    return summarize(plain_blocks(blocks), structured, has_structured=structured is not None)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (Text("hello"), "hello"),
        (Image(b"12345", "image/png"), "[image: image/png, 5 bytes]"),
        ({"type": "audio", "data": "AAAA"}, "[audio: unknown type, 3 bytes]"),
        (ResourceLink("file:///a", "A"), "[resource_link file:///a A]"),
        ({"type": "resource_link"}, "[resource_link]"),
        (EmbeddedResource(ResourceContents("file:///a", text="inside")), "[resource file:///a]\ninside"),
        (
            EmbeddedResource(ResourceContents("file:///a", mime_type="a/b", blob=b"1234")),
            "[resource file:///a: a/b, 4 bytes]",
        ),
        ({"type": "resource", "uri": "file:///b"}, "[resource file:///b]"),
        ({"type": "resource"}, "[resource]"),
        (Block("video", {"type": "video", "data": "AAAA"}), "[content: type=video]"),
        ({"type": "text", "text": "psst", "annotations": {"audience": ["user"]}}, "[text: for the user only]"),
        ({"type": "text", "text": "all", "annotations": {"audience": ["user", "assistant"]}}, "all"),
        ({"type": "text"}, ""),
        (3, ""),
    ],
)
def test_every_kind_of_block_is_summarised(block: Any, text: str) -> None:
    assert summarise_blocks(block) == text


def test_blocks_stay_in_order_and_structured_content_follows() -> None:
    assert summarise_blocks(Text("one"), Image(b"1"), Text("two"), structured={"a": [1]}) == (
        'one\n[image: image/png, 1 bytes]\ntwo\n\nstructuredContent:\n{"a":[1]}'
    )


@pytest.mark.parametrize(("value", "text"), [({}, "{}"), (0, "0"), ("", '""'), (False, "false"), ([], "[]")])
def test_structured_content_of_any_value_is_summarised(value: Any, text: str) -> None:
    assert summarize([], value, has_structured=True) == f"structuredContent:\n{text}"


@pytest.mark.parametrize("content", [None, "text", 3, {"type": "text"}, b"x"])
def test_content_that_is_not_a_list_is_ignored(content: Any) -> None:
    assert plain_blocks(content) == []


@pytest.mark.parametrize(
    ("text", "structured"),
    [
        ('{"a": [1, 2]}', {"a": [1, 2]}),
        ("hello", {"result": "hello"}),
        ("[1, 2]", {"result": [1, 2]}),
        ('"hello"', {"result": "hello"}),
    ],
)
def test_structured_content_that_repeats_a_text_block_is_omitted(text: str, structured: Any) -> None:
    assert summarise_blocks(Text(text), structured=structured) == text


@pytest.mark.parametrize(
    "block",
    [
        Text('{"a": 2}'),
        Text("\udc80"),
        Text("[" * 5000),
        {"type": "text", "text": '{"a": 1}', "annotations": {"audience": ["user"]}},
    ],
)
def test_structured_content_that_no_text_block_contains_is_added(block: Any) -> None:
    assert summarise_blocks(block, structured={"a": 1}).endswith('structuredContent:\n{"a":1}')
