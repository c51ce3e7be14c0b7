"""One call that is forwarded to an upstream: its return path, and the capabilities declared for its caller.

Messages of the upstream that precede its answer reach the caller in order and before the answer. Log messages reach
only callers that asked for them. A modern server's `requestState` goes to the caller and comes back; meanwhile it is
sealed together with the caller and the call that it belongs to, so that no other caller can use it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from hubbub import bounds
from hubbub.client.client import Client
from hubbub.errors import InvalidParams, MethodNotFound
from hubbub.hub.admission import CallLimiter
from hubbub.hub.snapshot import Snapshot
from hubbub.observe import rate_limit_logger
from hubbub.ports import Sealer
from hubbub.protocol.calls import ANONYMOUS, Call, Caller, Notification, RawReply, Reply

logger = logging.getLogger("hubbub.hub")
rate_limit_logger(logger.name)  # servers can cause any number of lines
LOG_MESSAGE: Final = "notifications/message"
INPUT_METHODS: Final = frozenset(("tools/call", "prompts/get", "resources/read"))
"""Methods during which a server may send requests to the caller."""
ALL_CAPABILITIES: Final[Mapping[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}
"""All capabilities whose requests the hub forwards to its callers."""
_METHOD_CAPABILITIES: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
_NOTE_OVERHEAD_BYTES: Final = 256
"""Size of a pending notification besides its parameters."""
_SEAL_PURPOSE: Final = "upstream round"
_INPUT_REQUIRED: Final = b'"input_required"'


class _Level(msgspec.Struct):
    level: str = ""


_decode_level = msgspec.json.Decoder(_Level).decode
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode


def client_scope(caller: Caller) -> tuple[str, str] | None:
    """Identify the client of a caller; None if its requests cannot be related to each other."""
    return None if caller.scope is None else (caller.principal.name, caller.scope)


def principal_name(caller: Caller) -> str | None:
    """The name of the authenticated principal; None for callers without an identity."""
    return None if caller.principal is ANONYMOUS else caller.principal.name


def accepts_client_requests(caller: Caller) -> bool:
    """Whether this caller declared elicitation, sampling or roots."""
    return bool(caller.capabilities) and any(name in caller.capabilities for name in ALL_CAPABILITIES)


class ForwardedCall:
    """A call on its way through the hub. It is the `ReturnPath` that the upstream's client uses."""

    __slots__ = (
        "_keeps_client_sessions",
        "_pending",
        "_pending_bytes",
        "_sending",
        "_slots",
        "call",
        "owner",
        "principal",
        "sent_roots",
    )

    def __init__(self, call: Call, slots: CallLimiter, *, keeps_client_sessions: bool = False) -> None:
        """`keeps_client_sessions`: the upstream keeps a session for each client (`sessions = "own"`)."""
        caller = call.caller
        self.call = call
        self.principal = None if caller.principal is ANONYMOUS else caller.principal.name
        self.owner = caller.owner
        self._keeps_client_sessions = keeps_client_sessions
        self._slots = slots
        self._pending: deque[Notification] | None = None
        """Notifications that the caller must get before the answer."""
        self._pending_bytes = 0
        self._sending: asyncio.Task[None] | None = None
        self.sent_roots = False
        """Whether the upstream got the caller's roots, which it may keep beyond this call."""

    @property
    def scope(self) -> object:
        """The client of this call, or the call itself if the client cannot be recognized."""
        found = client_scope(self.call.caller)
        if found is not None:
            return found
        if self._keeps_client_sessions and self.principal is not None:
            # Stateless requests of one principal count as one client: its session must be found again.
            return self.principal, None
        return self

    async def request(self, call: Call) -> Reply:
        """Send a request to the caller, after all pending notifications; the upstream waits meanwhile.

        Raises:
            MethodNotFound: the caller did not declare the capability.
        """
        if not self.call.caller.can(_METHOD_CAPABILITIES.get(call.method, "")):
            raise MethodNotFound(call.method)
        if call.method == "roots/list":
            self.sent_roots = True
        if self.has_pending:
            await self.flush()
        self._slots.yield_slot(self.owner)
        try:
            return await self.call.back.request(call)
        finally:
            self._slots.retake_slot(self.owner)

    async def notify(self, note: Notification) -> None:
        """Queue a notification; `send_nowait` does the same."""
        self.send_nowait(note)

    def send_nowait(self, note: Notification) -> bool:
        """Queue a notification, so that no answer overtakes it. If the caller does not keep up, drop the oldest."""
        if self._pending is None:
            self._pending = deque()
        self._pending.append(note)
        self._pending_bytes += _note_bytes(note)
        if self._pending_bytes > bounds.QUEUED_NOTIFICATIONS_BYTES:
            self._drop_oldest()
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())
        return True

    async def release(self) -> None:
        """End the caller's open stream; a remote upstream has no way to ask for that."""
        await self.call.back.release()

    @property
    def has_pending(self) -> bool:
        """Whether notifications are still being sent to the caller."""
        return self._sending is not None and not self._sending.done()

    async def flush(self) -> None:
        """Wait until every notification queued before was sent."""
        sending = self._sending
        if sending is not None:
            # A caller that has not read for so long will not read the answer either. Only this task is cancelled:
            # a later one may already be sending newer messages.
            await asyncio.wait([sending], timeout=bounds.SLOW_READER_TIMEOUT_S)
            sending.cancel()

    def stop_sending(self) -> None:
        """Stop sending notifications, because the caller disconnected."""
        if self._sending is not None and not self._sending.done():
            self._sending.cancel()

    async def _send(self) -> None:
        assert self._pending is not None
        while self._pending:
            note = self._pending.popleft()
            self._pending_bytes -= _note_bytes(note)
            if note.method != LOG_MESSAGE or self._wants_log(note.params):
                try:
                    await self.call.back.notify(note)
                except Exception:  # A notification that cannot be sent must not cost the caller its answer.
                    logger.warning("notification_not_sent", exc_info=True)

    def _drop_oldest(self) -> None:
        assert self._pending is not None
        while len(self._pending) > 1 and self._pending_bytes > bounds.QUEUED_NOTIFICATIONS_BYTES // 2:
            self._pending_bytes -= _note_bytes(self._pending.popleft())
        logger.warning("a server sends notifications faster than its caller reads them; the oldest were dropped")

    def _wants_log(self, params: Any) -> bool:
        if not isinstance(params, Raw):
            return True
        try:
            return self.call.caller.wants_log(_decode_level(params).level)
        except msgspec.DecodeError:
            return False


def _note_bytes(note: Notification) -> int:
    return _NOTE_OVERHEAD_BYTES + (len(note.params) if isinstance(note.params, Raw) else 0)


class NoCaller:
    """The `ReturnPath` of requests that the hub sends for itself."""

    async def request(self, call: Call) -> Reply:
        """Return an empty list of roots, and refuse everything else."""
        if call.method == "roots/list":
            return RawReply(body=Raw(b'{"roots":[]}'))
        raise MethodNotFound(call.method)

    async def notify(self, note: Notification) -> None:
        """Ignore the notification."""

    def send_nowait(self, note: Notification) -> bool:
        """Ignore the notification."""
        return True

    async def release(self) -> None:
        """Do nothing: there is no stream."""


class CapabilityBridge:
    """Declares capabilities of callers to one upstream, and seals the request states that it returns."""

    def __init__(self, upstream: str, sealer: Sealer) -> None:
        self._upstream = upstream
        self._sealer = sealer
        self._client_meta: dict[tuple[bytes, str | None], bytes] = {}

    def capabilities(self, caller: Caller) -> dict[str, Any]:
        """The capabilities of a caller that are declared to the upstream."""
        if not caller.capabilities:
            return {}
        declared: dict[str, Any] = {
            name: caller.capabilities[name] for name in ALL_CAPABILITIES if name in caller.capabilities
        }
        if "roots" in declared:
            declared["roots"] = {}  # The hub does not forward `notifications/roots/list_changed`.
        return declared

    def client_meta(self, client: Client, caller: Caller) -> bytes:
        """The start of `_meta`, which describes a caller to a modern server in each request."""
        capabilities = self.capabilities(caller) if caller.capabilities else None
        key = (msgspec.json.encode(capabilities) if capabilities else b"", caller.least_log_level)
        found = self._client_meta.get(key)
        if found is None:
            if len(self._client_meta) >= bounds.UPSTREAM_QUEUED_CALLS:
                self._client_meta.clear()
            found = self._client_meta[key] = client.client_meta(capabilities or {}, key[1])
        return found

    def reset(self) -> None:
        """Clear the cached `client_meta`: the next connection may use another protocol version."""
        self._client_meta.clear()

    def open_state(self, call: Call) -> str | None:
        """Return the server's state from the `requestState` of a call, if it has one.

        Raises:
            InvalidParams: it was not issued here, or for another caller or another call.
        """
        sealed = call.params.request_state
        if sealed is UNSET:
            return None
        try:
            *binding, state = self._sealer.open(_SEAL_PURPOSE, sealed)
        except (ValueError, TypeError):
            raise InvalidParams("`requestState` is not from this hub, or was changed; start again without it") from None
        if binding != self._binding(call) or not isinstance(state, str):
            raise InvalidParams("`requestState` belongs to another request or caller; start again without it")
        return state

    def finish_reply(self, reply: RawReply, call: Call, snapshot: Snapshot) -> None:
        """Prepare the answer of a modern server for its caller."""
        if call.caller.revision.rounds and call.method in INPUT_METHODS:
            self._seal_state(reply, call)
        if snapshot.wrapped and call.method == "tools/call":
            reply.wraps = call.params.name in snapshot.wrapped

    def _seal_state(self, reply: RawReply, call: Call) -> None:
        body = reply.body
        if bytes(body).find(_INPUT_REQUIRED) < 0:
            return
        try:
            members = _decode(body)
            if bytes(members.get("resultType", b"")) != _INPUT_REQUIRED or "requestState" not in members:
                return
            state = _decode_text(members["requestState"])
        except msgspec.DecodeError:
            return
        sealed = self._sealer.seal(_SEAL_PURPOSE, [*self._binding(call), state], lifetime_s=bounds.INPUT_TIMEOUT_S)
        members["requestState"] = Raw(msgspec.json.encode(sealed))
        reply.body = Raw(msgspec.json.encode(members))

    def _binding(self, call: Call) -> list[str]:
        name: str = getattr(call.params, "name", "") or getattr(call.params, "uri", "")
        return [call.caller.principal.name, self._upstream, call.method, name]
