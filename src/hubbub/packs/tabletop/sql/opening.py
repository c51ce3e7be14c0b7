"""The database of the tabletop pack, opened and looked at."""

from __future__ import annotations

from hubbub.packs.tabletop.sql.tables import SCHEMA, campaigns
from hubbub.store.sql import Connection, Database, open_database, read_url, select


async def open_tables(url: str) -> Database:
    """Open it, with all tables up to date.

    Raises: StoreFailed, or SettingsError if there can be no such database.
    """
    return await open_database(read_url(url), SCHEMA)


def look(connection: Connection) -> None:
    """See whether the tables can be read."""
    connection.execute(select(campaigns.c.id).limit(1)).first()
