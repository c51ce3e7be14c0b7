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
from hubbub.protocol.calls import Call, Caller, Notification, Principal
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
    def caller(self) -> Caller | None:
        """The client that listens; None: a hub, which receives and forwards all notifications."""

    @property
    def watching(self) -> Collection[str]:
        """The URIs of the resources that it is subscribed to."""

    def handle_change(self, note: Notification) -> None:
        """Handle the change or ignore it; must neither wait nor raise."""


class Broadcaster:
    """The listeners of one server."""

    def __init__(self) -> None:
        self._listeners: dict[Listener, None] = {}
        self.subscription_shares = Shares(bounds.LISTEN_STREAMS)
        """Open `subscriptions/listen` streams by owner."""
        self.on_remove: Callable[[], None] | None = None
        """Called after a listener was removed."""

    def end_subscriptions(self, back: ReturnPath | None = None) -> None:
        """End open `subscriptions/listen` requests with a response: all of them, or those of one connection."""
        for listener in list(self._listeners):
            if isinstance(listener, Subscription) and (back is None or listener.back is back):
                listener.end()

    def end_callers(self, matches: Callable[[Principal], bool]) -> None:
        """End the `subscriptions/listen` requests of these principals with a response."""
        for listener in list(self._listeners):
            if isinstance(listener, Subscription) and matches(listener.caller.principal):
                listener.end()

    def count_subscriptions(self, back: ReturnPath) -> int:
        """Return how many `subscriptions/listen` requests one connection has open."""
        return sum(isinstance(listener, Subscription) and listener.back is back for listener in self._listeners)

    def add(self, listener: Listener) -> None:
        self._listeners[listener] = None

    def remove(self, listener: Listener) -> None:
        if listener in self._listeners:
            del self._listeners[listener]
            if self.on_remove is not None:
                self.on_remove()

    def watched_uris(self) -> set[str]:
        """Return the URIs of all resources with a subscriber."""
        return {uri for listener in self._listeners for uri in listener.watching}

    def publish(self, note: Notification, may_receive: Callable[[Caller], bool] | None = None) -> None:
        """Pass a notification to every listener that may receive it.

        `may_receive`: whether the policy shows a caller what has changed; None: every caller may receive it.
        """
        uri = note.params.uri if may_receive is not None and note.method == RESOURCE_UPDATED else None
        for listener in list(self._listeners):
            if note.principal is not None and listener.principal not in (note.principal, None):
                continue
            if note.scope is not None and listener.scope not in (note.scope, EVERY_SCOPE):
                continue
            if uri is not None and uri not in listener.watching:
                continue
            caller = listener.caller
            if may_receive is None or caller is None or may_receive(caller):
                listener.handle_change(note)

    def __len__(self) -> int:
        return len(self._listeners)


class Subscription:
    """One `subscriptions/listen` request: filters changes, adds its subscription id and sends them."""

    def __init__(
        self, call: Call, listen_filter: ListenFilter, may_watch: Callable[[str], bool] = lambda uri: True
    ) -> None:
        """`may_watch` returns whether the caller may see a resource."""
        self._call = call
        self._methods = {
            method
            for method, is_selected in (
                (TOOLS_CHANGED, listen_filter.tools_list_changed),
                (PROMPTS_CHANGED, listen_filter.prompts_list_changed),
                (RESOURCES_CHANGED, listen_filter.resources_list_changed),
            )
            if is_selected
        }
        self._uris = set(filter(may_watch, listen_filter.resource_subscriptions))
        self._pending_notes: dict[bytes, Notification] = {}
        self._wakeup = asyncio.Event()
        self._is_ended = False

    @property
    def back(self) -> ReturnPath:
        """The return path that the notifications are sent to."""
        return self._call.back

    @property
    def caller(self) -> Caller:
        """The client that listens."""
        return self._call.caller

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
    def meta(self) -> dict[str, Any]:
        """The `_meta` with the subscription id: the id of the request that opened it."""
        return {SUBSCRIPTION_KEY: self._call.id}

    def handle_change(self, note: Notification) -> None:
        """Keep the notification until `send_changes` sends it, if it matches the filter."""
        if note.method not in self._methods and not (note.method == RESOURCE_UPDATED and note.params.uri in self._uris):
            return
        params = {} if note.params is msgspec.UNSET else msgspec.to_builtins(note.params)
        key = note.method.encode() + msgspec.json.encode({**params, "timestamp": 0})
        self._pending_notes.pop(key, None)
        self._pending_notes[key] = Notification(note.method, params | {"_meta": self.meta})
        if len(self._pending_notes) > bounds.SUBSCRIPTIONS:
            del self._pending_notes[next(iter(self._pending_notes))]
        self._wakeup.set()

    def end(self) -> None:
        """End the stream with a response."""
        self._is_ended = True
        self._wakeup.set()

    async def send_changes(self) -> None:
        """Send notifications until `end` is called."""
        while True:
            while self._pending_notes:
                note = self._pending_notes.pop(next(iter(self._pending_notes)))
                await self.back.notify(note)
            if self._is_ended:
                break
            self._wakeup.clear()
            await self._wakeup.wait()
        reason = {"requestId": self._call.id, "reason": "the server ended this subscription", "_meta": self.meta}
        await self.back.notify(Notification("notifications/cancelled", reason))
