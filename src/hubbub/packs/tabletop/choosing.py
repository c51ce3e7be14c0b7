"""Which keeper of campaigns the settings ask for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hubbub.packs.tabletop.backend import Backend
    from hubbub.packs.tabletop.settings import TabletopSettings
    from hubbub.settings import Secret


def choose_backend(settings: TabletopSettings) -> Backend:
    """One that is reached when it is first used; nothing is opened here.

    Raises: SettingsError, for a database that we cannot use.
    """
    if settings.addr is not None:
        quieten_grpc()
        from hubbub.packs.tabletop.grpc_backend import GrpcBackend

        return GrpcBackend(settings.addr, deadline_s=settings.deadline_s)
    from hubbub.packs.tabletop.store_backend import StoreBackend

    return StoreBackend(given_url(settings.database))


def quieten_grpc() -> None:
    """Before it is loaded: its core writes to stderr what we say ourselves, and better."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def given_url(database: Secret | None) -> str | None:
    """The database that is asked for, if one is.

    Raises: SettingsError, if there can be no such database.
    """
    if database is None:
        return None
    from hubbub.store.sql import read_url

    read_url(database.reveal())
    return database.reveal()
