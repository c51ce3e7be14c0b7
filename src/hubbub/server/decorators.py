"""Decorators that register functions, with and without options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def make_decorator(register: Callable[[Any], object]) -> Callable[[F], F]:
    """Make a decorator that registers a function and returns it unchanged."""

    def decorate(target: F) -> F:
        register(target)
        return target

    return decorate


def apply_decorator(function: Any, register: Callable[[Any], object]) -> Any:
    """Support `@decorator` and `@decorator(...)`: without a function, return the decorator."""
    decorate = make_decorator(register)
    return decorate if function is None else decorate(function)
