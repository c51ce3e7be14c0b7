"""Requests that the server sends to a legacy client, and their responses.

One table per session. The transport sends; this assigns ids, waits, and matches responses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import UNSET, Raw

from hubbub import bounds
from hubbub.errors import ConnectionClosed, DeadlineExceeded, MessageError, MessageTooLarge, Overloaded, RemoteError
from hubbub.protocol.answer_salvage import answered_id
from hubbub.protocol.error_forms import PARSE_ERROR, remote_error
from hubbub.protocol.jsonrpc import (
    NULL,
    Envelope,
    encode_notification,
    encode_request,
    salvage_id,
    salvage_id_of_skipped,
)
from hubbub.protocol.model import Call, RawReply, Reply

Send = Callable[[bytes], Awaitable[None]]


class Questions:
    """The pending requests to one client."""

    def __init__(self) -> None:
        self._pending: dict[bytes, asyncio.Future[Reply]] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._pending)

    async def ask(self, call: Call, send: Send) -> Reply:
        """Send a request and wait for its response; cancel it at a timeout or if the caller is cancelled.

        Raises:
            RemoteError: the client responded with an error, or its response cannot be read.
            DeadlineExceeded, ConnectionClosed, Overloaded: it did not respond.
        """
        if len(self._pending) >= bounds.PENDING_REQUESTS:
            raise Overloaded("questions to this client", bounds.PENDING_REQUESTS)
        self._last_id += 1
        key = str(self._last_id).encode()
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending[key] = answer
        try:
            async with asyncio.timeout(bounds.ANSWER_S):
                await send(encode_request(self._last_id, call.method, call.raw))
                return await answer
        except TimeoutError:
            await self._withdraw(key, send, "no answer in time")
            raise DeadlineExceeded(f"The answer to {call.method}", bounds.ANSWER_S) from None
        except asyncio.CancelledError:
            await self._withdraw(key, send, "the call that asked was cancelled")
            raise
        finally:
            self._pending.pop(key, None)

    def take(self, message: Envelope) -> bool:
        """Match a response with its request; return whether there was one."""
        key = b"" if message.id is UNSET else bytes(message.id)
        answer = self._pending.get(key)
        if answer is None or answer.done():
            return False
        if message.error is not UNSET:
            answer.set_exception(remote_error(message.error, "client"))
        elif message.result is not UNSET:
            # The response outlives the buffer that it arrived in.
            answer.set_result(RawReply(body=message.result.copy()))
        return True

    def fail(self, identifier: bytes, error: MessageError) -> None:
        """Fail the request whose response cannot be read; all requests if the id in the response is unknown (empty)."""
        found = [self._pending.get(identifier)] if identifier else list(self._pending.values())
        for answer in found:
            if answer is not None and not answer.done():
                message = f"The client's answer cannot be read: {error.message}"
                answer.set_exception(RemoteError(PARSE_ERROR, message))

    def close(self) -> None:
        """Fail all requests, because the client is gone."""
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(ConnectionClosed("The client is gone"))

    async def _withdraw(self, key: bytes, send: Send, reason: str) -> None:
        await send(encode_notification("notifications/cancelled", {"requestId": int(key), "reason": reason}))


def refused_id(data: bytes, error: MessageError, questions: Questions | None) -> Raw:
    """Return the id for refusing an unreadable message: its own, but null for a response, whose request fails instead.

    The id of a response is that of one of our requests; the client could mistake it for an id of its own.
    """
    skipped = error if isinstance(error, MessageTooLarge) and error.start else None
    start, end = (data, b"") if skipped is None else (skipped.start, skipped.end)
    answered = answered_id(start, end, is_from_client=True)
    if answered is None:
        if skipped is None:
            return salvage_id(data)
        return salvage_id_of_skipped(skipped) if skipped.end else NULL
    if questions is not None:
        questions.fail(answered, error)
    return NULL
