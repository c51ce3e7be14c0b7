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
from hubbub.packs.tabletop.backend import every
from hubbub.packs.tabletop.failures import InvalidArgument, NotFound
from hubbub.packs.tabletop.model import Page, PageRequest
from hubbub.packs.tabletop.prompts import WITH_CAMPAIGN
from hubbub.packs.tabletop.table import (
    ACTORS,
    CAMPAIGN,
    CAMPAIGN_SCHEME,
    CAMPAIGNS,
    CONTEXT,
    PARTICIPANTS,
    SESSIONS,
    Table,
)

JSON: Final = "application/json"
INDENT: Final = 2
_ID: Final = re.compile(r"(?!_$)[A-Za-z0-9_-]+")
_NO_CHOICE: Final = {"campaign_id": None, "session_id": None, "participant_id": None}


def register(table: Table) -> None:
    """Register the resources."""
    backend, resource = table.backend, table.server.resource

    @resource(CAMPAIGNS, name="campaign_list", mime_type=JSON)
    async def campaign_list() -> str:
        """Every campaign, the oldest first."""
        return await whole_list("campaigns", backend.list_campaigns)

    @resource(CONTEXT, name="context_current", mime_type=JSON)
    async def context_current(context: Context) -> str:
        """The campaign, session and participant that you chose with set_context."""
        choice = table.contexts.find(context.scope)
        if choice is None:
            return as_text({"context": _NO_CHOICE})
        chosen = {name: getattr(choice, name) for name in _NO_CHOICE}
        return as_text({"context": {name: None if value is UNSET else value for name, value in chosen.items()}})

    @resource(CAMPAIGN, name="campaign", mime_type=JSON)
    async def campaign(campaign_id: str) -> str:
        """One campaign."""
        with _telling(f"campaign://{campaign_id}"):
            return as_text({"campaign": await backend.get_campaign(_checked(campaign_id))})

    @resource(PARTICIPANTS, name="participant_list", mime_type=JSON)
    async def participant_list(campaign_id: str) -> str:
        """Everybody who takes part in a campaign, in the order in which they joined."""
        return await _children("participants", campaign_id, backend.list_participants)

    @resource(ACTORS, name="actor_list", mime_type=JSON)
    async def actor_list(campaign_id: str) -> str:
        """Every actor of a campaign, in the order in which they were made."""
        return await _children("actors", campaign_id, backend.list_actors)

    @resource(SESSIONS, name="session_list", mime_type=JSON)
    async def session_list(campaign_id: str) -> str:
        """Every session of a campaign, the oldest first."""
        return await _children("sessions", campaign_id, backend.list_sessions)

    table.server.add_resources(Malformed())
    _register_completions(table)


def _register_completions(table: Table) -> None:
    """Register completion of `campaign_id` for the resource templates and the prompts."""

    async def campaign_ids(value: str) -> list[str]:
        """Return campaigns whose id begins with the typed text, or whose name contains it."""
        typed, found = value.strip().casefold(), list[str]()
        async for campaign in every(table.backend.list_campaigns, limits.TABLE_LARGEST_PAGE):
            if campaign.id.casefold().startswith(typed) or typed in campaign.name.casefold():
                found.append(campaign.id)
                if len(found) > limits.COMPLETION_VALUES:
                    break
        return found

    templates = (CAMPAIGN, PARTICIPANTS, ACTORS, SESSIONS)
    for reference in (*templates, *WITH_CAMPAIGN):
        table.server.completion(reference, "campaign_id")(campaign_ids)


def as_text(value: Any) -> str:
    """Format a value as the JSON text of a resource."""
    return msgspec.json.format(msgspec.json.encode(value), indent=INDENT).decode()


async def whole_list(name: str, fetch: Callable[[PageRequest], Awaitable[Page[Any]]]) -> str:
    """Return the text of `{name: [...]}`, written page by page, so that no list is in memory twice."""
    opening, _, closing = as_text({name: [0]}).encode().partition(b"0")
    gap = b"," + opening[opening.rindex(b"\n") :]
    text, token = bytearray(), ""
    while True:
        page = await fetch(PageRequest(limits.TABLE_LARGEST_PAGE, token))
        if page.items:
            # The items of one page are indented as in the complete text, so they can be copied from it.
            part = msgspec.json.format(msgspec.json.encode({name: page.items}), indent=INDENT)
            text += gap if text else opening
            text += memoryview(part)[len(opening) : -len(closing)]
        token = page.next_page_token
        if not token:
            break
    if not text:
        return as_text({name: []})
    text += closing
    return text.decode()


async def _children(name: str, campaign_id: str, fetch: Callable[[str, PageRequest], Awaitable[Page[Any]]]) -> str:
    with _telling(f"campaign://{campaign_id}/{name}"):
        return await whole_list(name, partial(fetch, _checked(campaign_id)))


def _checked(campaign_id: str) -> str:
    if len(campaign_id) > limits.TABLE_ID_CHARACTERS or not _ID.fullmatch(campaign_id):
        raise InvalidArgument("malformed campaign_id: put the id of a campaign in its place")
    return campaign_id


@contextmanager
def _telling(uri: str) -> Iterator[None]:
    """Convert failures to the errors of `resources/read`."""
    try:
        yield
    except NotFound as failure:
        raise ResourceNotFound(uri, failure.message, code=failure.word) from failure
    except InvalidArgument as failure:
        raise InvalidParams(failure.message, {"uri": uri, "code": failure.word}) from failure


class Malformed:
    """A provider without resources, which reports malformed addresses of campaigns."""

    def list_resources(self) -> Iterable[ResourceDetails]:
        return ()

    async def get_resource(self, uri: str) -> ProvidedResource | None:
        """Raise an error for an address of a campaign that matches no template."""
        if not uri.startswith(CAMPAIGN_SCHEME):
            return None
        raise InvalidParams(
            "malformed campaign_id: the address is campaign://ID, or that with /participants, /actors or /sessions",
            {"uri": uri, "code": InvalidArgument.word},
        )
