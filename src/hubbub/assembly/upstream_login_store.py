"""Chooses where a hub stores upstream logins: in the database of `[oauth]`, or in the encrypted file.

A database belongs to one hub. The file belongs to the person who runs the hub, and several hubs may use it, so it names
the hub of each user. A hub is identified by its public URL, or else by its settings file.
"""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path

from msgspec.structs import replace

from hubbub.client.config import ServerConfig
from hubbub.errors import PackUnavailable
from hubbub.oauth.client.credential_store import FileCredentialStore
from hubbub.oauth.client.credentials import CredentialStore
from hubbub.oauth.client.separate_users import SeparateUserStore
from hubbub.oauth.client.settings import OAuth
from hubbub.security.sealer import make_sealer
from hubbub.settings.oauth import read_oauth
from hubbub.settings.serve import ServeSettings
from hubbub.settings.sources import Sources


def choose_store(config: ServerConfig, settings: ServeSettings, sources: Sources) -> ServerConfig:
    """Store the upstream logins of a server in the database of `[oauth]`, or else separately from those of other hubs.

    Raises:
        SettingsError: the URL of the database is wrong.
        PackUnavailable: its libraries are not installed.
    """
    oauth = read_oauth(sources)
    if not isinstance(config.auth, OAuth):
        return config
    hub = ("" if oauth is None else oauth.public_url) or str(Path(sources.config or "").resolve())
    store = (
        _open_file(hub)
        if oauth is None or oauth.database is None
        else _open_store(oauth.database, hub, settings.sealing_key_file)
    )
    return replace(config, auth=replace(config.auth, store=store))


@lru_cache(maxsize=4)
def _open_file(hub: str) -> CredentialStore:
    return SeparateUserStore(FileCredentialStore(), hub)


@lru_cache(maxsize=4)
def _open_store(url: str, hub: str, sealing_key_file: str | None) -> CredentialStore:
    """Return the same store for the same settings, so that a reload does not replace it."""
    try:
        from hubbub.oauth.client.sql_store import SqlCredentialStore
        from hubbub.oauth.front_door.owner import claim_database
    except ImportError as error:
        raise PackUnavailable(
            f"[oauth] database needs libraries that are not installed ({error.name}); "
            "install them with: pip install 'hubbub[oauth]'"
        ) from None
    return SqlCredentialStore(url, make_sealer(sealing_key_file), check_owner=partial(claim_database, url, hub))
