"""Scopes that a tool, resource or prompt requires of its callers."""

import re
from collections.abc import Collection
from typing import Final

from hubbub.errors import DefinitionError

ADMIN_SCOPE: Final = "hub:admin"
"""The scope of operators."""
_SCOPE: Final = re.compile(r"[!#-\[\]-~]{1,128}", re.ASCII)


def is_scope(text: str) -> bool:
    """Whether a string is a scope as in RFC 6749: visible ASCII characters without quotes and backslashes."""
    return _SCOPE.fullmatch(text) is not None


def required_scopes(scopes: Collection[str], name: str) -> frozenset[str]:
    """Check and return the scopes of a declaration.

    Raises:
        DefinitionError: they are not a collection of scopes.
    """
    if isinstance(scopes, str):
        raise DefinitionError(f"{name}: scopes must be a tuple of strings; write `scopes=({scopes!r},)`")
    for scope in scopes:
        if not is_scope(str(scope)):
            raise DefinitionError(
                f"{name}: the scope {scope!r} must be visible ASCII characters without quotes and backslashes"
            )
    return frozenset(scopes)
