"""Approved calls that continue in another request: a server asked for input, and the caller repeats the call with it.

In the stateless era, a server answers `input_required` with a `requestState`, and the call that carries it back is
decided about like any other. It does not need a second approval if it continues the approved call: same caller, tool,
arguments and policy. Each state continues a call once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from hubbub import bounds
from hubbub.errors import InvalidParams
from hubbub.governance.approvals import ApprovalRequest, MarkedCall
from hubbub.governance.reviewed_arguments import digest_arguments
from hubbub.protocol.calls import RawReply, Reply
from hubbub.protocol.results import InputRequired
from hubbub.shares import Shares

MAX_APPROVED_ROUNDS: Final = 1024
"""Approved calls that wait for the input of their callers; others have to start again."""
_INPUT_REQUIRED: Final = b'"input_required"'
_decode_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def find_request_state(reply: Reply) -> str | None:
    """Return the `requestState` of a reply that asks for input; None for every other reply."""
    if isinstance(reply, InputRequired):
        return None if reply.request_state is UNSET else reply.request_state
    if not isinstance(reply, RawReply) or _INPUT_REQUIRED not in bytes(reply.body):
        return None
    try:
        members = _decode_members(reply.body)
        if bytes(members.get("resultType", b"")) != _INPUT_REQUIRED or "requestState" not in members:
            return None
        return msgspec.json.decode(members["requestState"], type=str)
    except msgspec.DecodeError:
        return None


class ApprovedRounds:
    """The approvals of calls that wait for input."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[bytes, tuple[ApprovalRequest, float]] = {}
        self._shares = Shares(MAX_APPROVED_ROUNDS)

    def __len__(self) -> int:
        return len(self._waiting)

    def remember(self, approval: ApprovalRequest, request_state: str) -> None:
        """Let the call with this `requestState` continue the approved one; not if too many wait already."""
        self._expire()
        key, owner = _hash(request_state), approval.tenant or approval.principal
        if key not in self._waiting and self._shares.has_room(owner):
            self._waiting[key] = (approval, self._clock() + bounds.INPUT_TIMEOUT_S)
            self._shares.take(owner)

    def take(self, request_state: str, call: MarkedCall) -> ApprovalRequest:
        """Return the approval that this call continues.

        Raises:
            InvalidParams: it continues no approved call. It is not asked for either, because an approver could not see
                what it continues.
            ArgumentsInvalid: see `review_arguments`.
        """
        self._expire()
        key = _hash(request_state)
        approval, _ = self._waiting.get(key, (None, 0.0))
        if approval is None or not _continues(call, approval):
            raise InvalidParams(
                "This `requestState` continues no call that was approved for this caller with these arguments; start "
                "again without `requestState`"
            )
        self._remove(key)
        return approval

    def _expire(self) -> None:
        now = self._clock()
        while self._waiting:
            key, (_, expires_at) = next(iter(self._waiting.items()))
            if expires_at > now:
                return
            self._remove(key)

    def _remove(self, key: bytes) -> None:
        approval, _ = self._waiting.pop(key)
        self._shares.give_back(approval.tenant or approval.principal)


def _continues(call: MarkedCall, approval: ApprovalRequest) -> bool:
    return (
        call.principal.name == approval.principal
        and (call.server, call.tool) == (approval.server, approval.tool)
        and call.decision.version == approval.policy_version
        and digest_arguments(call.tool, call.arguments) == approval.digest
    )


def _hash(request_state: str) -> bytes:
    return sha256(request_state.encode(errors="surrogatepass")).digest()
