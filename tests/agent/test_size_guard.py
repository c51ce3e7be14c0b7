"""Results that are too large are reduced step by step until they fit."""

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import SettingsError, ToolEnvelope
from hubbub.agent.envelope import error_envelope, make_problem, success_envelope
from hubbub.agent.size_guard import check_output_limit, fit_envelope
from hubbub.agent.summary import summarize


def envelope(content: list[Any], structured: Any = None) -> ToolEnvelope:
    text = summarize(content, structured, has_structured=structured is not None)
    place = {"server_id": "s", "remote_tool_name": "t"}
    return success_envelope(
        "mcp_s__t", {"mcp": {**place, "content": content, "structured_content": structured}, "text": text}
    )


def size(found: ToolEnvelope) -> int:
    return len(msgspec.json.encode(found))


def warnings(found: ToolEnvelope) -> list[str]:
    return [warning["code"] for warning in found["warnings"]]


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def image(count: int) -> dict[str, Any]:
    return {"type": "image", "mimeType": "image/png", "data": base64.b64encode(bytes(count)).decode()}


def test_a_result_within_the_limit_is_unchanged() -> None:
    whole = envelope([text_block("x")], {"a": 1})
    assert fit_envelope(whole, size(whole)) is whole


@pytest.mark.parametrize("limit", [1024, 1_000_000])
def test_binary_data_is_always_replaced_with_a_warning_and_structured_content_stays(limit: int) -> None:
    found = fit_envelope(envelope([text_block("x"), image(3000)], {"a": 1}), limit)
    assert warnings(found) == ["BINARY_TRUNCATED"]
    assert found["data"]["mcp"]["content"] == [
        text_block("x"),
        {"type": "image", "mimeType": "image/png", "bytes": 3000},
    ]
    assert found["data"]["mcp"]["structured_content"] == {"a": 1}


def test_a_blob_inside_a_resource_is_binary_data_too() -> None:
    block = {"type": "resource", "resource": {"uri": "file:///a", "blob": "A" * 4000}}
    assert fit_envelope(envelope([block]), 1024)["data"]["mcp"]["content"] == [
        {"type": "resource", "uri": "file:///a", "mimeType": None, "bytes": 3000}
    ]


def test_in_the_next_step_everything_except_text_is_described() -> None:
    link = {"type": "resource_link", "uri": "file:///a", "name": "A", "description": "x" * 3000}
    strange = {"type": "video", "data": "x" * 3000}
    found = fit_envelope(envelope([text_block("kept"), link, strange]), 1024)
    assert warnings(found) == ["CONTENT_TRUNCATED"]
    assert found["data"]["mcp"]["content"] == [
        text_block("kept"),
        {"type": "resource_link", "uri": "file:///a", "name": "A"},
        {"type": "video"},
    ]
    assert found["data"]["mcp"]["structured_content"] is None


def test_text_that_fits_once_is_kept_whole() -> None:
    found = fit_envelope(envelope([text_block("x" * 700)]), 1024)
    assert warnings(found) == ["CONTENT_TRUNCATED"]
    assert found["data"]["text"] == "x" * 700


def test_in_the_last_step_the_text_is_cut_to_half_the_limit() -> None:
    found = fit_envelope(envelope([text_block("x" * 5000)]), 1024)
    assert warnings(found) == ["CONTENT_TRUNCATED", "TEXT_TRUNCATED"]
    assert found["data"]["mcp"]["content"] == []
    assert found["data"]["text"] == "x" * 512


def test_text_is_cut_between_characters() -> None:
    found = fit_envelope(envelope([text_block("x" + "é" * 5000)]), 1024)
    assert found["data"]["text"] == "x" + "é" * 255


def test_text_that_grows_when_encoded_is_cut_further() -> None:
    found = fit_envelope(envelope([text_block("\x01" * 5000)]), 1024)
    assert "TEXT_TRUNCATED" in warnings(found)
    assert 0 < len(found["data"]["text"]) <= 128
    assert size(found) <= 1024


def test_text_is_dropped_if_names_take_the_whole_limit() -> None:
    long = envelope([text_block("x" * 5000)])
    long["data"]["mcp"]["remote_tool_name"] = "n" * 640
    found = fit_envelope(long, 1024)
    assert warnings(found)[-1] == "TEXT_DROPPED"
    assert found["data"]["text"] == ""
    assert size(found) <= 1024


def test_a_failure_with_very_long_names_keeps_its_code() -> None:
    place = {"server_id": "s" * 5000, "remote_tool_name": "t"}
    found = fit_envelope(
        error_envelope("mcp_s__t", make_problem("MCP_TIMEOUT", "slow", retryable=True), data={"mcp": place}), 1024
    )
    assert size(found) <= 1024
    assert found["errors"][0]["code"] == "MCP_TIMEOUT"
    assert found["errors"][0]["retryable"] is True


@pytest.mark.parametrize("limit", [0, -1, 1023, True, 2000.0])
def test_a_limit_that_is_too_small_is_refused(limit: int) -> None:
    with pytest.raises(SettingsError, match="1024"):
        check_output_limit(limit)


BLOCK = st.one_of(
    st.text(max_size=800).map(text_block),
    st.integers(0, 2000).map(image),
    st.fixed_dictionaries({"type": st.text(max_size=900), "x": st.text(max_size=400)}),
    st.fixed_dictionaries(
        {"type": st.just("resource"), "resource": st.dictionaries(st.sampled_from(["uri", "text", "blob"]), st.text())}
    ),
)


@given(
    content=st.lists(BLOCK, max_size=6),
    structured=st.none() | st.dictionaries(st.text(), st.text(max_size=900), max_size=3),
    place=st.text(max_size=700),
    limit=st.integers(1024, 3000),
)
def test_no_result_is_larger_than_the_limit(content: list[Any], structured: Any, place: str, limit: int) -> None:
    whole = envelope(content, structured)
    whole["data"]["mcp"]["server_id"] = place
    found = fit_envelope(whole, limit)
    assert size(found) <= limit
    assert found["ok"] is True
    assert found["tool_name"] == "mcp_s__t"
    has_binary = any(block.get("type") == "image" or "blob" in block.get("resource", {}) for block in content)
    assert bool(found["warnings"]) == (has_binary or size(whole) > limit)
