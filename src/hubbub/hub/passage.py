"""One call on its way through the hub, and its way back.

What an upstream says before it answers goes to the caller in the order in which it came, and
before the answer. Logs reach only callers who want them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import msgspec
from msgspec import Raw

from hubbub import bounds
from hubbub.errors import MethodNotFound
from hubbub.hub.slots import Slots
from hubbub.protocol.model import Call, Caller, Note, Reply

LOG: Final = "notifications/message"
_NEEDED: Final = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


class _Level(msgspec.Struct):
    level: str = ""


_decode_level = msgspec.json.Decoder(_Level).decode


def scope_of(caller: Caller) -> tuple[str, str] | None:
    """Which client this is; None if it is not known again."""
    return None if caller.scope is None else (caller.principal.name, caller.scope)


class Passage:
    """A `Peer`: the way back of one call."""

    __slots__ = ("_lock", "_settled", "_slots", "call", "has_told_roots", "scope", "untold")

    def __init__(self, call: Call, slots: Slots) -> None:
        self.call = call
        self.scope: object = scope_of(call.caller) or self
        """Whose call it is: a client that is known again, or nobody but this call."""
        self._slots = slots
        self._lock: asyncio.Lock | None = None
        self._settled: asyncio.Event | None = None
        self.has_told_roots = False
        """Whether the upstream was told something that holds beyond this call."""
        self.untold = 0
        """What the caller is still to be told before its answer."""

    async def request(self, call: Call) -> Reply:
        """Ask the caller, who has heard all that was said before; the upstream waits meanwhile.

        Raises:
            MethodNotFound: the caller did not say that it can be asked that.
        """
        if not self.call.caller.can(_NEEDED.get(call.method, "")):
            raise MethodNotFound(call.method)
        if call.method == "roots/list":
            self.has_told_roots = True
        if self.untold:
            await self.settled()
        self._slots.lend()
        try:
            return await self.call.back.request(call)
        finally:
            self._slots.take_again()

    def notify(self, note: Note) -> Coroutine[Any, Any, None]:
        """Tell the caller. Counted at once, so that the answer waits for it."""
        self.untold += 1
        if self._lock is None or self._settled is None:
            self._lock, self._settled = asyncio.Lock(), asyncio.Event()
        self._settled.clear()
        return self._tell(note)

    async def settled(self) -> None:
        """Wait until everything was told."""
        if self._settled is None:
            return
        try:
            async with asyncio.timeout(bounds.SLOW_READER_S):
                await self._settled.wait()
        except TimeoutError:
            return  # The caller does not read; the answer will not fare better.

    async def _tell(self, note: Note) -> None:
        assert self._lock is not None
        assert self._settled is not None
        try:
            async with self._lock:
                if note.method != LOG or self._hears(note.params):
                    await self.call.back.notify(note)
        finally:
            self.untold -= 1
            if not self.untold:
                self._settled.set()

    def _hears(self, params: Any) -> bool:
        if not isinstance(params, Raw):
            return True
        try:
            return self.call.caller.hears(_decode_level(params).level)
        except msgspec.DecodeError:
            return False
