"""Who hears of changes: every open session, and every `subscriptions/listen`.

Publishing never waits. A listener that cannot keep up holds each distinct change
once and hears the newest, because a change is a hint to look again, not a record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Protocol

import msgspec

from hubbub import bounds
from hubbub.ports import Peer
from hubbub.protocol.model import Call, Note
from hubbub.protocol.params import ListenFilter

SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
TOOLS_CHANGED = "notifications/tools/list_changed"
PROMPTS_CHANGED = "notifications/prompts/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
RESOURCE_UPDATED = "notifications/resources/updated"


EVERY_SCOPE = "*"
"""The scope of a listener that hears everything and passes it on."""


class Listener(Protocol):
    """Someone who may want to hear of a change."""

    @property
    def scope(self) -> str | None:
        """Where their state lives: some changes concern nobody else."""

    @property
    def watching(self) -> Collection[str]:
        """The resources that it is told of."""

    def hear(self, note: Note) -> None:
        """Take the change or ignore it; never wait and never fail."""


class Audience:
    """Everyone who listens to one server."""

    def __init__(self) -> None:
        self._listeners: dict[Listener, None] = {}
        self.left: Callable[[], None] | None = None
        """Called when somebody listens no more."""

    def end_listens(self, back: Peer | None = None) -> None:
        """Answer open listens, all of them or those of one connection."""
        for listener in list(self._listeners):
            if isinstance(listener, Listen) and (back is None or listener.back is back):
                listener.end()

    def listens_of(self, back: Peer) -> int:
        """How many listens one connection holds open."""
        return sum(isinstance(listener, Listen) and listener.back is back for listener in self._listeners)

    def add(self, listener: Listener) -> None:
        """Start telling this listener."""
        self._listeners[listener] = None

    def remove(self, listener: Listener) -> None:
        """Stop telling this listener."""
        if listener in self._listeners:
            del self._listeners[listener]
            if self.left is not None:
                self.left()

    def watched(self) -> set[str]:
        """Every resource that somebody is told of."""
        return {uri for listener in self._listeners for uri in listener.watching}

    def publish(self, note: Note) -> None:
        """Tell everyone whom it concerns."""
        for listener in list(self._listeners):
            if note.scope is None or listener.scope in (note.scope, EVERY_SCOPE):
                listener.hear(note)

    def __len__(self) -> int:
        return len(self._listeners)


class Listen:
    """One `subscriptions/listen`: takes what its filter lets through, tags it, passes it on."""

    def __init__(self, call: Call, wanted: ListenFilter) -> None:
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
        self._uris = set(wanted.resource_subscriptions)
        self._waiting: dict[bytes, Note] = {}
        self._arrived = asyncio.Event()
        self._ended = False

    @property
    def back(self) -> Peer:
        """Where the notes go."""
        return self._call.back

    @property
    def scope(self) -> str | None:
        """Where the listening caller's state lives."""
        return self._call.caller.state_scope

    @property
    def watching(self) -> Collection[str]:
        """The resources that it is told of."""
        return self._uris

    @property
    def tag(self) -> dict[str, Any]:
        """The `_meta` that names this subscription: the id of the request that opened it."""
        return {SUBSCRIPTION_KEY: self._call.id}

    def hear(self, note: Note) -> None:
        """Keep the note until the stream takes it."""
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
        """Let the stream end with an answer."""
        self._ended = True
        self._arrived.set()

    async def relay(self) -> None:
        """Pass notes on until the end."""
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
