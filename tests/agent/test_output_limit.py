"""Limits on the output of an application's own tools."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.json_strategies import JSON_VALUES

from hubbub import bounds
from hubbub.agent.envelope import as_envelope, success_envelope
from hubbub.agent.output_limit import limit_output


def test_small_output_is_unchanged() -> None:
    limited = limit_output(success_envelope("t", {"value": 1}), bounds.TOOL_OUTPUT_BYTES)
    assert json.loads(limited.text) == {
        "ok": True,
        "tool_name": "t",
        "data": {"value": 1},
        "warnings": [],
        "errors": [],
    }
    assert (limited.bytes, limited.was_replaced) == (len(limited.text), False)


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def endless() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("x" * 300_000, "TOOL_OUTPUT_TOO_LARGE"),
        ("\x01" * 50_000, "TOOL_OUTPUT_TOO_LARGE"),
        (nested(100), "TOOL_OUTPUT_TOO_LARGE"),
        (nested(100_000), "TOOL_OUTPUT_TOO_LARGE"),
        (endless(), "TOOL_OUTPUT_TOO_LARGE"),
        (list(range(60_000)), "TOOL_OUTPUT_TOO_LARGE"),
        (object(), "TOOL_OUTPUT_SERIALIZATION_ERROR"),
        ("\ud800", "TOOL_OUTPUT_SERIALIZATION_ERROR"),
        ({(1, 2): 3}, "TOOL_OUTPUT_SERIALIZATION_ERROR"),
    ],
    ids=["large", "large when escaped", "deep", "very deep", "endless", "many", "no JSON", "surrogate", "key"],
)
def test_output_over_the_limit_or_without_a_json_form_is_replaced(value: Any, code: str) -> None:
    limited = limit_output(success_envelope("t", {"value": value}), bounds.TOOL_OUTPUT_BYTES)
    output = json.loads(limited.text)
    assert limited.was_replaced
    assert (output["ok"], output["tool_name"], output["data"]) == (False, "t", {})
    assert [error["code"] for error in output["errors"]] == [code]
    assert output["errors"][0]["may_have_executed"] is True


@given(JSON_VALUES, st.integers(1024, 2000))
def test_output_never_has_more_bytes_than_the_limit(value: Any, limit: int) -> None:
    limited = limit_output(as_envelope("t", {"ok": True, "data": {"value": [value] * 40}}), limit)
    assert len(limited.text.encode()) <= limit


def test_the_text_of_a_result_is_sent_to_the_model_once() -> None:
    text = "x" * 20_000
    content = [{"type": "text", "text": text}]
    place = {"server_id": "s", "remote_tool_name": "t"}
    data = {"mcp": {**place, "content": content, "structured_content": {"result": text}}, "text": text}
    found = limit_output(success_envelope("mcp_s__t", data), bounds.TOOL_OUTPUT_BYTES)
    assert found.text.count(text) == 1
    assert found.bytes < 20_300
    assert found.envelope["data"] == {"mcp": place, "text": text}
