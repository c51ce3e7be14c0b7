"""Detects `run` in a program that is only being imported, so that `hubbub serve` can serve what it defines.

`hubbub serve` sets this while it loads its target. `run` then refuses to start: it would serve in
the middle of an import, without the options of the command line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hubbub.errors import DefinitionError

_is_loading: ContextVar[bool] = ContextVar("is_loading", default=False)


@contextmanager
def loading() -> Iterator[None]:
    """Mark that a program is being imported while the block runs."""
    token = _is_loading.set(True)
    try:
        yield
    finally:
        _is_loading.reset(token)


def refuse_while_loading() -> None:
    """Refuse to run a server in a program that is being imported.

    Raises: DefinitionError.
    """
    if _is_loading.get():
        raise DefinitionError(
            'run() starts a server while `hubbub serve` loads this program; put it under `if __name__ == "__main__":`'
        )
