"""Campaigns in a database: tables, and transactions as plain functions of a connection.

Only `hubbub.packs.tabletop.store_backend` runs them. Each module, and SQLAlchemy with the first, is loaded when it is
first used: most server processes never need them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hubbub.packs.tabletop.sql import actors, campaigns, events, participants, sessions, tables, transfer

__all__ = ["actors", "campaigns", "events", "participants", "sessions", "tables", "transfer"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
