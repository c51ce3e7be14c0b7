"""Data types of campaigns, in the form that callers see.

Times are UTC with whole seconds, so that their JSON is as the contract shows.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Generic, Self, TypeVar

import msgspec

T = TypeVar("T")

GM_CONTROL: Final = "GM"
"""The controller of an actor that no participant controls."""


class CaseInsensitiveEnum(StrEnum):
    """An enum of upper-case words, which callers may write in any case and with surrounding spaces."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        """Find the word for a string; msgspec calls this too."""
        word = value.strip().upper() if isinstance(value, str) else ""
        return cls(word) if word in cls.__members__ else None


class GmMode(CaseInsensitiveEnum):
    """Whether the game master is a person, an AI, or both."""

    HUMAN = "HUMAN"
    AI = "AI"
    HYBRID = "HYBRID"


class Role(CaseInsensitiveEnum):
    """Role of a participant."""

    GM = "GM"
    PLAYER = "PLAYER"


class Controller(CaseInsensitiveEnum):
    """Whether a participant is a person or an AI."""

    HUMAN = "HUMAN"
    AI = "AI"


class ActorKind(CaseInsensitiveEnum):
    """Player character or non-player character."""

    PC = "PC"
    NPC = "NPC"


class SessionStatus(CaseInsensitiveEnum):
    """Status of a session. At most one session of a campaign is ACTIVE."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    ENDED = "ENDED"


class Campaign(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A story that is played over many sessions."""

    id: str
    name: str
    gm_mode: GmMode
    participant_count: int
    actor_count: int
    theme_prompt: str
    created_at: datetime
    updated_at: datetime


class Participant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A game master or player of a campaign."""

    id: str
    campaign_id: str
    display_name: str
    role: Role
    controller: Controller
    created_at: datetime
    updated_at: datetime


class Actor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A character of the story."""

    id: str
    campaign_id: str
    name: str
    kind: ActorKind
    notes: str
    created_at: datetime
    updated_at: datetime


class Control(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who controls an actor by default: a participant's id, "GM", or null if that was never set."""

    campaign_id: str
    actor_id: str
    controller: str | None


class Session(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One session of play; it has `ended_at` only if it has ended."""

    id: str
    campaign_id: str
    name: str
    status: SessionStatus
    started_at: datetime
    updated_at: datetime
    ended_at: datetime | msgspec.UnsetType = msgspec.UNSET


class Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that happened in a campaign. `hash` covers all other fields, including `previous_hash`."""

    campaign_id: str
    seq: int
    """From 1, without gaps."""
    type: str
    session_id: str | None
    created_at: datetime
    data: dict[str, Any]
    previous_hash: str
    hash: str

    def as_record(self) -> dict[str, Any]:
        """Return the event as callers see it, which is also the input of its hash."""
        return {**msgspec.structs.asdict(self), "created_at": self.created_at.isoformat().replace("+00:00", "Z")}


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Part of a list, in the order of creation."""

    items: tuple[T, ...]
    next_page_token: str = ""
    """Token of the next page; empty on the last page."""


class PageRequest(msgspec.Struct, frozen=True):
    """A request for part of a list."""

    size: int = 0
    """0 for the default size; larger sizes than the maximum are clamped."""
    token: str = ""


FIRST_PAGE: Final = PageRequest()


class ParticipantChange(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a participant; fields that are None stay unchanged."""

    display_name: str | None = None
    role: Role | None = None
    controller: Controller | None = None


class ActorChange(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of an actor; fields that are None stay unchanged."""

    name: str | None = None
    kind: ActorKind | None = None
    notes: str | None = None


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Where in a campaign something happens, so that it is written to the campaign's events."""

    campaign_id: str
    session_id: str | None = None
    """The session must be ACTIVE."""
    actor_id: str | None = None
