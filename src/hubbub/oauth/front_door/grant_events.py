"""What the audit journal records about grants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.oauth.front_door.records import Grant
from hubbub.protocol.calls import Principal
from hubbub.security.api_keys import PRINCIPAL_PREFIX

if TYPE_CHECKING:
    from hubbub.oauth.front_door.store import GrantInfo


def describe_created(grant: Grant) -> tuple[str, Principal, dict[str, str]]:
    """Return the event, the user and the facts of a grant that a person made."""
    given = grant.authorization
    facts = {
        "grant": grant.grant_id,
        "client_id": given.client_id,
        "client_name": given.client_name,
        "scopes": " ".join(given.scopes),
        "resource": given.resource,
    }
    return "grant.created", _principal(given.user.name, given.user.tenant), facts


def describe_ended(grant_id: str, info: GrantInfo | None) -> tuple[str, Principal, dict[str, str]]:
    """Return the event, the user and the facts of a grant that ended; `info` if more than its id is known."""
    if info is None:
        return "grant.ended", Principal(""), {"grant": grant_id}
    facts = {"grant": grant_id, "client_id": info.client_id, "scopes": " ".join(info.scopes)}
    return "grant.ended", _principal(info.user, info.tenant), facts


def _principal(name: str, tenant: str) -> Principal:
    return Principal(name, tenant=tenant, user=name.removeprefix(PRINCIPAL_PREFIX))
