"""Whether a program is only being loaded, so that somebody else can serve what it holds.

Set where `hubbub serve` loads its target; asked by `run`, which must not start then: it
would serve in the middle of an import and know nothing of the options that were given.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hubbub.errors import DefinitionError

_is_loading: ContextVar[bool] = ContextVar("is_loading", default=False)


@contextmanager
def loading() -> Iterator[None]:
    """While a program is loaded."""
    token = _is_loading.set(True)
    try:
        yield
    finally:
        _is_loading.reset(token)


def refuse_while_loading() -> None:
    """Refuse to serve out of a program that is only being loaded.

    Raises: DefinitionError.
    """
    if _is_loading.get():
        raise DefinitionError(
            'run() starts a server while `hubbub serve` loads this program; put it under `if __name__ == "__main__":`'
        )
