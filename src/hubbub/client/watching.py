"""Changes of a server, heard of as its era tells them.

A legacy server pushes them; a modern one tells only who listens, on a stream that is
opened again whenever it breaks. Either way they arrive as a `Change`.
"""

from __future__ import annotations

import asyncio
import logging
import math
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub import bounds
from hubbub.errors import ConnectionClosed, HubbubError, RemoteError
from hubbub.net.backoff import Backoff
from hubbub.protocol.params import ListenFilter

if TYPE_CHECKING:
    from hubbub.client.session import Session

logger = logging.getLogger("hubbub.client")

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
LISTS: Final = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}
UPDATED: Final = "notifications/resources/updated"


class Change(msgspec.Struct, frozen=True):
    """Something of the server is no longer as it was."""

    kind: Literal["tools", "prompts", "resources", "resource"]
    uri: str = ""
    """Which resource, if it is one."""
    scope: str | None = None
    """Whom it concerns, if not everybody; only a server in this process says so."""


class _Meta(msgspec.Struct):
    subscription: Raw | UnsetType = msgspec.field(default=UNSET, name="io.modelcontextprotocol/subscriptionId")


class _Params(msgspec.Struct):
    uri: str = ""
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")
    notifications: ListenFilter = ListenFilter()


_decode = msgspec.json.Decoder(_Params).decode


def read_change(method: str, params: Raw) -> Change | None:
    """The change that a notification tells of, if it does."""
    kind: Any = LISTS.get(method)
    if kind is not None:
        return Change(kind)
    if method != UPDATED:
        return None
    try:
        return Change("resource", _decode(params).uri)
    except msgspec.DecodeError:
        return None


class Listening:
    """An open ear at a modern server. Use it as a context manager, or close it."""

    def __init__(self, session: Session, wanted: ListenFilter) -> None:
        self._session = session
        self._wanted = wanted
        self._task: asyncio.Task[Any] | None = None
        self._acknowledged = asyncio.Event()
        self._failure: HubbubError | None = None
        self.id = 0
        self.accepted = ListenFilter()
        """What the server agreed to tell."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be heard."""
        return self._task is not None and self._task.done()

    async def start(self, timeout_s: float) -> None:
        """Open the stream and wait until the server hears us.

        Raises: errors of `hubbub.errors`.
        """
        self._task = self._session.rpc.spawn(self._run())
        try:
            async with asyncio.timeout(timeout_s):
                await self._acknowledged.wait()
        except TimeoutError:
            logger.debug("a server did not acknowledge that we listen")
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        if self._failure is not None:
            raise self._failure

    def acknowledge(self, params: Raw) -> None:
        """The server hears us."""
        try:
            self.accepted = _decode(params).notifications
        except msgspec.DecodeError:
            pass
        self._acknowledged.set()

    async def close(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self) -> None:
        backoff = Backoff()
        params = {"notifications": self._wanted}
        while True:
            started = asyncio.get_running_loop().time()
            try:
                await self._session.request("subscriptions/listen", params, timeout_s=math.inf, on_id=self._sent)
            except (RemoteError, ConnectionClosed) as error:
                self._failure = error
                self._acknowledged.set()
                return
            except HubbubError as error:
                logger.debug("a listen stream broke: %s", error.message)
            if asyncio.get_running_loop().time() - started > bounds.STEADY_STREAM_S:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    def _sent(self, identifier: int) -> None:
        self.id = identifier


def subscription_id(params: Raw) -> bytes:
    """The id of the listen request that a notification belongs to."""
    try:
        found = _decode(params).meta.subscription
    except msgspec.DecodeError:
        return b""
    return b"" if found is UNSET else bytes(found).strip(b'"')
