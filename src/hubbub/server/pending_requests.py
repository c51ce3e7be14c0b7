"""Requests that the server sends to a legacy client, and their responses.

One table per session. The transport sends; this assigns ids, waits, and matches responses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import UNSET, Raw

from hubbub import bounds
from hubbub.errors import ConnectionClosed, DeadlineExceeded, MessageError, MessageTooLarge, Overloaded, RemoteError
from hubbub.protocol.calls import Call, RawReply, Reply
from hubbub.protocol.error_codes import PARSE_ERROR, remote_error
from hubbub.protocol.jsonrpc import (
    NULL,
    Envelope,
    encode_notification,
    encode_request,
    salvage_id,
    salvage_skipped_id,
)
from hubbub.protocol.response_salvage import salvage_response_id

Send = Callable[[bytes], Awaitable[None]]


class PendingRequests:
    """The pending requests to one client."""

    def __init__(self) -> None:
        self._pending: dict[bytes, asyncio.Future[Reply]] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._pending)

    async def ask_client(self, call: Call, send: Send) -> Reply:
        """Send a request and wait for its response; cancel it at a timeout or if the caller is cancelled.

        Raises:
            RemoteError: the client responded with an error, or its response cannot be read.
            DeadlineExceeded, ConnectionClosed, Overloaded: it did not respond.
        """
        if len(self._pending) >= bounds.PENDING_REQUESTS:
            raise Overloaded("pending requests to this client", bounds.PENDING_REQUESTS)
        self._last_id += 1
        key = str(self._last_id).encode()
        response: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending[key] = response
        try:
            async with asyncio.timeout(bounds.INPUT_TIMEOUT_S):
                await send(encode_request(self._last_id, call.method, call.raw))
                return await response
        except TimeoutError:
            await self._cancel_request(key, send, "no response in time")
            raise DeadlineExceeded(f"The client's response to {call.method}", bounds.INPUT_TIMEOUT_S) from None
        except asyncio.CancelledError:
            await self._cancel_request(key, send, "the call that sent this request was cancelled")
            raise
        finally:
            self._pending.pop(key, None)

    def resolve(self, message: Envelope) -> bool:
        """Match a response with its request; return whether there was one."""
        key = b"" if message.id is UNSET else bytes(message.id)
        response = self._pending.get(key)
        if response is None or response.done():
            return False
        if message.error is not UNSET:
            response.set_exception(remote_error(message.error, "client"))
        elif message.result is not UNSET:
            # The response outlives the buffer that it arrived in.
            response.set_result(RawReply(body=message.result.copy()))
        return True

    def fail(self, identifier: bytes, error: MessageError) -> None:
        """Fail the request whose response cannot be read; all requests if the id in the response is unknown (empty)."""
        found = [self._pending.get(identifier)] if identifier else list(self._pending.values())
        for response in found:
            if response is not None and not response.done():
                message = f"The client's response cannot be read: {error.message}"
                response.set_exception(RemoteError(PARSE_ERROR, message))

    def close(self) -> None:
        """Fail all requests, because the client disconnected."""
        for response in self._pending.values():
            if not response.done():
                response.set_exception(ConnectionClosed("The client disconnected before it responded"))

    async def _cancel_request(self, key: bytes, send: Send, reason: str) -> None:
        await send(encode_notification("notifications/cancelled", {"requestId": int(key), "reason": reason}))


def refusal_id(data: bytes, error: MessageError, pending_requests: PendingRequests | None) -> Raw:
    """Return the id for refusing an unreadable message: its own, but null for a response, whose request fails instead.

    The id of a response is that of one of our requests; the client could mistake it for an id of its own.
    """
    skipped = error if isinstance(error, MessageTooLarge) and error.start else None
    start, end = (data, b"") if skipped is None else (skipped.start, skipped.end)
    answered_key = salvage_response_id(start, end, is_from_client=True)
    if answered_key is None:
        if skipped is None:
            return salvage_id(data)
        return salvage_skipped_id(skipped) if skipped.end else NULL
    if pending_requests is not None:
        pending_requests.fail(answered_key, error)
    return NULL
