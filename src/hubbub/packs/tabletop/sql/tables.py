"""The tables of the tabletop pack. The migrations in `versions` must produce the same schema."""

from pathlib import Path
from typing import Final

from hubbub.pack.store import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Database,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Schema,
    Table,
    Text,
    UniqueConstraint,
    open_database,
    position_column,
    read_url,
    select,
    text,
)

SCHEMA: Final = Schema(Path(__file__).parent, "0001", "tabletop_version")

metadata = MetaData()

campaigns = Table(
    "tabletop_campaigns",
    metadata,
    position_column(),
    Column("id", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("gm_mode", Text, nullable=False),
    Column("theme_prompt", Text, nullable=False),
    Column("participant_count", Integer, nullable=False),
    Column("actor_count", Integer, nullable=False),
    Column("event_count", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),  # hash of the last event: reveals a truncated chain
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)

participants = Table(
    "tabletop_participants",
    metadata,
    position_column(),
    Column("id", Text, nullable=False, unique=True),
    Column("campaign_id", Text, ForeignKey("tabletop_campaigns.id"), nullable=False),
    Column("display_name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("controller", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("campaign_id", "id", name="tabletop_participants_of_campaign"),
    Index("tabletop_participants_in_order", "campaign_id", "position"),
    sqlite_autoincrement=True,
)

actors = Table(
    "tabletop_actors",
    metadata,
    position_column(),
    Column("id", Text, nullable=False, unique=True),
    Column("campaign_id", Text, ForeignKey("tabletop_campaigns.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("notes", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("campaign_id", "id", name="tabletop_actors_of_campaign"),
    Index("tabletop_actors_in_order", "campaign_id", "position"),
    sqlite_autoincrement=True,
)

controls = Table(
    "tabletop_controls",
    metadata,
    Column("actor_id", Text, primary_key=True),
    Column("campaign_id", Text, nullable=False),
    Column("is_gm", Integer, nullable=False),
    Column("participant_id", Text),
    CheckConstraint("(is_gm = 1) = (participant_id IS NULL)", name="tabletop_controls_by_one"),
    ForeignKeyConstraint(
        ["campaign_id", "actor_id"], ["tabletop_actors.campaign_id", "tabletop_actors.id"], ondelete="CASCADE"
    ),
    ForeignKeyConstraint(
        ["campaign_id", "participant_id"],
        ["tabletop_participants.campaign_id", "tabletop_participants.id"],
        ondelete="CASCADE",
    ),
    Index("tabletop_controls_of_participant", "participant_id"),
)

sessions = Table(
    "tabletop_sessions",
    metadata,
    position_column(),
    Column("id", Text, nullable=False, unique=True),
    Column("campaign_id", Text, ForeignKey("tabletop_campaigns.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Index("tabletop_sessions_in_order", "campaign_id", "position"),
    Index(
        "tabletop_sessions_one_active",
        "campaign_id",
        unique=True,
        sqlite_where=text("status = 'ACTIVE'"),
        postgresql_where=text("status = 'ACTIVE'"),
    ),
    sqlite_autoincrement=True,
)

events = Table(
    "tabletop_events",
    metadata,
    Column("campaign_id", Text, ForeignKey("tabletop_campaigns.id"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    Column("session_id", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("data", Text, nullable=False),
    Column("previous_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
    PrimaryKeyConstraint("campaign_id", "seq"),
    Index("tabletop_events_of_session", "campaign_id", "session_id", "seq"),
)


async def open_tables(url: str) -> Database:
    """Open the database and apply missing migrations.

    Raises: StoreFailed, or SettingsError for an invalid URL.
    """
    return await open_database(read_url(url), SCHEMA)


def check_readable(connection: Connection) -> None:
    """Check that the tables can be read."""
    connection.execute(select(campaigns.c.id).limit(1)).first()


def check_writable(connection: Connection) -> None:
    """Check that the database can be written, without changing it."""
    connection.execute(text(f"UPDATE {SCHEMA.version_table} SET version_num = version_num"))
