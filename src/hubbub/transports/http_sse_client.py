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
from hubbub.ports import OutgoingRequest, Receiver, hide_nothing
from hubbub.protocol.jsonrpc import encode_notification
from hubbub.protocol.sse import EventDecoder
from hubbub.transports.authorized_http_client import AuthorizedHttpClient
from hubbub.transports.http_errors import error_from_response


class HttpSseTransport:
    """HTTP+SSE transport to one server; the URL is that of its stream."""

    is_http = False
    is_legacy = True

    def __init__(
        self,
        http_client: HttpClient,
        url: str,
        headers: Callable[[], Awaitable[dict[str, str]]],
        *,
        limit: int,
        on_diagnostic: Callable[[str], Any] | None = None,
        mask: Callable[[str], str] = str,
        hide: Callable[[Any], Any] = hide_nothing,
    ) -> None:
        self.address = url
        self.hide = hide
        self._mask = mask
        self._http_client = http_client
        self._url = url
        self._headers = headers
        self._limit = limit
        self._on_diagnostic = on_diagnostic
        self._post_url: asyncio.Future[str] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._cancellations: set[asyncio.Task[None]] = set()

    async def start(self, receiver: Receiver) -> None:
        """Open the stream and wait for the URL to post to.

        Raises: TransportError.
        """
        self._receiver = receiver
        headers = {**await self._headers(), "Accept": "text/event-stream"}
        response = await self._http_client.send("GET", self._url, headers=headers, is_stream=True)
        if not response.is_success or response.media_type != "text/event-stream":
            try:
                if not response.is_success:
                    raise await self._error_from_response(response, self._url)
                raise HttpError("The server did not answer with an event stream (text/event-stream)", response.status)
            finally:
                response.close()
        self._post_url = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read(response, self._post_url))
        try:
            async with asyncio.timeout(bounds.ENDPOINT_EVENT_TIMEOUT_S):
                await self._post_url  # cancelled with the caller, so that no exception is set on it
        except TimeoutError:
            reason = f"The server sent no `endpoint` event within {bounds.ENDPOINT_EVENT_TIMEOUT_S:g} s"
            raise TransportError(reason) from None

    def send_nowait(self, outgoing: OutgoingRequest) -> bool:
        """Return False: sending may have to wait."""
        return False

    async def send_request(self, outgoing: OutgoingRequest) -> None:
        """POST a request; its response arrives on the stream."""
        await self._post(outgoing.body)

    async def send_message(
        self, message: bytes, *, is_stateless: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        """POST a notification or a response."""
        await self._post(message)

    def cancel_request(self, outgoing: OutgoingRequest, reason: str) -> None:
        """Send a cancellation to the server."""
        params = {"requestId": outgoing.id, "reason": reason}
        task = asyncio.create_task(self._send_cancellation(encode_notification("notifications/cancelled", params)))
        self._cancellations.add(task)
        task.add_done_callback(self._cancellations.discard)

    def finish_handshake(self, version: str) -> None:
        """Do nothing: all messages arrive on the stream."""

    async def close(self) -> None:
        tasks = [task for task in (self._reader, *self._cancellations) if task is not None]
        for task in tasks:
            task.cancel()
        await self._http_client.close()
        if self._post_url is not None and not self._post_url.done():
            self._post_url.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=bounds.CLOSE_TIMEOUT_S)

    async def _error_from_response(self, response: HttpResponse, url: str) -> HubbubError:
        return await error_from_response(
            response,
            url,
            self._limit,
            has_session=False,
            mask=self._mask,
            hide=self.hide,
            has_authorizer=isinstance(self._http_client, AuthorizedHttpClient),
        )

    async def _post(self, message: bytes) -> None:
        if self._post_url is None:
            raise TransportError("The client was not started", may_have_executed=False)
        headers = {**await self._headers(), "Content-Type": "application/json"}
        response = await self._http_client.send("POST", self._post_url.result(), headers=headers, body=message)
        try:
            if not response.is_success:
                raise await self._error_from_response(response, self._post_url.result())
            await response.read(self._limit)
        finally:
            response.close()

    async def _read(self, response: HttpResponse, post_url: asyncio.Future[str]) -> None:
        decoder = EventDecoder(self._limit)
        error: TransportError = TransportClosed("The server's stream has ended")
        try:
            async for chunk in response.chunks():
                for event in decoder.feed(chunk):
                    if event.event != "endpoint":
                        self._receiver.receive(event.data)
                    elif not post_url.done():
                        post_url.set_result(self._check_post_url(event.data))
        except TransportError as failure:
            error = failure
        except MessageTooLarge:
            error = EventTooLarge(f"The server sent an event of more than {self._limit} bytes")
        finally:
            response.close()
        if not post_url.done():
            post_url.set_exception(error)
        self._receiver.transport_lost(error)

    def _check_post_url(self, endpoint: bytes) -> str:
        """Return the URL to post to. It must have the same origin, because our headers may contain secrets."""
        resolved = urljoin(self._url, endpoint.decode(errors="replace").strip())
        own, target = urlsplit(self._url), urlsplit(resolved)
        if (target.scheme, target.netloc) != (own.scheme, own.netloc):
            raise TransportError(
                "The server's `endpoint` event names another origin; messages are posted to the same origin only"
            )
        return resolved

    async def _send_cancellation(self, message: bytes) -> None:
        try:
            async with asyncio.timeout(bounds.CLOSE_TIMEOUT_S):
                await self._post(message)
        except (TransportError, TimeoutError):
            return
