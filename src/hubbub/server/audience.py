"""Who hears of changes: every open session, and every `subscriptions/listen`.

Publishing never waits. A listener that cannot keep up holds each distinct change
once and hears the newest, because a change is a hint to look again, not a record.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import msgspec

from hubbub import bounds
from hubbub.protocol.model import Call, Note
from hubbub.protocol.params import ListenFilter

SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
TOOLS_CHANGED = "notifications/tools/list_changed"
PROMPTS_CHANGED = "notifications/prompts/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
RESOURCE_UPDATED = "notifications/resources/updated"


class Listener(Protocol):
    """Someone who may want to hear of a change."""

    def hear(self, note: Note) -> None:
        """Take the change or ignore it; never wait and never fail."""


class Audience:
    """Everyone who listens to one server."""

    def __init__(self) -> None:
        self._listeners: dict[Listener, None] = {}
        self._closing: asyncio.Event | None = None

    def open(self) -> None:
        """The server runs: listens stay open from now on."""
        self._closing = asyncio.Event()

    def close(self) -> None:
        """The server stops: open listens end with an answer."""
        if self._closing is not None:
            self._closing.set()

    @property
    def is_open(self) -> bool:
        """Whether the server runs."""
        return self._closing is not None and not self._closing.is_set()

    async def ended(self) -> None:
        """Wait until the server stops."""
        if self._closing is None:
            self._closing = asyncio.Event()
        await self._closing.wait()

    def add(self, listener: Listener) -> None:
        """Start telling this listener."""
        self._listeners[listener] = None

    def remove(self, listener: Listener) -> None:
        """Stop telling this listener."""
        self._listeners.pop(listener, None)

    def publish(self, note: Note) -> None:
        """Tell everyone."""
        for listener in list(self._listeners):
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

    @property
    def tag(self) -> dict[str, Any]:
        """The `_meta` that names this subscription: the id of the request that opened it."""
        return {SUBSCRIPTION_KEY: self._call.id}

    def hear(self, note: Note) -> None:
        """Keep the note until the stream takes it."""
        if note.method not in self._methods and not (
            note.method == RESOURCE_UPDATED and note.params.uri in self._uris
        ):
            return
        params = {} if note.params is msgspec.UNSET else msgspec.to_builtins(note.params)
        key = note.method.encode() + msgspec.json.encode({**params, "timestamp": 0})
        self._waiting.pop(key, None)
        self._waiting[key] = Note(note.method, params | {"_meta": self.tag})
        if len(self._waiting) > bounds.SUBSCRIPTIONS:
            del self._waiting[next(iter(self._waiting))]
        self._arrived.set()

    async def relay(self) -> None:
        """Pass notes on until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                note = self._waiting.pop(next(iter(self._waiting)))
                await self._call.back.notify(note)
