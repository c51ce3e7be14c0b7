"""Broadcasts changes to every open session and `subscriptions/listen` stream.

Publishing never waits. For a listener that cannot keep up, each distinct change is kept
once, in its newest form, because a change is a hint to reload, not a record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Protocol

import msgspec

from hubbub import bounds
from hubbub.ports import ReturnPath
from hubbub.protocol.model import Call, Note
from hubbub.protocol.params import ListenFilter
from hubbub.shares import Shares

SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
TOOLS_CHANGED = "notifications/tools/list_changed"
PROMPTS_CHANGED = "notifications/prompts/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
RESOURCE_UPDATED = "notifications/resources/updated"


EVERY_SCOPE = "*"
"""The scope of a listener that receives every change and forwards it."""


class Listener(Protocol):
    """Receives changes of a server."""

    @property
    def scope(self) -> str | None:
        """The scope of the listener's state; some changes concern only one scope."""

    @property
    def principal(self) -> str | None:
        """The name of the principal that listens; None: it receives everything and forwards it."""

    @property
    def watching(self) -> Collection[str]:
        """The URIs of the resources that it is subscribed to."""

    def hear(self, note: Note) -> None:
        """Handle the change or ignore it; must neither wait nor raise."""


class Audience:
    """The listeners of one server."""

    def __init__(self) -> None:
        self._listeners: dict[Listener, None] = {}
        self.listens = Shares(bounds.LISTENERS)
        """Open `subscriptions/listen` streams by owner."""
        self.left: Callable[[], None] | None = None
        """Called after a listener was removed."""

    def end_listens(self, back: ReturnPath | None = None) -> None:
        """End open `subscriptions/listen` requests with a response: all of them, or those of one connection."""
        for listener in list(self._listeners):
            if isinstance(listener, Listen) and (back is None or listener.back is back):
                listener.end()

    def listens_of(self, back: ReturnPath) -> int:
        """Return how many `subscriptions/listen` requests one connection has open."""
        return sum(isinstance(listener, Listen) and listener.back is back for listener in self._listeners)

    def add(self, listener: Listener) -> None:
        self._listeners[listener] = None

    def remove(self, listener: Listener) -> None:
        if listener in self._listeners:
            del self._listeners[listener]
            if self.left is not None:
                self.left()

    def watched(self) -> set[str]:
        """Return the URIs of all resources with a subscriber."""
        return {uri for listener in self._listeners for uri in listener.watching}

    def publish(self, note: Note) -> None:
        """Pass a notification to every listener that it concerns."""
        for listener in list(self._listeners):
            if note.principal is not None and listener.principal not in (note.principal, None):
                continue
            if note.scope is None or listener.scope in (note.scope, EVERY_SCOPE):
                listener.hear(note)

    def __len__(self) -> int:
        return len(self._listeners)


class Listen:
    """One `subscriptions/listen` request: filters changes, adds its subscription id and sends them."""

    def __init__(self, call: Call, wanted: ListenFilter, may_watch: Callable[[str], bool] = lambda uri: True) -> None:
        """`may_watch` returns whether the caller may see a resource."""
        self._call = call
        self._methods = {
            method
            for method, is_wanted in (
                (TOOLS_CHANGED, wanted.tools_list_changed),
                (PROMPTS_CHANGED, wanted.prompts_list_changed),
                (RESOURCES_CHANGED, wanted.resources_list_changed),
            )
            if is_wanted
        }
        self._uris = set(filter(may_watch, wanted.resource_subscriptions))
        self._waiting: dict[bytes, Note] = {}
        self._arrived = asyncio.Event()
        self._ended = False

    @property
    def back(self) -> ReturnPath:
        """The return path that the notifications are sent to."""
        return self._call.back

    @property
    def scope(self) -> str | None:
        """The scope of the caller's state."""
        return self._call.caller.state_scope

    @property
    def principal(self) -> str:
        """The name of the caller's principal."""
        return self._call.caller.principal.name

    @property
    def watching(self) -> Collection[str]:
        """The URIs of the resources that it is subscribed to."""
        return self._uris

    @property
    def tag(self) -> dict[str, Any]:
        """The `_meta` with the subscription id: the id of the request that opened it."""
        return {SUBSCRIPTION_KEY: self._call.id}

    def hear(self, note: Note) -> None:
        """Keep the notification until `relay` sends it, if it matches the filter."""
        if note.method not in self._methods and not (note.method == RESOURCE_UPDATED and note.params.uri in self._uris):
            return
        params = {} if note.params is msgspec.UNSET else msgspec.to_builtins(note.params)
        key = note.method.encode() + msgspec.json.encode({**params, "timestamp": 0})
        self._waiting.pop(key, None)
        self._waiting[key] = Note(note.method, params | {"_meta": self.tag})
        if len(self._waiting) > bounds.SUBSCRIPTIONS:
            del self._waiting[next(iter(self._waiting))]
        self._arrived.set()

    def end(self) -> None:
        """End the stream with a response."""
        self._ended = True
        self._arrived.set()

    async def relay(self) -> None:
        """Send notifications until `end` is called."""
        while True:
            while self._waiting:
                note = self._waiting.pop(next(iter(self._waiting)))
                await self.back.notify(note)
            if self._ended:
                break
            self._arrived.clear()
            await self._arrived.wait()
        reason = {"requestId": self._call.id, "reason": "the server ends this subscription", "_meta": self.tag}
        await self.back.notify(Note("notifications/cancelled", reason))
