"""Decisions by name, and what a confirmation is bound to."""

from typing import Any

import pytest

from hubbub.security.policy import Allow, Confirm, Deny, Question, allow_all, by_name, call_digest


def question(tool: str) -> Question:
    return Question(tool=tool, arguments={}, digest=call_digest(tool, {}))


def test_names_decide_and_deny_wins() -> None:
    decide = by_name(confirm=["*write*"], deny=["mcp_disk__*"], lifetime_s=5, clock=lambda: 100.0)
    assert decide(question("now")) == Allow()
    assert decide(question("mcp_files__write")) == Confirm(call_digest("mcp_files__write", {}), 105.0)
    assert isinstance(decide(question("mcp_disk__write")), Deny)
    assert allow_all(question("mcp_disk__write")) == Allow()


def test_the_digest_does_not_depend_on_order() -> None:
    assert call_digest("t", {"a": 1, "b": [1, 2]}) == call_digest("t", {"b": [1, 2], "a": 1.0})


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("u", {"a": 1}),
        ("t", {"a": 2}),
        ("t", {"a": "1"}),
        ("t", {"a": [1]}),
        ("t", {"a": 1, "b": None}),
        ("t", {"a": 2**60}),
        ("t", {}),
    ],
)
def test_the_digest_depends_on_everything_else(tool: str, arguments: dict[str, Any]) -> None:
    assert call_digest(tool, arguments) != call_digest("t", {"a": 1})


def test_integers_without_a_canonical_form_have_a_digest_of_their_own() -> None:
    assert call_digest("t", {"a": 2**60}) == call_digest("t", {"a": 2**60})
    assert call_digest("t", {"a": 2**60}) != call_digest("t", {"a": 2**60 + 1})
    assert call_digest("t", {"a": 2**60}) != call_digest("t", {"a": str(2**60)})
