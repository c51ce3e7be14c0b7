"""What a keeper of campaigns knows about: values only, as they are told to callers.

Times are UTC and have whole seconds, so that their JSON is what the contract shows.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

import msgspec

T = TypeVar("T")

GM_CONTROL: Final = "GM"
"""The controller of an actor that no participant controls."""


class GmMode(StrEnum):
    """Who is the game master."""

    HUMAN = "HUMAN"
    AI = "AI"
    HYBRID = "HYBRID"


class Role(StrEnum):
    """What a participant does at the table."""

    GM = "GM"
    PLAYER = "PLAYER"


class Controller(StrEnum):
    """Who is behind a participant."""

    HUMAN = "HUMAN"
    AI = "AI"


class ActorKind(StrEnum):
    """Whether an actor is played by a player."""

    PC = "PC"
    NPC = "NPC"


class SessionStatus(StrEnum):
    """How far a session has come. At most one of a campaign is ACTIVE."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    ENDED = "ENDED"


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """A story that is played over many sessions."""

    id: str
    name: str
    gm_mode: GmMode
    participant_count: int
    actor_count: int
    theme_prompt: str
    created_at: datetime
    updated_at: datetime


class Participant(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody at the table."""

    id: str
    campaign_id: str
    display_name: str
    role: Role
    controller: Controller
    created_at: datetime
    updated_at: datetime


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """A character of the story."""

    id: str
    campaign_id: str
    name: str
    kind: ActorKind
    notes: str
    created_at: datetime
    updated_at: datetime


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """Who controls an actor by default: a participant's id, "GM", or nobody was named yet."""

    campaign_id: str
    actor_id: str
    controller: str | None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One evening of a campaign; `ended_at` only once it has ended."""

    id: str
    campaign_id: str
    name: str
    status: SessionStatus
    started_at: datetime
    updated_at: datetime
    ended_at: datetime | msgspec.UnsetType = msgspec.UNSET


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened in a campaign. `hash` covers all the rest, `previous_hash` included."""

    campaign_id: str
    seq: int
    """From 1, without gaps."""
    type: str
    session_id: str | None
    created_at: datetime
    data: dict[str, Any]
    previous_hash: str
    hash: str

    def told(self) -> dict[str, Any]:
        """The event as callers see it, which is what its hash is of."""
        return {**msgspec.structs.asdict(self), "created_at": self.created_at.isoformat().replace("+00:00", "Z")}


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list, in the order in which things were made."""

    items: tuple[T, ...]
    next_page_token: str = ""
    """Gives the next page; empty on the last."""


class PageRequest(msgspec.Struct, frozen=True):
    """Which part of a list is wanted."""

    size: int = 0
    """0 for the usual size; more than the largest is the largest."""
    token: str = ""


FIRST_PAGE: Final = PageRequest()


class ParticipantChange(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes different about a participant; None stays as it is."""

    display_name: str | None = None
    role: Role | None = None
    controller: Controller | None = None


class ActorChange(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes different about an actor; None stays as it is."""

    name: str | None = None
    kind: ActorKind | None = None
    notes: str | None = None


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Where in the story something happens, so that it is written to the campaign's events."""

    campaign_id: str
    session_id: str | None = None
    """It must be ACTIVE."""
    actor_id: str | None = None
