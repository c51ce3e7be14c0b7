"""Answers of endpoints that deviate from the format."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.chat_endpoint import delta
from tests.agent.json_strategies import JSON_VALUES

from hubbub import ModelError, ModelToolCall
from hubbub.agent.chat_response import ResponseAssembler, parse_response


def parse_message(message: Any) -> Any:
    return parse_response(json.dumps({"choices": [{"message": message}]}).encode())


def assemble(*chunks: dict[str, Any]) -> Any:
    assembly = ResponseAssembler()
    for chunk in chunks:
        assembly.add(json.dumps(chunk).encode())
    return assembly.answer()


def test_a_single_call_is_read_as_a_list() -> None:
    assert parse_message({"tool_calls": {"id": "a", "function": {"name": "now", "arguments": "{}"}}}).calls == (
        ModelToolCall("a", "now", "{}"),
    )


def test_the_deprecated_function_call_is_read() -> None:
    assert parse_message({"content": None, "function_call": {"name": "now", "arguments": "{}"}}).calls == (
        ModelToolCall("", "now", "{}"),
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("a", "a"),
        ([{"type": "text", "text": "a"}, {"type": "image"}, "b"], "ab"),
        (3, ""),
    ],
)
def test_content_is_read_in_every_form(content: Any, text: str) -> None:
    assert parse_message({"content": content}).text == text


def test_a_refusal_is_the_text_of_the_response() -> None:
    assert parse_message({"content": None, "refusal": "I would rather not"}).text == "I would rather not"


def test_calls_without_an_index_are_distinguished_by_their_names() -> None:
    found = assemble(
        delta(tool_calls=[{"id": "a", "function": {"name": "now", "arguments": '{"x"'}}]),
        delta(tool_calls=[{"function": {"arguments": ": 1}"}}]),
        delta(tool_calls=[{"id": "b", "function": {"name": "now", "arguments": "{}"}}]),
    )
    assert found.calls == (ModelToolCall("a", "now", '{"x": 1}'), ModelToolCall("b", "now", "{}"))


def test_a_deprecated_function_call_is_assembled_from_chunks() -> None:
    found = assemble(delta(function_call={"name": "now", "arguments": "{"}), delta(function_call={"arguments": "}"}))
    assert found.calls == (ModelToolCall("", "now", "{}"),)


def test_an_empty_stream_is_an_error() -> None:
    with pytest.raises(ModelError):
        assemble({"choices": []})


@given(
    st.lists(
        st.one_of(JSON_VALUES, st.builds(lambda value: {"choices": [{"delta": {"tool_calls": value}}]}, JSON_VALUES)),
        max_size=4,
    )
)
def test_any_chunks_give_a_response_or_an_error(chunks: list[Any]) -> None:
    for chunk in chunks:
        try:
            parse_response(json.dumps(chunk).encode())
        except ModelError:
            pass
    try:
        answer = assemble(*chunks)
    except ModelError:
        return
    assert isinstance(answer.text, str)
    assert all(isinstance(call.name, str) for call in answer.calls)
