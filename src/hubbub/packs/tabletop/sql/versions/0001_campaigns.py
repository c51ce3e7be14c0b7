"""Campaigns, participants, actors, sessions, events."""

from hubbub.pack.store import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    op,
    position_column,
    text,
)

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "tabletop_campaigns",
        position_column(),
        Column("id", Text, nullable=False, unique=True),
        Column("name", Text, nullable=False),
        Column("gm_mode", Text, nullable=False),
        Column("theme_prompt", Text, nullable=False),
        Column("participant_count", Integer, nullable=False),
        Column("actor_count", Integer, nullable=False),
        Column("event_count", BigInteger, nullable=False),
        Column("event_hash", Text, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    _create_participants_and_actors()
    _create_controls()
    _create_sessions()
    _create_events()


def _create_participants_and_actors() -> None:
    own = {
        "participants": [
            Column("display_name", Text, nullable=False),
            Column("role", Text, nullable=False),
            Column("controller", Text, nullable=False),
        ],
        "actors": [
            Column("name", Text, nullable=False),
            Column("kind", Text, nullable=False),
            Column("notes", Text, nullable=False),
        ],
    }
    for name, columns in own.items():
        op.create_table(
            f"tabletop_{name}",
            position_column(),
            Column("id", Text, nullable=False, unique=True),
            Column("campaign_id", Text, ForeignKey("tabletop_campaigns.id"), nullable=False),
            *columns,
            Column("created_at", BigInteger, nullable=False),
            Column("updated_at", BigInteger, nullable=False),
            UniqueConstraint("campaign_id", "id", name=f"tabletop_{name}_of_campaign"),
            sqlite_autoincrement=True,
        )
        op.create_index(f"tabletop_{name}_in_order", f"tabletop_{name}", ["campaign_id", "position"])


def _create_controls() -> None:
    op.create_table(
        "tabletop_controls",
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
    )
    op.create_index("tabletop_controls_of_participant", "tabletop_controls", ["participant_id"])


def _create_sessions() -> None:
    op.create_table(
        "tabletop_sessions",
        position_column(),
        Column("id", Text, nullable=False, unique=True),
        Column("campaign_id", Text, ForeignKey("tabletop_campaigns.id"), nullable=False),
        Column("name", Text, nullable=False),
        Column("status", Text, nullable=False),
        Column("started_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        Column("ended_at", BigInteger),
        sqlite_autoincrement=True,
    )
    op.create_index("tabletop_sessions_in_order", "tabletop_sessions", ["campaign_id", "position"])
    is_active = text("status = 'ACTIVE'")
    op.create_index(
        "tabletop_sessions_one_active",
        "tabletop_sessions",
        ["campaign_id"],
        unique=True,
        sqlite_where=is_active,
        postgresql_where=is_active,
    )


def _create_events() -> None:
    op.create_table(
        "tabletop_events",
        Column("campaign_id", Text, ForeignKey("tabletop_campaigns.id"), nullable=False),
        Column("seq", BigInteger, nullable=False),
        Column("type", Text, nullable=False),
        Column("session_id", Text),
        Column("created_at", BigInteger, nullable=False),
        Column("data", Text, nullable=False),
        Column("previous_hash", Text, nullable=False),
        Column("hash", Text, nullable=False),
        PrimaryKeyConstraint("campaign_id", "seq"),
    )
    op.create_index("tabletop_events_of_session", "tabletop_events", ["campaign_id", "session_id", "seq"])
