"""Answers to a batch, gathered until the last one is there and sent as one array."""

from __future__ import annotations

from collections.abc import Callable

from hubbub.protocol.jsonrpc import encode_batch


class Batch:
    """Collects the answers to the requests of one batch."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._open = 1
        self._answers: list[bytes] = []

    def expect(self) -> Callable[[bytes], None]:
        """Count one more request; its answer goes into the function returned, empty if it was cancelled."""
        self._open += 1
        return self._take

    def close(self) -> None:
        """Every request has been counted."""
        self._take(b"")

    def _take(self, answer: bytes) -> None:
        if answer:
            self._answers.append(answer)
        self._open -= 1
        if self._open == 0 and self._answers:
            self._send(encode_batch(self._answers))
