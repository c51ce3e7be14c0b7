"""Parses `WWW-Authenticate` headers (RFC 9110) leniently: what cannot be read is left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from hubbub.oauth import limits

_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PART: Final = re.compile(
    rf"""[\s,]*(?:(?P<name>{_TOKEN})\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]+))|(?P<scheme>{_TOKEN}))"""
)
_TOKEN_SCHEMES: Final = ("dpop", "bearer")


class Challenge(msgspec.Struct, frozen=True):
    """One challenge of a resource server. Parameters that are missing are empty."""

    scheme: str = ""
    """In lower case."""
    parameters: Mapping[str, str] = {}

    @property
    def error(self) -> str:
        """The error code."""
        return self.parameters.get("error", "")

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that are needed."""
        return split_scopes(self.parameters.get("scope"))

    @property
    def resource_metadata(self) -> str:
        """The URL of the metadata of the resource."""
        return self.parameters.get("resource_metadata", "")


def parse_challenges(text: str) -> list[Challenge]:
    """Parse a header; several of one response are joined by commas."""
    found: list[Challenge] = []
    text = text[: limits.CHALLENGE_CHARACTERS]
    position = 0
    while match := _PART.match(text, position):
        position = match.end()
        if match["scheme"] is not None:
            found.append(Challenge(match["scheme"].lower(), {}))
        elif found:
            plain, quoted = match["plain"], match["quoted"]
            value = plain if plain is not None else re.sub(r"\\(.)", r"\1", quoted)
            # The first one counts: a later one with the same name is a mistake, or an attack.
            found[-1] = Challenge(found[-1].scheme, {match["name"].lower(): value, **found[-1].parameters})
    return found


def select_challenge(text: str) -> Challenge:
    """Return one challenge for tokens. If a server accepts both schemes, DPoP's parameters take precedence."""
    found = [challenge for challenge in parse_challenges(text) if challenge.scheme in _TOKEN_SCHEMES]
    found.sort(key=lambda challenge: _TOKEN_SCHEMES.index(challenge.scheme))
    parameters: dict[str, str] = {}
    for challenge in reversed(found):
        parameters.update(challenge.parameters)
    return Challenge(found[0].scheme, parameters) if found else Challenge()


def split_scopes(text: str | None) -> tuple[str, ...]:
    """Split a `scope` parameter; each scope once."""
    return tuple(dict.fromkeys((text or "").split()))[: limits.SCOPES]
