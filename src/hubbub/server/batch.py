"""Batches: messages in one array, whose responses are sent as one array when all are ready.

Connections and `POST /mcp` take batches here; each serves the messages in its own way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import UNSET

from hubbub.errors import HubbubError, InvalidRequest, MessageError, RateLimited
from hubbub.ports import Count
from hubbub.protocol.error_forms import error_response
from hubbub.protocol.jsonrpc import Envelope, decode_envelope, encode_batch
from hubbub.protocol.revisions import Revision
from hubbub.server.questions import Questions, refused_id

Deliver = Callable[[bytes], None]
Take = Callable[[Envelope, Deliver, RateLimited | None], None]


def take_batch(
    items: list[bytes],
    take: Take,
    send: Deliver,
    *,
    revision: Revision,
    questions: Questions | None,
    count: Count | None,
    is_counted: bool = True,
) -> None:
    """Take each message of a batch.

    Each request is passed on with a callback for its response, which is empty if the request was cancelled. `send` is
    called once with all responses, empty if there are none. `count` counts each message, except the first if
    `is_counted`.
    """
    batch = _Answers(send)
    for number, item in enumerate(items):
        limited = None if count is None or (is_counted and number == 0) else count()
        try:
            message = _decode_item(item)
        except MessageError as error:
            wrong: HubbubError = limited or error
            batch.expect()(error_response(refused_id(item, error, questions), wrong, revision))
            continue
        is_request = message.method is not UNSET and message.id is not UNSET
        take(message, batch.expect() if is_request else send, limited)
    batch.close()


class _Answers:
    """Collects the responses to the requests of one batch."""

    def __init__(self, send: Deliver) -> None:
        self._send = send
        self._missing = 1
        self._answers: list[bytes] = []

    def expect(self) -> Deliver:
        """Register one more request; return the callback for its response."""
        self._missing += 1
        self._answers.append(b"")
        return partial(self._take, len(self._answers) - 1)

    def close(self) -> None:
        """Mark the batch as complete: no more requests follow."""
        self._finish_one()

    def _take(self, place: int, answer: bytes) -> None:
        self._answers[place] = answer
        self._finish_one()

    def _finish_one(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            given = [answer for answer in self._answers if answer]
            self._send(encode_batch(given) if given else b"")


def _decode_item(item: bytes) -> Envelope:
    message = decode_envelope(item)
    if not isinstance(message, Envelope):
        raise InvalidRequest("A batch holds messages, not batches")
    if message.method == "initialize":
        raise InvalidRequest("`initialize` cannot be part of a batch")
    return message
