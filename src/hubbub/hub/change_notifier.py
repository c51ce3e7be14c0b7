"""Notifies the clients of a hub of changed lists, resources and states, if the policy shows them what has changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Final

from hubbub import bounds
from hubbub.client.subscriptions import ChangeEvent
from hubbub.governance.decision import Target
from hubbub.hub.catalog import Catalog, Item
from hubbub.hub.config import STATUS_URI
from hubbub.hub.subscriptions import ResourceLocation
from hubbub.protocol.calls import Caller, Notification
from hubbub.protocol.results import UpdatedParams
from hubbub.server.subscriptions import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED

if TYPE_CHECKING:
    from hubbub.hub.front import Front
    from hubbub.hub.gateway import Gateway

LIST_CHANGES: Final = {"tools": TOOLS_CHANGED, "prompts": PROMPTS_CHANGED, "resources": RESOURCES_CHANGED}


class ChangeNotifier:
    """Publishes the notifications of one hub at its fronts."""

    def __init__(self, hub: Gateway) -> None:
        self._hub = hub
        self._listed_servers: OrderedDict[tuple[str, Hashable], frozenset[str]] = OrderedDict()
        """The servers whose items a view last listed to a group of callers. The least recently used group is first."""

    def remember_listed(self, view: str, group: Hashable, servers: frozenset[str]) -> None:
        """Store which servers a group of callers has seen, to notify it even when a server removes its last item."""
        self._listed_servers[view, group] = servers
        self._listed_servers.move_to_end((view, group))
        while len(self._listed_servers) > bounds.HUB_CALLER_GROUPS:
            self._listed_servers.popitem(last=False)

    def publish_all(self) -> None:
        """Notify every client that its lists may have changed, because the settings have changed."""
        self._listed_servers.clear()
        for front in self._hub.fronts.values():
            for method in LIST_CHANGES.values():
                front.broadcaster.publish(Notification(method))

    def publish_list(self, kind: str, server: str) -> None:
        """Notify clients that a server has changed its list of this kind."""
        for front in self._hub.fronts.values():
            if front.has_server(server):
                front.broadcaster.publish(Notification(LIST_CHANGES[kind]), self._knows_items(front, server))

    def publish_update(self, server: str, change: ChangeEvent) -> None:
        """Notify subscribers that a resource of a server has changed."""
        governor, target = self._hub.governor, Target("resource", server, change.uri)
        may_receive = None if governor is None else lambda caller: governor.shows(caller.principal, target)
        for uri in self._hub.subscriptions.client_uris(ResourceLocation(server, change.uri)):
            note = Notification(RESOURCE_UPDATED, UpdatedParams(uri), change.scope, change.principal)
            for front in self._hub.fronts.values():
                if front.has_server(server):
                    front.broadcaster.publish(note, may_receive)

    def publish_status(self, server: str) -> None:
        """Notify subscribers of the status that the state of a server has changed."""
        note = Notification(RESOURCE_UPDATED, UpdatedParams(STATUS_URI))
        for front in self._hub.fronts.values():
            front.clear_pages()
            if front.has_server(server):
                may_receive = (
                    None if self._hub.governor is None else lambda caller, f=front: f.may_know_server(server, caller)
                )
                front.broadcaster.publish(note, may_receive)

    def _knows_items(self, front: Front, server: str) -> Callable[[Caller], bool] | None:
        """Return a function: whether a caller sees an item of a server, or saw one before its lists changed."""
        governor = self._hub.governor
        if governor is None:
            return None
        items = [item for item in _list_items(self._hub.catalog) if item.server == server]
        known: dict[Hashable, bool] = {}

        def knows(caller: Caller) -> bool:
            group = front.group(caller)
            found = known.get(group)
            if found is None:
                found = known[group] = server in self._listed_servers.get((front.view_name, group), ()) or any(
                    front.permits(item, caller) for item in items
                )
            return found

        return knows


def _list_items(catalog: Catalog) -> Iterable[Item]:
    for part in (catalog.tools, catalog.prompts, catalog.resources, catalog.templates):
        yield from part.listed.values()
