"""One call on its way through the hub, and its way back.

What an upstream says before it answers goes to the caller in the order in which it came, and
before the answer. Logs reach only callers who want them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Final

import msgspec
from msgspec import Raw

from hubbub import bounds
from hubbub.errors import MethodNotFound
from hubbub.hub.slots import Slots
from hubbub.protocol.model import Call, Caller, Note, Reply

logger = logging.getLogger("hubbub.hub")
LOG: Final = "notifications/message"
_NOTE_BYTES: Final = 256
"""What a note takes besides its parameters."""
_NEEDED: Final = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


class _Level(msgspec.Struct):
    level: str = ""


_decode_level = msgspec.json.Decoder(_Level).decode


def scope_of(caller: Caller) -> tuple[str, str] | None:
    """Which client this is; None if it is not known again."""
    return None if caller.scope is None else (caller.principal.name, caller.scope)


class Passage:
    """A `Peer`: the way back of one call."""

    __slots__ = ("_bytes", "_slots", "_telling", "_untold", "call", "has_told_roots", "scope")

    def __init__(self, call: Call, slots: Slots) -> None:
        self.call = call
        self.scope: object = scope_of(call.caller) or self
        """Whose call it is: a client that is known again, or nobody but this call."""
        self._slots = slots
        self._untold: deque[Note] | None = None
        """What the caller is still to be told before its answer."""
        self._bytes = 0
        self._telling: asyncio.Task[None] | None = None
        self.has_told_roots = False
        """Whether the upstream was told something that holds beyond this call."""

    async def request(self, call: Call) -> Reply:
        """Ask the caller, who has heard all that was said before; the upstream waits meanwhile.

        Raises:
            MethodNotFound: the caller did not say that it can be asked that.
        """
        if not self.call.caller.can(_NEEDED.get(call.method, "")):
            raise MethodNotFound(call.method)
        if call.method == "roots/list":
            self.has_told_roots = True
        if self.has_untold:
            await self.settled()
        self._slots.lend()
        try:
            return await self.call.back.request(call)
        finally:
            self._slots.take_again()

    async def notify(self, note: Note) -> None:
        """Tell the caller, after all that was said before."""
        self.tell(note)

    def tell(self, note: Note) -> None:
        """The same at once, so that no answer overtakes it. For callers who do not keep up, the oldest are dropped."""
        if self._untold is None:
            self._untold = deque()
        self._untold.append(note)
        self._bytes += _size(note)
        if self._bytes > bounds.UNTOLD_BYTES:
            self._drop_oldest()
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    @property
    def has_untold(self) -> bool:
        """Whether there is something that the caller was not told yet."""
        return self._telling is not None and not self._telling.done()

    async def settled(self) -> None:
        """Wait until everything was told."""
        if self._telling is not None:
            # Who does not read for so long will not read the answer either.
            await asyncio.wait([self._telling], timeout=bounds.SLOW_READER_S)
            self.stop_telling()

    def stop_telling(self) -> None:
        """Nobody listens any more."""
        if self._telling is not None and not self._telling.done():
            self._telling.cancel()

    async def _tell(self) -> None:
        assert self._untold is not None
        while self._untold:
            note = self._untold.popleft()
            self._bytes -= _size(note)
            if note.method != LOG or self._hears(note.params):
                try:
                    await self.call.back.notify(note)
                except Exception:  # Whatever keeps a caller from hearing must not keep it from its answer.
                    logger.warning("a caller could not be told something", exc_info=True)

    def _drop_oldest(self) -> None:
        assert self._untold is not None
        while len(self._untold) > 1 and self._bytes > bounds.UNTOLD_BYTES // 2:
            self._bytes -= _size(self._untold.popleft())
        logger.warning("a server says more than its caller reads; the oldest of it was dropped")

    def _hears(self, params: Any) -> bool:
        if not isinstance(params, Raw):
            return True
        try:
            return self.call.caller.hears(_decode_level(params).level)
        except msgspec.DecodeError:
            return False


def _size(note: Note) -> int:
    return _NOTE_BYTES + (len(note.params) if isinstance(note.params, Raw) else 0)
