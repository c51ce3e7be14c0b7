"""Mask text that looks like a secret before it leaves the process.

Exception messages and log lines may accidentally quote connection strings, headers or tokens.
This is a second line of defence: code that knows its secrets keeps them out of messages in the
first place. Values that `hubbub.security.known_values` knows are masked whatever they look like.
"""

from __future__ import annotations

import re

from hubbub.security.known_values import KNOWN_VALUES, MASK

__all__ = ["MASK", "redact"]

# Each takes time linear in the text, because messages may quote what a caller sent.
# `re` compiles and caches them with the first text: at startup they would take 2 ms.
# In this order, so that none of them masks only the part by which a later one recognises its secret.
_PATTERNS = (
    # private keys
    (r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END[A-Z ]*-----|\Z)", MASK),
    # user:password@ in URLs
    (r"(?<=://)[^/\s:@]*:[^/\s]+(?=@)", MASK),
    # key=value and "key": "value" with names of secrets, also inside quoted JSON
    (
        r"(?i)(passw(?:or)?d|passphrase|pwd|secret[\w-]{0,32}|api[_-]?key|access[_-]?key|private[_-]?key"
        r"|[_-]token|\btoken(?=\\*[\"']?\s*=|\\*[\"']\s*:))"
        r"(\\*[\"']?\s*[=:]\s*)"
        r"(?:\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|\\+[\"'][^\"']*[\"']?"
        r"|(?:(?:bearer|basic|token)\s++)?[^\s\"',;&]+)",
        rf"\1\2{MASK}",
    ),
    # Authorization values
    (r"(?i)\b(bearer|basic|token)\s+[A-Za-z0-9._~+/=-]{8,}", rf"\1 {MASK}"),
    # JSON web tokens and well-known key prefixes
    (r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", MASK),
    (r"\b(?:hb|sk|pk|rk|gh[oprsu]|github_pat|xox[abeprs]|glpat|hf|npm)[-_][A-Za-z0-9_-]{16,}", MASK),
    (r"\b(?:AKIA|ASIA|AIza)[A-Za-z0-9_-]{16,}", MASK),
)


def redact(text: str) -> str:
    """Return the text with every known secret masked, and everything that looks like one."""
    if KNOWN_VALUES:
        text = KNOWN_VALUES.mask(text)
    for pattern, replacement in _PATTERNS:
        text = re.sub(pattern, replacement, text)
    return text
