"""Changes that a server reports, and the cache of results that they invalidate.

A legacy server sends changes by itself; a modern one only on a `subscriptions/listen` stream, which is
opened again when it breaks. Both arrive as a `ChangeEvent`. After a reconnect every
list is reported as changed, because changes may have been missed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub import bounds
from hubbub.client.config import check_seconds
from hubbub.errors import ConnectionClosed, HubbubError, InvalidParams, RemoteError
from hubbub.net.backoff import Backoff
from hubbub.protocol.params import ListenFilter
from hubbub.protocol.results import DecodedResult, LogMessage

if TYPE_CHECKING:
    from hubbub.client.session import Session

logger = logging.getLogger("hubbub.client")

LISTEN_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
LIST_CHANGED_METHODS: Final = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}
_LIST_KINDS: Final[tuple[Literal["tools", "prompts", "resources"], ...]] = ("tools", "prompts", "resources")
RESOURCE_UPDATED: Final = "notifications/resources/updated"
_INVALIDATED_METHODS: Final = {
    "tools": ("tools/list",),
    "prompts": ("prompts/list",),
    "resources": ("resources/list", "resources/templates/list"),
}


class ChangeEvent(msgspec.Struct, frozen=True):
    """A change that a server reported: of a list, or of a subscribed resource."""

    kind: Literal["tools", "prompts", "resources", "resource"]
    uri: str = ""
    """The URI of the resource, if `kind` is `resource`."""
    scope: str | None = None
    """The scope that it concerns; None: all. Only set by a server in this process."""
    principal: str | None = None
    """The principal on whose session it was reported, if any."""


class _Meta(msgspec.Struct):
    subscription: Raw | UnsetType = msgspec.field(default=UNSET, name="io.modelcontextprotocol/subscriptionId")


class _Params(msgspec.Struct):
    uri: str = ""
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")
    notifications: ListenFilter = ListenFilter()


_decode = msgspec.json.Decoder(_Params).decode


def read_change(method: str, params: Raw) -> ChangeEvent | None:
    """Return the change that a notification reports, if any."""
    kind: Any = LIST_CHANGED_METHODS.get(method)
    if kind is not None:
        return ChangeEvent(kind)
    if method != RESOURCE_UPDATED:
        return None
    try:
        return ChangeEvent("resource", _decode(params).uri)
    except msgspec.DecodeError:
        return None


def _missed_changes(accepted: ListenFilter) -> list[ChangeEvent]:
    """Return the changes that a stream with this filter may have missed while it was broken."""
    lists = [ChangeEvent(kind) for kind in _LIST_KINDS if getattr(accepted, f"{kind}_list_changed")]
    return [*lists, *(ChangeEvent("resource", uri) for uri in accepted.resource_subscriptions)]


def read_log(params: Raw) -> LogMessage | None:
    """Parse a log message of the server; None if it is invalid."""
    try:
        return msgspec.json.decode(params, type=LogMessage)
    except msgspec.DecodeError:
        return None


class ResultCache:
    """Cached results of a modern server, each within its TTL and until a change is reported; for one caller."""

    def __init__(self, *, keeps_private: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._keeps_private = keeps_private
        """Whether to keep private results; not if the credentials may change from one request to the next."""
        self._clock = clock
        self._entries: dict[tuple[str, str | None], tuple[float, DecodedResult]] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, method: str, key: str | None) -> Any:
        """Return a result that is still fresh, or None."""
        found = self._entries.get((method, key))
        if found is None:
            return None
        until, result = found
        if self._clock() < until:
            return result
        self._remove((method, key))
        return None

    def put(self, method: str, key: str | None, result: DecodedResult) -> None:
        """Keep a result for its own TTL."""
        lifetime_ms = getattr(result, "ttl_ms", UNSET)
        if not isinstance(lifetime_ms, int) or lifetime_ms <= 0:
            return
        if not self._keeps_private and getattr(result, "cache_scope", UNSET) != "public":
            return
        self._remove((method, key))
        size = len(result.raw)
        if size > bounds.CACHED_BYTES:
            return
        while len(self._entries) >= bounds.CACHED_RESULTS or self._size + size > bounds.CACHED_BYTES:
            self._remove(next(iter(self._entries)))
        until = self._clock() + min(lifetime_ms / 1000, bounds.CACHE_TTL_MAX_S)
        self._entries[method, key] = until, result
        self._size += size

    def drop(self, *methods: str, key: str | None = None) -> None:
        """Drop the results of these methods, or only those with this key."""
        for entry_key in [
            entry_key for entry_key in self._entries if entry_key[0] in methods and (key is None or entry_key[1] == key)
        ]:
            self._remove(entry_key)

    def invalidate(self, change: ChangeEvent) -> None:
        """Drop the results that a change invalidates."""
        if change.kind == "resource":
            self.drop("resources/read", key=change.uri)
        else:
            self.drop(*_INVALIDATED_METHODS[change.kind])

    def clear(self) -> None:
        self._entries.clear()
        self._size = 0

    def _remove(self, entry_key: tuple[str, str | None]) -> None:
        found = self._entries.pop(entry_key, None)
        if found is not None:
            self._size -= len(found[1].raw)


class ListenStream:
    """An open `subscriptions/listen` stream. Use it as a context manager, or close it."""

    def __init__(
        self,
        session: Session,
        wanted: ListenFilter,
        on_missed: Callable[[list[ChangeEvent]], Any] = lambda changes: None,
    ) -> None:
        self._session = session
        self._wanted = wanted
        self._on_missed = on_missed
        """Called with the changes that may have been missed, when the stream is open again."""
        self._task: asyncio.Task[Any] | None = None
        self._acknowledged = asyncio.Event()
        self._failure: HubbubError | None = None
        self.id = 0
        self.accepted = ListenFilter()
        """The changes that the server agreed to report."""

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended for good."""
        return self._task is not None and self._task.done()

    async def start(self, timeout_s: float) -> None:
        """Open the stream and wait for its acknowledgement.

        Raises: errors of `hubbub.errors`.
        """
        self._task = self._session.rpc.spawn(self._run())
        try:
            async with asyncio.timeout(timeout_s):
                await self._acknowledged.wait()
        except TimeoutError:
            logger.debug("a server did not acknowledge subscriptions/listen")
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        if self._failure is not None:
            raise self._failure

    def acknowledge(self, params: Raw) -> None:
        """Handle the server's acknowledgement."""
        try:
            self.accepted = _decode(params).notifications
        except msgspec.DecodeError:
            pass
        if self._acknowledged.is_set():
            self._on_missed(_missed_changes(self.accepted))
        self._acknowledged.set()

    async def close(self) -> None:
        """Close the stream."""
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
                await self._session.request("subscriptions/listen", params, timeout_s=math.inf, on_id=self._set_id)
            except (RemoteError, ConnectionClosed) as error:
                self._failure = error
                self._acknowledged.set()
                return
            except HubbubError as error:
                logger.debug("a listen stream broke: %s", error.message)
            if asyncio.get_running_loop().time() - started > bounds.STABLE_AFTER_S:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    def _set_id(self, identifier: int) -> None:
        self.id = identifier


class Subscriptions:
    """The changes that a server reports to one client: listen streams, subscribed resources, and the callback."""

    def __init__(
        self, session: Session, cache: ResultCache, on_change: Callable[[ChangeEvent], Any] | None, timeout_s: float
    ) -> None:
        self._session = session
        self._cache = cache
        self._on_change = on_change
        self._timeout_s = timeout_s
        self._streams: list[ListenStream] = []
        self._resources: dict[str, ListenStream | None] = {}
        """Subscribed resources, with the stream of each at a modern server."""

    def start(self) -> None:
        """Listen to every list of a modern server, if the client has an `on_change`."""
        if self._on_change is not None and self._session.revision.listen:
            self._session.rpc.spawn(self._listen_to_lists())

    async def listen(self, wanted: ListenFilter, timeout_s: float | None) -> ListenStream:
        """Open a listen stream.

        Raises: InvalidParams, if the server is a legacy one; errors of `hubbub.errors`.
        """
        if not self._session.revision.listen:
            raise InvalidParams(
                "`listen` needs a modern server; a legacy one reports list changes without it,"
                " and changes of resources after `subscribe`"
            )
        stream = ListenStream(self._session, wanted, self.report_changes)
        self._streams = [*(other for other in self._streams if not other.is_over), stream]
        await stream.start(self._timeout_s if timeout_s is None else check_seconds("timeout_s", timeout_s))
        return stream

    async def add(self, uri: str, timeout_s: float | None) -> None:
        """Subscribe to a resource."""
        if self._session.revision.listen:
            if uri not in self._resources:
                self._resources[uri] = None
                wanted = ListenFilter(resource_subscriptions=[uri])
                self._resources[uri] = await self.listen(wanted, timeout_s)
            return
        await self._session.request("resources/subscribe", {"uri": uri}, timeout_s=timeout_s, repeatable=True)
        self._resources[uri] = None

    async def remove(self, uri: str, timeout_s: float | None) -> None:
        """End the subscription to a resource."""
        stream = self._resources.pop(uri, None)
        if stream is not None:
            await stream.close()
        elif not self._session.revision.listen:
            await self._session.request("resources/unsubscribe", {"uri": uri}, timeout_s=timeout_s, repeatable=True)

    def handle_change(self, change: ChangeEvent) -> Any:
        """Handle a change that the server reports; return the result of the callback."""
        self._cache.invalidate(change)
        return None if self._on_change is None else self._on_change(change)

    def acknowledge(self, params: Raw) -> None:
        """Handle the acknowledgement of a listen stream."""
        identifier = _subscription_id(params)
        for stream in self._streams:
            if identifier == b"%d" % stream.id:
                stream.acknowledge(params)

    def report_changes(self, changes: list[ChangeEvent]) -> None:
        """Report changes that the server did not report itself."""
        for change in changes:
            self._cache.invalidate(change)
            if self._on_change is not None:
                self._session.rpc.run_callback(self._on_change, change)

    def assume_changed(self) -> None:
        """Drop every cached result and report each list that the server declares, or all if it declares nothing."""
        self._cache.clear()
        agreement = self._session.agreement
        capabilities = {} if agreement is None else agreement.capabilities
        self.report_changes([ChangeEvent(kind) for kind in _LIST_KINDS if kind in capabilities or not capabilities])

    def restore(self) -> None:
        """Set the log level and the subscriptions of a lost legacy session in the renewed one."""
        self.assume_changed()
        self._session.rpc.spawn(self._restore_session(list(self._resources)))

    async def _restore_session(self, uris: list[str]) -> None:
        session = self._session
        try:
            if session.log_level is not None:
                await session.request("logging/setLevel", {"level": session.log_level})
            for uri in uris:
                await session.request("resources/subscribe", {"uri": uri})
                self.report_changes([ChangeEvent("resource", uri)])
        except HubbubError as error:
            logger.warning("a renewed session could not be restored completely: %s", error.message)

    async def _listen_to_lists(self) -> None:
        try:
            await self.listen(ListenFilter(True, True, True), None)
        except HubbubError as error:
            logger.debug("%s does not report changes: %s", self._session.rpc.transport.address, error.message)


def _subscription_id(params: Raw) -> bytes:
    """Return the id of the listen request that a notification belongs to."""
    try:
        found = _decode(params).meta.subscription
    except msgspec.DecodeError:
        return b""
    return b"" if found is UNSET else bytes(found).strip(b'"')
