"""Values as messages and messages as values. Words that a message leaves out or makes up are refused."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import UNSET

from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.model import (
    GM_CONTROL,
    Actor,
    ActorKind,
    Campaign,
    Controller,
    Event,
    GmMode,
    Participant,
    Role,
    Scene,
    Session,
    SessionStatus,
)
from hubbub.packs.tabletop.wire import campaign_pb2, duality_pb2, session_pb2

W = TypeVar("W", bound=StrEnum)
CONTROLLER_PREFIX = "CONTROLLER_"


def number_of(enum: Any, word: StrEnum, prefix: str = "") -> Any:
    """The number that a word has on the wire."""
    return enum.Value(prefix + word.value)


def word_of(kind: type[W], enum: Any, number: int, what: str, prefix: str = "") -> W:
    """The word of a number."""
    name = enum.Name(number) if number in enum.values() else ""
    try:
        return kind(name.removeprefix(prefix))
    except ValueError:
        raise InvalidArgument(f"{what} is required; it is one of {', '.join(kind)}") from None


def _to_time(at: datetime) -> Timestamp:
    return Timestamp(seconds=int(at.timestamp()))


def _from_time(at: Timestamp) -> datetime:
    return datetime.fromtimestamp(at.seconds, UTC)


def to_campaign(campaign: Campaign) -> campaign_pb2.Campaign:
    """A campaign as a message."""
    return campaign_pb2.Campaign(
        id=campaign.id,
        name=campaign.name,
        gm_mode=number_of(campaign_pb2.GmMode, campaign.gm_mode),
        participant_count=campaign.participant_count,
        actor_count=campaign.actor_count,
        theme_prompt=campaign.theme_prompt,
        created_at=_to_time(campaign.created_at),
        updated_at=_to_time(campaign.updated_at),
    )


def from_campaign(message: campaign_pb2.Campaign) -> Campaign:
    """The campaign of a message."""
    return Campaign(
        id=message.id,
        name=message.name,
        gm_mode=word_of(GmMode, campaign_pb2.GmMode, message.gm_mode, "gm mode"),
        participant_count=message.participant_count,
        actor_count=message.actor_count,
        theme_prompt=message.theme_prompt,
        created_at=_from_time(message.created_at),
        updated_at=_from_time(message.updated_at),
    )


def to_participant(participant: Participant) -> campaign_pb2.Participant:
    """A participant as a message."""
    return campaign_pb2.Participant(
        id=participant.id,
        campaign_id=participant.campaign_id,
        display_name=participant.display_name,
        role=number_of(campaign_pb2.ParticipantRole, participant.role),
        controller=number_of(campaign_pb2.Controller, participant.controller, CONTROLLER_PREFIX),
        created_at=_to_time(participant.created_at),
        updated_at=_to_time(participant.updated_at),
    )


def from_participant(message: campaign_pb2.Participant) -> Participant:
    """The participant of a message."""
    return Participant(
        id=message.id,
        campaign_id=message.campaign_id,
        display_name=message.display_name,
        role=word_of(Role, campaign_pb2.ParticipantRole, message.role, "role"),
        controller=word_of(Controller, campaign_pb2.Controller, message.controller, "controller", CONTROLLER_PREFIX),
        created_at=_from_time(message.created_at),
        updated_at=_from_time(message.updated_at),
    )


def to_actor(actor: Actor) -> campaign_pb2.Actor:
    """An actor as a message."""
    return campaign_pb2.Actor(
        id=actor.id,
        campaign_id=actor.campaign_id,
        name=actor.name,
        kind=number_of(campaign_pb2.ActorKind, actor.kind),
        notes=actor.notes,
        created_at=_to_time(actor.created_at),
        updated_at=_to_time(actor.updated_at),
    )


def from_actor(message: campaign_pb2.Actor) -> Actor:
    """The actor of a message."""
    return Actor(
        id=message.id,
        campaign_id=message.campaign_id,
        name=message.name,
        kind=word_of(ActorKind, campaign_pb2.ActorKind, message.kind, "actor kind"),
        notes=message.notes,
        created_at=_from_time(message.created_at),
        updated_at=_from_time(message.updated_at),
    )


def to_controller(controller: str | None) -> campaign_pb2.ActorController | None:
    """Who controls an actor, as a message."""
    if controller is None:
        return None
    if controller.strip().upper() == GM_CONTROL:
        return campaign_pb2.ActorController(gm=campaign_pb2.GmController())
    participant = campaign_pb2.ParticipantController(participant_id=controller)
    return campaign_pb2.ActorController(participant=participant)


def from_controller(message: campaign_pb2.ActorController) -> str:
    """Who controls an actor; empty if the message names nobody."""
    which = message.WhichOneof("controller")
    if which == "gm":
        return GM_CONTROL
    return message.participant.participant_id if which == "participant" else ""


def to_session(session: Session) -> session_pb2.Session:
    """A session as a message."""
    return session_pb2.Session(
        id=session.id,
        campaign_id=session.campaign_id,
        name=session.name,
        status=number_of(session_pb2.SessionStatus, session.status),
        started_at=_to_time(session.started_at),
        updated_at=_to_time(session.updated_at),
        ended_at=None if session.ended_at is UNSET else _to_time(session.ended_at),
    )


def from_session(message: session_pb2.Session) -> Session:
    """The session of a message."""
    return Session(
        id=message.id,
        campaign_id=message.campaign_id,
        name=message.name,
        status=word_of(SessionStatus, session_pb2.SessionStatus, message.status, "status"),
        started_at=_from_time(message.started_at),
        updated_at=_from_time(message.updated_at),
        ended_at=_from_time(message.ended_at) if message.HasField("ended_at") else UNSET,
    )


def to_event(event: Event) -> session_pb2.Event:
    """An event as a message."""
    return session_pb2.Event(
        campaign_id=event.campaign_id,
        seq=event.seq,
        type=event.type,
        session_id=event.session_id,
        created_at=_to_time(event.created_at),
        data_json=msgspec.json.encode(event.data),
        previous_hash=event.previous_hash,
        hash=event.hash,
    )


def from_event(message: session_pb2.Event) -> Event:
    """The event of a message."""
    return Event(
        campaign_id=message.campaign_id,
        seq=message.seq,
        type=message.type,
        session_id=given(message, "session_id"),
        created_at=_from_time(message.created_at),
        data=from_json(message.data_json),
        previous_hash=message.previous_hash,
        hash=message.hash,
    )


def from_json(data: bytes) -> dict[str, Any]:
    """An object of a message that is JSON in there."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidArgument(f"event data must be a JSON object: {error}") from error


def from_scene(message: session_pb2.Scene | duality_pb2.Scene) -> Scene:
    """The scene of a message."""
    return Scene(
        campaign_id=message.campaign_id,
        session_id=given(message, "session_id"),
        actor_id=given(message, "actor_id"),
    )


def given(message: Any, field: str) -> Any:
    """The value of an optional field; None if it was left out."""
    return getattr(message, field) if message.HasField(field) else None
