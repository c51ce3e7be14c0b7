"""Batches: messages in one array, whose responses are sent as one array when all are ready.

Connections and `POST /mcp` take batches here; each serves the messages in its own way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import UNSET

from hubbub.errors import HubbubError, InvalidRequest, MessageError, RateLimited
from hubbub.ports import MessageCounter
from hubbub.protocol.error_codes import error_response
from hubbub.protocol.jsonrpc import Envelope, decode_envelope, encode_batch
from hubbub.protocol.revisions import Revision
from hubbub.server.pending_requests import PendingRequests, refusal_id

SendResponse = Callable[[bytes], None]
HandleMessage = Callable[[Envelope, SendResponse, RateLimited | None], None]


def handle_batch(
    items: list[bytes],
    handle: HandleMessage,
    send: SendResponse,
    *,
    revision: Revision,
    pending_requests: PendingRequests | None,
    count: MessageCounter | None,
    is_counted: bool = True,
) -> None:
    """Take each message of a batch.

    Each request is passed on with a callback for its response, which is empty if the request was cancelled. `send` is
    called once with all responses, empty if there are none. `count` counts each message, except the first if
    `is_counted`.
    """
    batch = _BatchResponses(send)
    for number, item in enumerate(items):
        rate_error = None if count is None or (is_counted and number == 0) else count()
        try:
            message = _decode_item(item)
        except MessageError as error:
            reported_error: HubbubError = rate_error or error
            batch.add_request()(error_response(refusal_id(item, error, pending_requests), reported_error, revision))
            continue
        is_request = message.method is not UNSET and message.id is not UNSET
        handle(message, batch.add_request() if is_request else send, rate_error)
    batch.close()


class _BatchResponses:
    """Collects the responses to the requests of one batch."""

    def __init__(self, send: SendResponse) -> None:
        self._send = send
        self._pending_count = 1
        self._responses: list[bytes] = []

    def add_request(self) -> SendResponse:
        """Register one more request; return the callback for its response."""
        self._pending_count += 1
        self._responses.append(b"")
        return partial(self._set_response, len(self._responses) - 1)

    def close(self) -> None:
        """Mark the batch as complete: no more requests follow."""
        self._finish_one()

    def _set_response(self, index: int, response: bytes) -> None:
        self._responses[index] = response
        self._finish_one()

    def _finish_one(self) -> None:
        self._pending_count -= 1
        if self._pending_count == 0:
            responses = [response for response in self._responses if response]
            self._send(encode_batch(responses) if responses else b"")


def _decode_item(item: bytes) -> Envelope:
    message = decode_envelope(item)
    if not isinstance(message, Envelope):
        raise InvalidRequest("A batch must not contain another batch")
    if message.method == "initialize":
        raise InvalidRequest("`initialize` cannot be part of a batch")
    return message
