"""An upstream that takes the place of another: new calls go to it, exchanges that wait for an answer to the old one.

A modern caller that was asked something comes back with a new request, which may arrive
after the server it belongs to was replaced. `Hub.apply` puts this in place, until the old one is gone.
"""

from __future__ import annotations

from hubbub.hub.upstream import Upstream
from hubbub.ports import Peer
from hubbub.protocol.model import Call, Note, Reply


class Succession:
    """The new peer, and the old for what it holds."""

    def __init__(self, new: Peer, old: Peer, leaving: Upstream) -> None:
        self.new = new
        self._old = old
        self.leaving = leaving
        """The upstream inside the old peer."""

    async def request(self, call: Call) -> Reply:
        """Answer through whoever the call belongs to."""
        return await (self._old if self.leaving.holds(call) else self.new).request(call)

    async def notify(self, note: Note) -> None:
        """Pass it on."""
        await self.new.notify(note)
