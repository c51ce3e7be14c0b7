"""Requests that we send to a legacy client, and its answers.

One table for a session. The transport sends; this only numbers, waits and matches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import UNSET, Raw

from hubbub import bounds
from hubbub.errors import ConnectionClosed, DeadlineExceeded, Overloaded, RemoteError
from hubbub.protocol.jsonrpc import Envelope, ErrorObject, encode_notification, encode_request
from hubbub.protocol.model import Call, RawReply, Reply

Send = Callable[[bytes], Awaitable[None]]


class Questions:
    """What one client still owes an answer to."""

    def __init__(self, *, limit: int = bounds.PENDING_REQUESTS, answer_s: float = bounds.ANSWER_S) -> None:
        self._limit = limit
        self._answer_s = answer_s
        self._pending: dict[bytes, asyncio.Future[Reply]] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._pending)

    async def ask(self, call: Call, send: Send) -> Reply:
        """Send a request and wait for its answer; withdraw it if nobody waits any more.

        Raises:
            RemoteError: the client answered with an error.
            DeadlineExceeded, ConnectionClosed, Overloaded: it did not answer at all.
        """
        if len(self._pending) >= self._limit:
            raise Overloaded("questions to this client", self._limit)
        self._last_id += 1
        key = str(self._last_id).encode()
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending[key] = answer
        try:
            async with asyncio.timeout(self._answer_s):
                await send(encode_request(self._last_id, call.method, call.raw))
                return await answer
        except TimeoutError:
            await self._withdraw(key, send, "no answer in time")
            raise DeadlineExceeded(f"The answer to {call.method}", self._answer_s) from None
        except asyncio.CancelledError:
            await self._withdraw(key, send, "the call that asked was cancelled")
            raise
        finally:
            self._pending.pop(key, None)

    def take(self, message: Envelope) -> bool:
        """Match an answer with its question; whether there was one."""
        key = b"" if message.id is UNSET else bytes(message.id)
        answer = self._pending.get(key)
        if answer is None or answer.done():
            return False
        if message.error is not UNSET:
            answer.set_exception(_remote_error(message.error))
        elif message.result is not UNSET:
            # The answer outlives the buffer that it arrived in.
            answer.set_result(RawReply(body=message.result.copy()))
        return True

    def close(self) -> None:
        """Nobody will answer any more."""
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(ConnectionClosed("The client is gone"))

    async def _withdraw(self, key: bytes, send: Send, reason: str) -> None:
        await send(encode_notification("notifications/cancelled", {"requestId": int(key), "reason": reason}))


def _remote_error(raw: Raw) -> RemoteError:
    try:
        error = msgspec.json.decode(raw, type=ErrorObject)
    except msgspec.DecodeError:
        return RemoteError(-32603, "The client answered with an error that cannot be read")
    return RemoteError(error.code, error.message, None if error.data is UNSET else error.data)
