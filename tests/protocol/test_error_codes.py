"""The wire form of every error in every era."""

import inspect
import json
from typing import Any

import pytest
from msgspec import UNSET

from hubbub import HubbubError, Text, ToolFailure, errors
from hubbub.protocol.error_codes import ERROR_RULES, error_object, failure_reply, find_rule, http_status
from hubbub.protocol.revisions import NEWEST_LEGACY, NEWEST_MODERN, PLAIN

BY_ERA = (NEWEST_MODERN, NEWEST_LEGACY, PLAIN)


@pytest.mark.parametrize(
    ("error", "codes", "status", "data"),
    [
        (errors.ParseError("m"), (-32700, -32700, -32700), 400, None),
        (errors.InvalidRequest("m"), (-32600, -32600, -32600), 400, None),
        (errors.IdInUse("m"), (-32600, -32600, -32600), 400, None),
        (errors.MessageTooLarge("A line", 5), (-32600, -32600, -32600), 413, {"limit": 5}),
        (errors.MethodNotFound("x"), (-32601, -32601, -32601), 404, None),
        (errors.InvalidParams("m"), (-32602, -32602, -32602), 400, None),
        (errors.InvalidParams("m", {"why": 1}), (-32602, -32602, -32602), 400, {"why": 1}),
        (errors.HeaderMismatch("m"), (-32020, -32020, -32020), 400, None),
        (
            errors.MissingCapability({"sampling": {}}),
            (-32021, -32600, -32600),
            400,
            {"requiredCapabilities": {"sampling": {}}},
        ),
        (
            errors.UnsupportedVersion("x", ["a", "b"]),
            (-32022, -32600, -32600),
            400,
            {"supported": ["a", "b"], "requested": "x"},
        ),
        (errors.SessionRequired("m"), (-32600, -32600, -32600), 400, None),
        (errors.SessionNotFound("m"), (-32600, -32600, -32600), 404, None),
        (
            errors.ToolNotFound("x", ["a"]),
            (-32602, -32602, -32000),
            200,
            {"toolName": "x", "availableTools": ["a"]},
        ),
        (errors.PromptNotFound("x"), (-32602, -32602, -32602), 200, {"promptName": "x"}),
        (errors.ResourceNotFound("a:b"), (-32602, -32002, -32001), 200, {"uri": "a:b"}),
        (errors.ToolError("m"), (-32603, -32603, -32002), 200, None),
        (errors.ToolError("m", code="c", data=[1]), (-32603, -32603, -32002), 200, {"code": "c", "data": [1]}),
        (errors.ArgumentsInvalid("m"), (-32602, -32602, -32003), 200, None),
        (errors.Overloaded("calls", 3), (-32603, -32603, -32603), 503, {"reason": "overloaded", "limit": 3}),
        (errors.DeadlineExceeded("It", 2), (-32603, -32603, -32603), 200, None),
        (errors.ConnectionClosed("m"), (-32603, -32603, -32603), 200, None),
        (errors.HubbubError("m"), (-32603, -32603, -32603), 200, None),
        (errors.RemoteError(-7, "m"), (-7, -7, -7), 200, None),
        (errors.RemoteError(-7, "m", {"a": 1}), (-7, -7, -7), 200, {"a": 1}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_has_its_code_and_status_in_each_era(
    error: HubbubError, codes: tuple[int, int, int], status: int, data: dict[str, Any] | None
) -> None:
    assert http_status(error) == status
    for revision, code in zip(BY_ERA, codes, strict=True):
        form = error_object(error, revision)
        assert form.code == code
        assert form.message == error.message
        assert (None if not hasattr(form.data, "__len__") else form.data) == data


def test_the_codes_of_other_eras_never_reach_modern_clients() -> None:
    retired = {-32000, -32001, -32002, -32003, -32042}
    assert not {form.modern for form in ERROR_RULES.values()} & retired


def test_every_error_class_has_a_code() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.HubbubError)]
    assert len(kinds) > 20
    for kind in kinds:
        assert find_rule(kind.__new__(kind)) is not None


def test_a_pack_can_set_the_code_of_its_failures() -> None:
    failure = errors.ToolError("m")
    failure.plain_code = -32601
    assert error_object(failure, PLAIN).code == -32601


def test_the_data_of_a_failure_with_its_own_code_are_unchanged() -> None:
    failure = errors.ToolError("m", data={"kind": "timeout"})
    failure.plain_code = -32601
    assert error_object(failure, PLAIN).data == {"kind": "timeout"}


def test_invalid_params_of_a_method_with_its_own_code_are_invalid_params() -> None:
    failure = errors.ArgumentsInvalid("m")
    failure.plain_code = -32601
    assert error_object(failure, PLAIN).code == -32602


@pytest.mark.parametrize(
    ("failure", "details"),
    [
        (errors.ToolError("m"), {"type": "tool_error", "message": "m", "tool": "t"}),
        (errors.ArgumentsInvalid("m"), {"type": "validation_error", "message": "m", "tool": "t"}),
        (
            errors.ToolError("m", code="busy", data={"a": 1}),
            {"type": "tool_error", "message": "m", "tool": "t", "code": "busy", "data": {"a": 1}},
        ),
    ],
)
def test_a_tool_failure_is_a_result_with_the_reason(failure: ToolFailure, details: dict[str, Any]) -> None:
    reply = failure_reply(failure, "t")
    assert reply.is_error is True
    assert reply.structured_content == {"ok": False, "error": details}


def test_a_failure_of_a_tool_with_an_output_schema_has_no_structured_content() -> None:
    failure = errors.ToolError("m")
    failure.has_schema = True
    reply = failure_reply(failure, "t")
    assert reply.is_error is True
    assert reply.structured_content is UNSET
    assert reply.content
    (text,) = reply.content
    assert isinstance(text, Text)
    assert json.loads(text.text) == {"ok": False, "error": {"type": "tool_error", "message": "m", "tool": "t"}}
