"""The seams: what parts of Hubbub expect of each other, and nothing more.

Protocols only. A server is a `Peer`, a client is a `Peer`, a hub is a `Peer` that
picks a `Peer`; limits, policies and metrics are functions from `Peer` to `Peer`.
"""

from __future__ import annotations

from typing import Any, Protocol

from hubbub.protocol.model import Call, Note, Reply


class Peer(Protocol):
    """Someone who answers calls."""

    async def request(self, call: Call) -> Reply:
        """Answer a call, or raise an error of `hubbub.errors`."""

    async def notify(self, note: Note) -> None:
        """Take note of something; there is no answer."""


class Sealer(Protocol):
    """Turns small records into opaque text that only we can have written."""

    def seal(self, purpose: str, record: Any, *, lifetime_s: float | None = None) -> str:
        """The record as text that nobody else can read or change."""

    def open(self, purpose: str, text: str) -> Any:
        """The record of a text that we sealed for the same purpose.

        Raises:
            ValueError: it was not us, not for this purpose, or too long ago.
        """
