"""Answers of endpoints that each have their own idea of the format."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.any_json import JSON
from tests.agent.endpoint import delta

from hubbub import ModelError, ModelToolCall
from hubbub.agent.chat_answer import Assembly, read_answer


def read(message: Any) -> Any:
    return read_answer(json.dumps({"choices": [{"message": message}]}).encode())


def assembled(*chunks: dict[str, Any]) -> Any:
    assembly = Assembly()
    for chunk in chunks:
        assembly.add(json.dumps(chunk).encode())
    return assembly.answer()


def test_a_single_call_is_taken_for_a_list() -> None:
    assert read({"tool_calls": {"id": "a", "function": {"name": "now", "arguments": "{}"}}}).calls == (
        ModelToolCall("a", "now", "{}"),
    )


def test_the_old_function_call_is_read() -> None:
    assert read({"content": None, "function_call": {"name": "now", "arguments": "{}"}}).calls == (
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
def test_content_comes_in_several_forms(content: Any, text: str) -> None:
    assert read({"content": content}).text == text


def test_a_refusal_is_an_answer() -> None:
    assert read({"content": None, "refusal": "I would rather not"}).text == "I would rather not"


def test_calls_without_an_index_are_told_apart_by_their_names() -> None:
    found = assembled(
        delta(tool_calls=[{"id": "a", "function": {"name": "now", "arguments": '{"x"'}}]),
        delta(tool_calls=[{"function": {"arguments": ": 1}"}}]),
        delta(tool_calls=[{"id": "b", "function": {"name": "now", "arguments": "{}"}}]),
    )
    assert found.calls == (ModelToolCall("a", "now", '{"x": 1}'), ModelToolCall("b", "now", "{}"))


def test_an_old_function_call_comes_in_pieces_too() -> None:
    found = assembled(delta(function_call={"name": "now", "arguments": "{"}), delta(function_call={"arguments": "}"}))
    assert found.calls == (ModelToolCall("", "now", "{}"),)


def test_nothing_at_all_is_no_answer() -> None:
    with pytest.raises(ModelError):
        assembled({"choices": []})


@given(
    st.lists(
        st.one_of(JSON, st.builds(lambda value: {"choices": [{"delta": {"tool_calls": value}}]}, JSON)), max_size=4
    )
)
def test_pieces_of_any_kind_are_an_answer_or_an_error(chunks: list[Any]) -> None:
    for chunk in chunks:
        try:
            read_answer(json.dumps(chunk).encode())
        except ModelError:
            pass
    try:
        answer = assembled(*chunks)
    except ModelError:
        return
    assert isinstance(answer.text, str)
    assert all(isinstance(call.name, str) for call in answer.calls)
