"""Who can be asked what, and the states of servers that ask by answering.

A modern server's `requestState` goes to its caller and comes back; between the two it is sealed
together with whom it was given to and for what, so that nobody else can bring it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from hubbub import bounds
from hubbub.client.client import Client
from hubbub.errors import InvalidParams
from hubbub.ports import Sealer
from hubbub.protocol.model import Call, Caller, RawReply

askable: Final = frozenset(("tools/call", "prompts/get", "resources/read"))
"""Methods whose callers may be asked something before they are answered."""
_BRIDGED: Final = ("elicitation", "sampling", "roots")
_PURPOSE: Final = "upstream round"
_MARK: Final = b'"input_required"'
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode


class Questions:
    """The questions of one upstream."""

    def __init__(self, upstream: str, sealer: Sealer) -> None:
        self._upstream = upstream
        self._sealer = sealer
        self._speakers: dict[tuple[bytes, str | None], bytes] = {}

    def can_be_asked(self, caller: Caller) -> bool:
        """Whether there is anything that this caller answers."""
        return bool(caller.capabilities) and any(name in caller.capabilities for name in _BRIDGED)

    def capabilities(self, caller: Caller) -> dict[str, Any]:
        """What a caller declares, as far as the hub passes it on."""
        if not caller.capabilities:
            return {}
        declared: dict[str, Any] = {name: caller.capabilities[name] for name in _BRIDGED if name in caller.capabilities}
        if "roots" in declared:
            declared["roots"] = {}  # The hub does not tell servers when they change.
        return declared

    def speaker(self, client: Client, caller: Caller) -> bytes:
        """Who asks, for a server that is told with each request."""
        capabilities = self.capabilities(caller)
        key = (msgspec.json.encode(capabilities) if capabilities else b"", caller.least_log_level)
        found = self._speakers.get(key)
        if found is None:
            if len(self._speakers) >= bounds.UPSTREAM_WAITING:
                self._speakers.clear()
            found = self._speakers[key] = client.speaking(capabilities, key[1])
        return found

    def forget_speakers(self) -> None:
        """Another session may speak another version."""
        self._speakers.clear()

    def state_of(self, call: Call) -> str | None:
        """The server's own state in a call that brings one back.

        Raises:
            InvalidParams: it was given to somebody else, or for something else, or not by us.
        """
        sealed = call.params.request_state
        if sealed is UNSET:
            return None
        try:
            *given, state = self._sealer.open(_PURPOSE, sealed)
        except (ValueError, TypeError):
            raise InvalidParams("`requestState` was not issued here or was changed") from None
        if given != self._bound_to(call) or not isinstance(state, str):
            raise InvalidParams("`requestState` belongs to another request")
        return state

    def seal_state(self, reply: RawReply, call: Call) -> None:
        """Seal the state in an answer that asks something."""
        body = bytes(reply.body)
        if _MARK not in body:
            return
        try:
            members = _decode(body)
            if bytes(members.get("resultType", b"")) != _MARK or "requestState" not in members:
                return
            state = _decode_text(members["requestState"])
        except msgspec.DecodeError:
            return
        sealed = self._sealer.seal(_PURPOSE, [*self._bound_to(call), state], lifetime_s=bounds.ANSWER_S)
        members["requestState"] = Raw(msgspec.json.encode(sealed))
        reply.body = Raw(msgspec.json.encode(members))

    def _bound_to(self, call: Call) -> list[str]:
        name: str = getattr(call.params, "name", "") or getattr(call.params, "uri", "")
        return [call.caller.principal.name, self._upstream, call.method, name]
