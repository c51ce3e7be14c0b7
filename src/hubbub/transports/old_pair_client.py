"""The client side of HTTP+SSE, the transport of 2024-11-05: a stream names the URL to post to and carries responses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from hubbub import bounds
from hubbub.errors import EventTooLarge, HttpError, HubbubError, MessageTooLarge, TransportClosed, TransportError
from hubbub.net.client import HttpClient
from hubbub.net.response import HttpResponse
from hubbub.ports import Outgoing, Receiver, as_it_is
from hubbub.protocol.jsonrpc import encode_notification
from hubbub.protocol.sse import EventDecoder
from hubbub.transports.http_refusals import refusal


class OldPairLink:
    """HTTP+SSE transport to one server; the URL is that of its stream."""

    is_http = False
    is_legacy = True

    def __init__(
        self,
        door: HttpClient,
        url: str,
        headers: Callable[[], Awaitable[dict[str, str]]],
        *,
        limit: int,
        on_diagnostic: Callable[[str], Any] | None = None,
        mask: Callable[[str], str] = str,
        hide: Callable[[Any], Any] = as_it_is,
    ) -> None:
        self.address = url
        self.hide = hide
        self._mask = mask
        self._door = door
        self._url = url
        self._headers = headers
        self._limit = limit
        self._on_diagnostic = on_diagnostic
        self._target: asyncio.Future[str] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()

    async def start(self, receiver: Receiver) -> None:
        """Open the stream and wait for the URL to post to.

        Raises: TransportError.
        """
        self._receiver = receiver
        headers = {**await self._headers(), "Accept": "text/event-stream"}
        answer = await self._door.send("GET", self._url, headers=headers, is_stream=True)
        if not answer.is_success or answer.media_type != "text/event-stream":
            try:
                if not answer.is_success:
                    raise await self._refusal(answer, self._url)
                raise HttpError("The server did not answer with a stream of events", answer.status)
            finally:
                answer.close()
        self._target = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read(answer, self._target))
        try:
            async with asyncio.timeout(bounds.PROBE_S):
                await self._target  # a caller that gives up cancels it, so that no exception is set on it
        except TimeoutError:
            raise TransportError("The server's stream does not tell where to post") from None

    def send_now(self, outgoing: Outgoing) -> bool:
        """Return False: sending may have to wait."""
        return False

    async def exchange(self, outgoing: Outgoing) -> None:
        """POST a request; its response arrives on the stream."""
        await self._post(outgoing.body)

    async def post(
        self, message: bytes, *, is_stateless: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        """POST a notification or a response."""
        await self._post(message)

    def withdraw(self, outgoing: Outgoing, reason: str) -> None:
        """Send a cancellation to the server."""
        params = {"requestId": outgoing.id, "reason": reason}
        task = asyncio.create_task(self._tell(encode_notification("notifications/cancelled", params)))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    def settle(self, version: str) -> None:
        """Do nothing: all messages arrive on the stream."""

    async def close(self) -> None:
        tasks = [task for task in (self._reader, *self._telling) if task is not None]
        for task in tasks:
            task.cancel()
        await self._door.close()
        if self._target is not None and not self._target.done():
            self._target.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=bounds.CLOSE_S)

    async def _refusal(self, answer: HttpResponse, url: str) -> HubbubError:
        return await refusal(answer, url, self._limit, has_session=False, mask=self._mask, hide=self.hide)

    async def _post(self, message: bytes) -> None:
        if self._target is None:
            raise TransportError("The client was not started", may_have_executed=False)
        headers = {**await self._headers(), "Content-Type": "application/json"}
        answer = await self._door.send("POST", self._target.result(), headers=headers, body=message)
        try:
            if not answer.is_success:
                raise await self._refusal(answer, self._target.result())
            await answer.read(self._limit)
        finally:
            answer.close()

    async def _read(self, answer: HttpResponse, target: asyncio.Future[str]) -> None:
        decoder = EventDecoder(self._limit)
        error: TransportError = TransportClosed("The server's stream has ended")
        try:
            async for chunk in answer.chunks():
                for event in decoder.feed(chunk):
                    if event.event != "endpoint":
                        self._receiver.receive(event.data)
                    elif not target.done():
                        target.set_result(self._checked(event.data))
        except TransportError as failure:
            error = failure
        except MessageTooLarge:
            error = EventTooLarge(f"An event has more than {self._limit} bytes")
        finally:
            answer.close()
        if not target.done():
            target.set_exception(error)
        self._receiver.lost(error)

    def _checked(self, told: bytes) -> str:
        """Return the URL to post to. It must have the same origin, because our headers may contain secrets."""
        found = urljoin(self._url, told.decode(errors="replace").strip())
        ours, theirs = urlsplit(self._url), urlsplit(found)
        if (theirs.scheme, theirs.netloc) != (ours.scheme, ours.netloc):
            raise TransportError("The server's stream tells to post to another server")
        return found

    async def _tell(self, message: bytes) -> None:
        try:
            async with asyncio.timeout(bounds.CLOSE_S):
                await self._post(message)
        except (TransportError, TimeoutError):
            return
