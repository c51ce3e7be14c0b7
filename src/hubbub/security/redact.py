"""Masks what looks like a secret before text leaves the process.

Exception messages and log lines may quote connection strings, headers or tokens
that nobody meant to show. This is the net under the tightrope, not the rope: code that
knows its secrets keeps them out of messages in the first place.
"""

from __future__ import annotations

import re

MASK = "***"

_PATTERNS = (
    # user:password@ in URLs
    (re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"), MASK),
    # Authorization values
    (re.compile(r"(?i)\b(bearer|basic|token)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {MASK}"),
    # key=value and "key": "value" of telling names
    (
        re.compile(
            r"(?i)\b([\w-]*(?:password|passwd|secret|api[_-]?key|access[_-]?token|auth[_-]?token|private[_-]?key))"
            r"([\"']?\s*[=:]\s*[\"']?)[^\s\"',;&]+"
        ),
        rf"\1\2{MASK}",
    ),
    # JSON web tokens and well-known key prefixes
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), MASK),
    (re.compile(r"\b(?:hb|sk|pk|rk|ghp|gho|ghs|xox[abp]|AKIA|glpat)[-_]?[A-Za-z0-9_-]{16,}"), MASK),
)


def redact(text: str) -> str:
    """The text with everything that looks like a secret masked."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
