"""What can be read: campaigns, who and what is in them, and the caller's own context."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from msgspec import UNSET

from hubbub import Context, ProvidedResource, ResourceDetails, bounds
from hubbub.errors import InvalidParams, ResourceNotFound
from hubbub.packs.tabletop import addresses
from hubbub.packs.tabletop.failures import InvalidArgument, NotFound
from hubbub.packs.tabletop.listing import as_text, whole_list
from hubbub.packs.tabletop.model import Page, PageRequest
from hubbub.packs.tabletop.table import Table

JSON: Final = "application/json"
_ID: Final = re.compile(r"(?!_$)[A-Za-z0-9_-]+")
_NO_CHOICE: Final = {"campaign_id": None, "session_id": None, "participant_id": None}


def register(table: Table) -> None:
    """Put the resources on the server."""
    backend, resource = table.backend, table.server.resource

    @resource(addresses.CAMPAIGNS, name="campaign_list", mime_type=JSON)
    async def campaign_list() -> str:
        """Every campaign, the oldest first."""
        return await whole_list("campaigns", backend.list_campaigns)

    @resource(addresses.CONTEXT, name="context_current", mime_type=JSON)
    async def context_current(context: Context) -> str:
        """The campaign, session and participant that you chose with set_context."""
        choice = table.contexts.find(context.scope)
        if choice is None:
            return as_text({"context": _NO_CHOICE})
        chosen = {name: getattr(choice, name) for name in _NO_CHOICE}
        return as_text({"context": {name: None if value is UNSET else value for name, value in chosen.items()}})

    @resource(addresses.CAMPAIGN, name="campaign", mime_type=JSON)
    async def campaign(campaign_id: str) -> str:
        """One campaign."""
        with _telling(f"campaign://{campaign_id}"):
            return as_text({"campaign": await backend.get_campaign(_checked(campaign_id))})

    @resource(addresses.PARTICIPANTS, name="participant_list", mime_type=JSON)
    async def participant_list(campaign_id: str) -> str:
        """Everybody who takes part in a campaign, in the order in which they joined."""
        return await _children("participants", campaign_id, backend.list_participants)

    @resource(addresses.ACTORS, name="actor_list", mime_type=JSON)
    async def actor_list(campaign_id: str) -> str:
        """Every actor of a campaign, in the order in which they were made."""
        return await _children("actors", campaign_id, backend.list_actors)

    @resource(addresses.SESSIONS, name="session_list", mime_type=JSON)
    async def session_list(campaign_id: str) -> str:
        """Every session of a campaign, the oldest first."""
        return await _children("sessions", campaign_id, backend.list_sessions)

    table.server.add_resources(Malformed())


async def _children(name: str, campaign_id: str, fetch: Callable[[str, PageRequest], Awaitable[Page[Any]]]) -> str:
    with _telling(f"campaign://{campaign_id}/{name}"):
        return await whole_list(name, partial(fetch, _checked(campaign_id)))


def _checked(campaign_id: str) -> str:
    if len(campaign_id) > bounds.TABLE_ID_CHARACTERS or not _ID.fullmatch(campaign_id):
        raise InvalidArgument("malformed campaign_id: put the id of a campaign in its place")
    return campaign_id


@contextmanager
def _telling(uri: str) -> Iterator[None]:
    """What went wrong, as the errors that readers of resources know."""
    try:
        yield
    except NotFound as failure:
        raise ResourceNotFound(uri, failure.message, code=failure.word) from failure
    except InvalidArgument as failure:
        raise InvalidParams(failure.message, {"uri": uri, "code": failure.word}) from failure


class Malformed:
    """Nothing to read; says what is wrong with addresses of campaigns that fit no template."""

    def list_resources(self) -> Iterable[ResourceDetails]:
        """Nothing."""
        return ()

    async def get_resource(self, uri: str) -> ProvidedResource | None:
        """Nothing, or an error."""
        if not uri.startswith(addresses.CAMPAIGN_SCHEME):
            return None
        raise InvalidParams(
            "malformed campaign_id: the address is campaign://ID, or that with /participants, /actors or /sessions",
            {"uri": uri, "code": InvalidArgument.word},
        )
