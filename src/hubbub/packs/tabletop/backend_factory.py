"""Choose the campaign backend by the settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hubbub import SettingsError

if TYPE_CHECKING:
    from hubbub import Secret
    from hubbub.packs.tabletop.backend import Backend
    from hubbub.packs.tabletop.rpc import ClientTls
    from hubbub.packs.tabletop.settings import TabletopSettings


def choose_backend(settings: TabletopSettings) -> Backend:
    """Return a backend that connects when it is first used; nothing is opened here.

    Raises: SettingsError, for an unsupported database.
    """
    if settings.addr is not None:
        silence_grpc()
        from hubbub.packs.tabletop.grpc_backend import GrpcBackend

        return GrpcBackend(
            settings.addr, deadline_s=settings.deadline_s, token=read_token(settings), tls=_make_tls(settings)
        )
    from hubbub.packs.tabletop.store_backend import StoreBackend

    return StoreBackend(read_database_url(settings.database))


def read_token(settings: TabletopSettings) -> str | None:
    """Return the token of the campaign server, if one is set.

    Raises: SettingsError, if gRPC metadata cannot contain it.
    """
    if settings.token is None:
        return None
    token = settings.token.reveal()
    if not token.isascii() or not token.isprintable():
        raise SettingsError("HUBBUB_TABLETOP_TOKEN must be printable ASCII; make one with `openssl rand -hex 32`")
    return token


def _make_tls(settings: TabletopSettings) -> ClientTls | None:
    from hubbub.packs.tabletop.rpc import ClientTls

    if settings.ca_file is not None:
        return ClientTls(read_pem(settings.ca_file, "ca_file"))
    return ClientTls() if settings.tls else None


def read_pem(path: str, name: str) -> bytes:
    """Read a certificate or key file; `name` is the setting or flag that names it.

    Raises: SettingsError.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SettingsError(f"{name}: the file {path!r} cannot be read: {error.strerror}") from error


def silence_grpc() -> None:
    """Silence gRPC's core before it is loaded: it writes to stderr what Hubbub's own messages report."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def read_database_url(database: Secret | None) -> str | None:
    """Return the URL of the configured database; None if none is configured.

    Raises: SettingsError, if the URL is invalid.
    """
    if database is None:
        return None
    from hubbub.pack.store import read_url

    read_url(database.reveal())
    return database.reveal()
