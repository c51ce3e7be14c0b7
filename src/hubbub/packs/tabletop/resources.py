"""The resources: campaigns, their participants, actors and sessions, and the caller's own context."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import UNSET

from hubbub import Context, InvalidParams, ProvidedResource, ResourceDetails, ResourceNotFound
from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.backend import iterate_all
from hubbub.packs.tabletop.failures import InvalidArgument, NotFound
from hubbub.packs.tabletop.model import Page, PageRequest
from hubbub.packs.tabletop.prompts import CAMPAIGN_PROMPTS
from hubbub.packs.tabletop.service import (
    ACTORS_URI,
    CAMPAIGN_SCHEME,
    CAMPAIGN_URI,
    CAMPAIGNS_URI,
    CONTEXT_URI,
    PARTICIPANTS_URI,
    SESSIONS_URI,
    TabletopService,
)

JSON: Final = "application/json"
INDENT: Final = 2
_ID_PATTERN: Final = re.compile(r"(?!_$)[A-Za-z0-9_-]+")
_EMPTY_CONTEXT: Final = {"campaign_id": None, "session_id": None, "participant_id": None}


def register(service: TabletopService) -> None:
    """Register the resources."""
    backend, resource = service.backend, service.server.resource

    @resource(CAMPAIGNS_URI, name="campaign_list", mime_type=JSON)
    async def campaign_list() -> str:
        """All campaigns, oldest first."""
        return await format_list("campaigns", backend.list_campaigns)

    @resource(CONTEXT_URI, name="context_current", mime_type=JSON)
    async def context_current(context: Context) -> str:
        """The campaign, session and participant that you chose with set_context."""
        choice = service.contexts.find(context.scope)
        if choice is None:
            return format_json({"context": _EMPTY_CONTEXT})
        chosen = {name: getattr(choice, name) for name in _EMPTY_CONTEXT}
        return format_json({"context": {name: None if value is UNSET else value for name, value in chosen.items()}})

    @resource(CAMPAIGN_URI, name="campaign", mime_type=JSON)
    async def campaign(campaign_id: str) -> str:
        """One campaign."""
        with _resource_errors(f"campaign://{campaign_id}"):
            return format_json({"campaign": await backend.get_campaign(_check_id(campaign_id))})

    @resource(PARTICIPANTS_URI, name="participant_list", mime_type=JSON)
    async def participant_list(campaign_id: str) -> str:
        """All participants of a campaign, in the order of creation."""
        return await _format_members("participants", campaign_id, backend.list_participants)

    @resource(ACTORS_URI, name="actor_list", mime_type=JSON)
    async def actor_list(campaign_id: str) -> str:
        """All actors of a campaign, in the order of creation."""
        return await _format_members("actors", campaign_id, backend.list_actors)

    @resource(SESSIONS_URI, name="session_list", mime_type=JSON)
    async def session_list(campaign_id: str) -> str:
        """All sessions of a campaign, oldest first."""
        return await _format_members("sessions", campaign_id, backend.list_sessions)

    service.server.add_resources(MalformedUriProvider())
    _register_completions(service)


def _register_completions(service: TabletopService) -> None:
    """Register completion of `campaign_id` for the resource templates and the prompts."""

    async def campaign_ids(value: str) -> list[str]:
        """Return campaigns whose id begins with the typed text, or whose name contains it."""
        typed, found = value.strip().casefold(), list[str]()
        async for campaign in iterate_all(service.backend.list_campaigns, limits.MAX_PAGE_SIZE):
            if campaign.id.casefold().startswith(typed) or typed in campaign.name.casefold():
                found.append(campaign.id)
                if len(found) > limits.MAX_COMPLETION_VALUES:
                    break
        return found

    templates = (CAMPAIGN_URI, PARTICIPANTS_URI, ACTORS_URI, SESSIONS_URI)
    for reference in (*templates, *CAMPAIGN_PROMPTS):
        service.server.completion(reference, "campaign_id")(campaign_ids)


def format_json(value: Any) -> str:
    """Format a value as the JSON text of a resource."""
    return msgspec.json.format(msgspec.json.encode(value), indent=INDENT).decode()


async def format_list(name: str, fetch: Callable[[PageRequest], Awaitable[Page[Any]]]) -> str:
    """Return the text of `{name: [...]}`, written page by page, so that no list is in memory twice."""
    opening, _, closing = format_json({name: [0]}).encode().partition(b"0")
    separator = b"," + opening[opening.rindex(b"\n") :]
    text, token = bytearray(), ""
    while True:
        page = await fetch(PageRequest(limits.MAX_PAGE_SIZE, token))
        if page.items:
            # The items of one page are indented as in the complete text, so they can be copied from it.
            part = msgspec.json.format(msgspec.json.encode({name: page.items}), indent=INDENT)
            text += separator if text else opening
            text += memoryview(part)[len(opening) : -len(closing)]
        token = page.next_page_token
        if not token:
            break
    if not text:
        return format_json({name: []})
    text += closing
    return text.decode()


async def _format_members(
    name: str, campaign_id: str, fetch: Callable[[str, PageRequest], Awaitable[Page[Any]]]
) -> str:
    with _resource_errors(f"campaign://{campaign_id}/{name}"):
        return await format_list(name, partial(fetch, _check_id(campaign_id)))


def _check_id(campaign_id: str) -> str:
    if len(campaign_id) > limits.MAX_ID_CHARACTERS or not _ID_PATTERN.fullmatch(campaign_id):
        raise InvalidArgument(
            f"malformed campaign_id {campaign_id[: limits.MAX_ID_CHARACTERS]!r}: replace it with the id of a campaign"
        )
    return campaign_id


@contextmanager
def _resource_errors(uri: str) -> Iterator[None]:
    """Convert failures to the errors of `resources/read`."""
    try:
        yield
    except NotFound as failure:
        raise ResourceNotFound(uri, failure.message, code=failure.status_code) from failure
    except InvalidArgument as failure:
        raise InvalidParams(failure.message, {"uri": uri, "code": failure.status_code}) from failure


class MalformedUriProvider:
    """A provider without resources, which reports malformed URIs of campaigns."""

    def list_resources(self) -> Iterable[ResourceDetails]:
        return ()

    async def get_resource(self, uri: str) -> ProvidedResource | None:
        """Raise an error for the URI of a campaign that matches no template."""
        if not uri.startswith(CAMPAIGN_SCHEME):
            return None
        raise InvalidParams(
            "malformed campaign_id: the URI must be campaign://ID, optionally with /participants, /actors or /sessions",
            {"uri": uri, "code": InvalidArgument.status_code},
        )
