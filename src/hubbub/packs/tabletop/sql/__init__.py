"""Campaigns in a database: tables, and the transactions on them as plain functions of a connection.

`hubbub.packs.tabletop.store_backend` runs them; nobody else does. Each module, and SQLAlchemy
with the first, is loaded when it is first used: most starts of a server never need them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hubbub.packs.tabletop.sql import actors, campaigns, events, opening, sessions, transfer

__all__ = ["actors", "campaigns", "events", "opening", "sessions", "transfer"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
