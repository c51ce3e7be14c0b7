"""Scans all texts of a definition for hidden characters and for text that speaks to the model.

A help for the person who approves, not a protection by itself: rules find known patterns, and new wording passes them.
docs/governance/pins.md has the measured error rates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from hubbub.governance.character_scan import normalize_text, scan_characters
from hubbub.governance.hidden_characters import show_hidden
from hubbub.governance.scan_rules import RULES, TEXT_RULES, Severity

MAX_SCANNED_CHARACTERS: Final = 128 * 1024
"""Characters of one definition that are scanned; a longer definition is a finding."""
MAX_FINDINGS: Final = 50
_MAX_DEPTH: Final = 64
"""Levels of one definition that are scanned; deeper nesting is a finding."""
_EXCERPT_CHARACTERS: Final = 80
_EXCERPT_CONTEXT: Final = 20
_SEVERITIES: Final[dict[str, Severity]] = {rule.id: rule.severity for rule in RULES}
_SEPARATORS: Final = re.compile(r"[_\-.]+|(?<=[a-z])(?=[A-Z])")


class Finding(msgspec.Struct, frozen=True):
    """A text of a definition that a rule matches."""

    rule: str
    path: str
    """Where in the definition, such as `inputSchema.properties.path.description`."""
    excerpt: str
    """The text around the match, with hidden characters made visible."""
    severity: Severity


@cache
def _compiled_rules() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Compile the rules at the first scan, because that takes some time."""
    return tuple((rule.id, re.compile(pattern)) for rule in TEXT_RULES for pattern in rule.patterns)


def scan_definition(definition: Mapping[str, Any]) -> list[Finding]:
    """Scan all names and texts of a definition; return a finding for each rule and path, those of high severity first.

    There are at most `MAX_FINDINGS`. Others cannot displace those of high severity.
    """
    high: dict[tuple[str, str], Finding] = {}
    others: dict[tuple[str, str], Finding] = {}
    remaining = MAX_SCANNED_CHARACTERS
    for path, text, is_name in _texts(definition, "", 0):
        if text is None:
            high["too-deep", ""] = Finding("too-deep", path, f"more than {_MAX_DEPTH} levels", "high")
            continue
        if len(text) > remaining:
            high["too-long", ""] = Finding("too-long", "", f"more than {MAX_SCANNED_CHARACTERS} characters", "high")
        scanned, remaining = text[:remaining], remaining - len(text)
        for rule, excerpt in _scan_text(scanned, is_name):
            found = high if _SEVERITIES[rule] == "high" else others
            if len(found) < MAX_FINDINGS:
                found.setdefault((rule, path), Finding(rule, path, excerpt, _SEVERITIES[rule]))
        if remaining <= 0 or len(high) >= MAX_FINDINGS:
            break
    return [*high.values(), *others.values()][:MAX_FINDINGS]


def is_suspicious(findings: list[Finding]) -> bool:
    """Whether a person should look at the definition before it is approved."""
    return any(finding.severity != "low" for finding in findings)


def _scan_text(text: str, is_name: bool) -> Iterator[tuple[str, str]]:
    for match in scan_characters(text):
        yield match.rule, _excerpt(text, match.start, match.end)
    normalized = normalize_text(_SEPARATORS.sub(" ", text) if is_name else text)
    for rule, pattern in _compiled_rules():
        hit = pattern.search(normalized)
        if hit is not None:
            yield rule, _excerpt(normalized, *hit.span())


def _excerpt(text: str, start: int, end: int) -> str:
    first = max(0, start - _EXCERPT_CONTEXT)
    last = min(len(text), max(end, start) + _EXCERPT_CONTEXT, first + 2 * _EXCERPT_CHARACTERS)
    return f"{'…' if first else ''}{show_hidden(text[first:last])}{'…' if last < len(text) else ''}"


def _texts(value: Any, path: str, depth: int) -> Iterator[tuple[str, str | None, bool]]:
    """Yield each path with its text, and whether it is a name; None in place of a value that is nested too deeply."""
    if isinstance(value, str):
        yield path, value, path in ("name", "title") or path.endswith("].name")
    elif depth >= _MAX_DEPTH and isinstance(value, Mapping | list):
        yield path, None, False
    elif isinstance(value, Mapping):
        for name, member in value.items():
            inner = f"{path}.{show_hidden(name)}" if path else show_hidden(name)
            yield inner, name, True
            yield from _texts(member, inner, depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]", depth + 1)
