"""JSON values that nobody can change any more, and back.

Objects become read-only mappings and arrays tuples, all the way down. What is shared by
many runs (the definitions of a snapshot) is frozen; what goes to an encoder is thawed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


def freeze(value: Any) -> Any:
    """The value with everything inside it made read-only; a copy, not a view."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: freeze(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return value


def thaw(value: Any) -> Any:
    """A copy made of dicts and lists, which the caller may change."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(item) for item in value]
    return value
