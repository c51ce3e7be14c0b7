"""Stores the server that a database of `[oauth]` belongs to, so that no other server uses what it stores.

That is grants, and upstream logins. Several processes of one server have the same public URL, and share the database. A
hub without a public URL is identified by the path of its settings file.
"""

from pathlib import Path
from typing import Final

from hubbub.errors import SettingsError
from hubbub.store.sql import Column, Connection, MetaData, Schema, Table, Text, open_database, read_url, select, text

SCHEMA: Final = Schema(Path(__file__).parent, "0001", "oauth_owner_version")
_DATABASE: Final = "database"

metadata = MetaData()
owner = Table(
    "oauth_owner",
    metadata,
    Column("subject", Text, primary_key=True),  # only `database`
    Column("public_url", Text, nullable=False),
)
_CLAIM: Final = text(
    "INSERT INTO oauth_owner (subject, public_url) VALUES (:subject, :public_url) ON CONFLICT (subject) DO NOTHING"
)


async def claim_database(url: str, public_url: str) -> None:
    """Note that a database belongs to the server with this public URL.

    Raises: SettingsError, if it belongs to another one; StoreFailed.
    """
    database = await open_database(read_url(url), SCHEMA)
    try:
        found = await database.write(lambda connection: _claim(connection, public_url.rstrip("/")))
    finally:
        await database.close()
    if found != public_url.rstrip("/"):
        raise SettingsError(
            f"the database of [oauth] belongs to the server at {found}, not to {public_url}, which may have other "
            "users. Set another `database`; if this server was moved from there, delete the row of the table "
            "oauth_owner"
        )


def _claim(connection: Connection, public_url: str) -> str:
    connection.execute(_CLAIM, {"subject": _DATABASE, "public_url": public_url})
    return str(connection.execute(select(owner.c.public_url)).scalar_one())
