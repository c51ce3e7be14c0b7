"""Finds the server of a resource, by its URI as a caller sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hubbub.hub.config import HUB_ID
from hubbub.hub.subscriptions import ResourceLocation
from hubbub.protocol.calls import Caller

if TYPE_CHECKING:
    from hubbub.hub.front import Front

_HUB_SCHEME: Final = "hub://"


def find_location(front: Front, uri: str, caller: Caller | None) -> ResourceLocation | None:
    """Find the upstream of a resource that is listed, fits a template, or has the prefix of a server.

    The policy has decided about the resource itself only if it is listed.
    """
    shown = front.view_for(caller)
    item = front.find_shared_name(shown.catalog.resources, uri, caller)
    if item is None or not shown.shows_resource(item):
        item = shown.resources.get(uri)
    if item is not None and front.permits(item, caller):
        return ResourceLocation(item.server, item.upstream_name)
    resolved = shown.catalog.resolve_uri(uri)
    for item in shown.templates.values():
        if item.template is None:
            continue
        upstream_uri = uri
        if item.name != item.upstream_name:
            if resolved is not None and resolved[0] == item.server:
                upstream_uri = resolved[1]
            elif front.find_shared_name(shown.catalog.templates, item.upstream_name, caller) is not item:
                continue
        if item.template.match(upstream_uri) is not None and front.permits(item, caller):
            return ResourceLocation(item.server, upstream_uri)
    if resolved is not None and shown.has_server(resolved[0]) and not _is_hidden(front, *resolved, caller):
        return ResourceLocation(*resolved)
    return None


def is_hub_resource(front: Front, uri: str) -> bool:
    """Whether a URI names a resource of the hub itself."""
    return uri.startswith(_HUB_SCHEME) and front.resources.find(uri) is not None


def may_watch(front: Front, uri: str, caller: Caller) -> bool:
    """Whether a caller may subscribe to a resource."""
    if is_hub_resource(front, uri):
        return front.permits_resource(HUB_ID, uri, caller)
    if front.locate_resource(uri, caller) is not None:
        return True
    return front.hub.governor is None and front.locate_resource(uri) is None


def _is_hidden(front: Front, server: str, uri: str, caller: Caller | None) -> bool:
    """Whether a server has a resource that this caller must not see."""
    if front.withholds_uri(server, uri):
        return True
    catalog, governor = front.hub.catalog, front.hub.governor
    if caller is None or (not catalog.scopes and governor is None):
        return False
    return any(
        item.server == server
        and not (caller.holds(item.scopes) and front.permits(item, caller))
        and (item.upstream_name == uri or (item.template is not None and item.template.match(uri) is not None))
        for part in (catalog.resources, catalog.templates)
        for item in part.listed.values()
    )
