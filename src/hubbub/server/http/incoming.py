"""One posted message, read but not yet served."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw

from hubbub.ports import HttpExchange, Peer
from hubbub.protocol.jsonrpc import NULL, Envelope
from hubbub.protocol.model import Call, Caller, Meta, Principal
from hubbub.server.http.sessions import Session


class Incoming(msgspec.Struct):
    """A message with everything the transport and the ladder found out about it."""

    exchange: HttpExchange
    principal: Principal
    message: Envelope
    method: str
    raw: Raw
    params: Any
    meta: Meta
    session: Session | None

    @property
    def is_request(self) -> bool:
        """Whether it wants an answer."""
        return bool(self.method) and self.message.id is not UNSET

    @property
    def id(self) -> Raw:
        """Its id, or null."""
        return NULL if self.message.id is UNSET else self.message.id

    def call(self, caller: Caller, back: Peer) -> Call:
        """The message as a call."""
        return Call(
            id=self.id, method=self.method, raw=self.raw, params=self.params, meta=self.meta, caller=caller, back=back
        )
