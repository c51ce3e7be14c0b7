"""The arguments of a call that a person reviews: a digest that an approval is bound to, and a text to read.

The digest and the text must describe what the server will get. So arguments that programs can read in different ways
are refused: members that are given twice, of which servers take the first or the last, and numbers without a finite
value. Numbers are compared as in RFC 8785: `1.0` and `1` are the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final

import msgspec

from hubbub.errors import ArgumentsInvalid, InvalidParams
from hubbub.governance.hidden_characters import escape_unprintable
from hubbub.security.policy import call_digest
from hubbub.security.redact import redact

MAX_REVIEWED_BYTES: Final = 128 * 1024
"""Arguments of a call that needs an approval: nobody can review more, and the digest of more takes too long."""
PREVIEW_CHARACTERS: Final = 4000
"""The text for the approver."""
VALUE_CHARACTERS: Final = 500
"""One argument in that text: a long one must not hide the others."""
_REDACTED_AT_ONCE: Final = 8 * VALUE_CHARACTERS
"""Text of one argument that is searched for secrets: more than is shown, so that none is cut before it is found."""

Redact = Callable[[str], str]


class ReviewedArguments(msgspec.Struct, frozen=True):
    """What an approval is bound to, and what its approver reads."""

    digest: str
    """Of the tool and its arguments: `hubbub.security.policy.call_digest`."""
    preview: str
    is_complete: bool
    """Whether the preview shows all arguments in full."""


def review_arguments(tool: str, raw: msgspec.Raw | bytes, redact: Redact = redact) -> ReviewedArguments:
    """Compute digest and preview of the arguments of a call; empty for none.

    Raises:
        ArgumentsInvalid: they are ambiguous or too large.
    """
    arguments = _parse(bytes(raw) or b"{}")
    digest = _digest(tool, arguments)
    preview, is_complete = _make_preview(arguments, redact)
    return ReviewedArguments(digest, preview, is_complete)


def digest_arguments(tool: str, raw: msgspec.Raw | bytes) -> str:
    """Return only the digest.

    Raises:
        ArgumentsInvalid: they are ambiguous or too large.
    """
    return _digest(tool, _parse(bytes(raw) or b"{}"))


def _digest(tool: str, arguments: dict[str, Any]) -> str:
    try:
        return call_digest(tool, arguments)
    except (InvalidParams, ValueError, RecursionError) as error:
        raise ArgumentsInvalid(f"The arguments cannot be reviewed: {error}") from None


def _parse(text: bytes) -> dict[str, Any]:
    if len(text) > MAX_REVIEWED_BYTES:
        raise ArgumentsInvalid(
            f"A person has to approve this call, and its arguments are too large to be reviewed: {len(text)} bytes; "
            f"send at most {MAX_REVIEWED_BYTES}"
        )
    try:
        arguments = json.loads(
            text.decode(), object_pairs_hook=_unique_members, parse_float=_finite_float, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as error:
        raise ArgumentsInvalid(f"The arguments cannot be reviewed: {error}") from None
    if not isinstance(arguments, dict):
        raise ArgumentsInvalid(f"The arguments must be an object, not {type(arguments).__name__}")
    return arguments


def _unique_members(members: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(members)
    if len(unique) != len(members):
        seen: set[str] = set()
        twice = next(name for name, _ in members if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ArgumentsInvalid(f"The argument {escape_unprintable(twice)[:100]!r} is given twice; send it once")
    return unique


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _make_preview(arguments: dict[str, Any], redact: Redact) -> tuple[str, bool]:
    """Write one line for each argument, the short ones first, with secrets masked and hidden characters escaped."""
    texts = {name: json.dumps(value, ensure_ascii=False) for name, value in arguments.items()}
    lines: list[str] = []
    left, is_complete = PREVIEW_CHARACTERS, True
    for shown, name in enumerate(sorted(texts, key=lambda name: len(texts[name]) + len(name))):
        text = f"{json.dumps(name, ensure_ascii=False)}: {texts[name]}"
        line = escape_unprintable(redact(text[:_REDACTED_AT_ONCE]))
        if len(line) > VALUE_CHARACTERS or len(text) > _REDACTED_AT_ONCE:
            line, is_complete = f"{line[:VALUE_CHARACTERS]} ... ({len(text)} characters)", False
        if len(line) > left:
            lines.append(f"... and {len(texts) - shown} more arguments")
            return "\n".join(lines), False
        lines.append(line)
        left -= len(line) + 1
    return "\n".join(lines), is_complete
