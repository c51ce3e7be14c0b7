"""A whole campaign as one document, to archive it or to move it.

The document keeps all ids, so that references and events stay valid. An import validates it here first, because it is
untrusted input.
"""

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import UNSET

from hubbub import InvalidParams
from hubbub.packs.tabletop import checks, limits
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.model import (
    GM_CONTROL,
    Actor,
    Campaign,
    Control,
    Event,
    Participant,
    Session,
    SessionStatus,
)

if TYPE_CHECKING:
    from hubbub.pack.store import Chain

FORMAT: Final = "hubbub-tabletop-campaign"
_TIME_FIELDS: Final = ("created_at", "updated_at", "started_at", "ended_at")
_ID_PATTERN: Final = re.compile(r"(?!_$)[A-Za-z0-9_-]+")


class CampaignDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A complete campaign. Lists are in the order of creation."""

    format: Literal["hubbub-tabletop-campaign"] = FORMAT
    version: Literal[1] = 1
    campaign: Campaign
    participants: tuple[Participant, ...] = ()
    actors: tuple[Actor, ...] = ()
    controls: tuple[Control, ...] = ()
    """Who controls which actor; actors without a controller are left out."""
    sessions: tuple[Session, ...] = ()
    events: tuple[Event, ...] = ()
    """All of them, or none."""


def read_document(text: bytes) -> CampaignDocument:
    """Parse a document from its JSON.

    Raises: InvalidArgument.
    """
    try:
        return msgspec.json.decode(text, type=CampaignDocument)
    except (ValueError, RecursionError) as error:  # invalid UTF-8 raises another ValueError than DecodeError
        raise InvalidArgument(f"the document is not a campaign as campaign_export returns it: {error}") from error


def check_document(document: CampaignDocument) -> None:
    """Refuse a document that an export cannot have written.

    Raises: InvalidArgument.
    """
    campaign = document.campaign
    _check_ids("campaign", [campaign.id])
    checks.validate_name(campaign.name, "campaign name")
    checks.validate_long_text(campaign.theme_prompt, "theme prompt")
    for what, records in (
        ("participant", document.participants),
        ("actor", document.actors),
        ("session", document.sessions),
    ):
        _check_ids(what, [record.id for record in records])
    for what, member in _iterate_members(document):
        if member.campaign_id != campaign.id:
            raise InvalidArgument(
                f"a {what} of the document belongs to campaign {member.campaign_id!r}, not to {campaign.id!r}"
            )
        _check_times(what, member)
    _check_times("campaign", campaign)
    for participant in document.participants:
        checks.validate_name(participant.display_name, "display name")
        if participant.id.upper() == GM_CONTROL:
            raise InvalidArgument(f"a participant cannot have the id {participant.id!r}, which means the game master")
    for actor in document.actors:
        checks.validate_name(actor.name, "actor name")
        checks.validate_long_text(actor.notes, "notes")
    _check_controls(document)
    _check_sessions(document)
    _check_events(document)


def _iterate_members(document: CampaignDocument) -> Iterable[tuple[str, Any]]:
    for what, records in (
        ("participant", document.participants),
        ("actor", document.actors),
        ("control", document.controls),
        ("session", document.sessions),
        ("event", document.events),
    ):
        for record in records:
            yield what, record


def _check_ids(what: str, identifiers: list[str]) -> None:
    for identifier in identifiers:
        if len(identifier) > limits.MAX_ID_CHARACTERS or not _ID_PATTERN.fullmatch(identifier):
            raise InvalidArgument(f"the document has a malformed {what} id: {identifier[: limits.MAX_ID_CHARACTERS]!r}")
    if len(set(identifiers)) < len(identifiers):
        raise InvalidArgument(f"the document has two records with the same {what} id")


def _check_times(what: str, record: msgspec.Struct) -> None:
    """Refuse times that are not UTC or have fractions of seconds, because they would change when they are stored."""
    for name in _TIME_FIELDS:
        time = getattr(record, name, UNSET)
        if time is not UNSET and (time.utcoffset() != timedelta(0) or time.microsecond):
            raise InvalidArgument(f"{name} of a {what} must be in UTC and whole seconds, like 2025-01-15T10:30:00Z")


def _check_controls(document: CampaignDocument) -> None:
    actors = {actor.id for actor in document.actors}
    controllers = {GM_CONTROL, *(participant.id for participant in document.participants)}
    controlled = [control.actor_id for control in document.controls]
    if not actors.issuperset(controlled) or len(set(controlled)) < len(controlled):
        raise InvalidArgument("`controls` must name actors of the document, each at most once")
    if not controllers.issuperset(control.controller for control in document.controls):
        raise InvalidArgument("each `controller` must be GM or the id of a participant of the document")


def _check_sessions(document: CampaignDocument) -> None:
    for session in document.sessions:
        checks.validate_optional_name(session.name, "session name")
        if (session.status is SessionStatus.ENDED) != (session.ended_at is not UNSET):
            raise InvalidArgument(
                f"session {session.id}: a session has `ended_at` if its status is ENDED, and only then"
            )
    if sum(session.status is SessionStatus.ACTIVE for session in document.sessions) > 1:
        raise InvalidArgument("the document has more than one active session")


def _check_events(document: CampaignDocument) -> None:
    """Verify all hashes; otherwise the events could record changes that never happened."""
    from hubbub.pack.store import Chain  # not needed before the first import

    sessions = {None, *(session.id for session in document.sessions)}
    chain = Chain()
    for number, event in enumerate(document.events, start=1):
        checks.validate_name(event.type, "event type")
        checks.validate_event_data(event.data, limits.MAX_IMPORTED_EVENT_BYTES)
        if event.seq != number or event.session_id not in sessions or not _is_intact(chain, event):
            raise InvalidArgument(
                f"event {number} of the document was changed after it was written; export the campaign again"
            )


def _is_intact(chain: "Chain", event: Event) -> bool:
    try:
        return chain.holds(event.as_record())
    except (InvalidParams, ValueError):
        return False
