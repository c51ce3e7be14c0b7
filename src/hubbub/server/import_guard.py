"""Detects `run` in a program that is only being imported, so that `hubbub serve` can serve what it defines.

`hubbub serve` sets this while it loads its target. `run` then refuses to start: it would serve in
the middle of an import, without the options of the command line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hubbub.errors import DefinitionError

_is_importing: ContextVar[bool] = ContextVar("is_loading", default=False)


@contextmanager
def importing_program() -> Iterator[None]:
    """Mark that a program is being imported while the block runs."""
    token = _is_importing.set(True)
    try:
        yield
    finally:
        _is_importing.reset(token)


def refuse_during_import() -> None:
    """Refuse to run a server in a program that is being imported.

    Raises: DefinitionError.
    """
    if _is_importing.get():
        raise DefinitionError(
            '`hubbub serve` imports this program, and it calls run(); move the call under `if __name__ == "__main__":`'
        )
