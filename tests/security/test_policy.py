"""The default decision, and the digest that binds a confirmation to a call."""

from typing import Any

import pytest

from hubbub import Allow, PolicyRequest
from hubbub.security.policy import allow_all, call_digest


def test_everything_is_allowed_without_a_configuration() -> None:
    assert allow_all(PolicyRequest(tool="t", arguments={}, digest=call_digest("t", {}))) == Allow()


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


def test_integers_without_a_canonical_form_have_their_own_digest() -> None:
    assert call_digest("t", {"a": 2**60}) == call_digest("t", {"a": 2**60})
    assert call_digest("t", {"a": 2**60}) != call_digest("t", {"a": 2**60 + 1})
    assert call_digest("t", {"a": 2**60}) != call_digest("t", {"a": str(2**60)})
