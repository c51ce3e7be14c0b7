"""One posted message, read but not yet served."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from hubbub.ports import HttpExchange, Peer
from hubbub.protocol.jsonrpc import Envelope
from hubbub.protocol.model import Call, Caller, Meta, Principal
from hubbub.server.http.sessions import Session


class Incoming(msgspec.Struct):
    """A message with everything the transport and the ladder found out about it."""

    exchange: HttpExchange
    principal: Principal
    message: Envelope
    id: Raw
    """Null if it has none."""
    method: str
    raw: Raw
    params: Any
    meta: Meta
    session: Session | None
    is_request: bool
    """Whether it wants an answer."""

    def call(self, caller: Caller, back: Peer) -> Call:
        """The message as a call."""
        return Call(
            id=self.id, method=self.method, raw=self.raw, params=self.params, meta=self.meta, caller=caller, back=back
        )
