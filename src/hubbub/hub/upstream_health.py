"""The phase of one upstream: idle, connecting, ready, down or closing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from msgspec.structs import replace

from hubbub.client.config import ServerConfig
from hubbub.client.reconnecting_client import ReconnectingClient
from hubbub.errors import HubbubError
from hubbub.hub.admission import Breaker, Breakers
from hubbub.hub.failure_reasons import public_reason
from hubbub.hub.upstream import Phase, UpstreamState
from hubbub.protocol.calls import Caller

logger = logging.getLogger("hubbub.hub")


def state_for(caller: Caller, state: UpstreamState, breakers: Breakers) -> UpstreamState:
    """The state of an upstream as it is for a caller."""
    breaker = breakers.find_open(caller) if state.phase == "ready" else None
    if breaker is None:
        return state
    return replace(state, phase="down", reason=breaker.reason, retry_in_s=breaker.retry_in_s)


class UpstreamHealth:
    """Derives the phase of one upstream from its connection and the outcomes of its calls."""

    def __init__(
        self, config: ServerConfig, connection: ReconnectingClient, breakers: Breakers, on_phase: Callable[[], None]
    ) -> None:
        """`on_phase` is called after each change of the phase."""
        self._id = config.id
        self._transport = config.transport
        self._connection = connection
        self._breakers = breakers
        self._on_phase = on_phase
        self.phase: Phase = "idle"
        self.since = time.time()
        """When the phase began."""
        self.failures = 0
        self.is_closing = False

    @property
    def reason(self) -> str | None:
        """Why it is down, in words that callers may read."""
        if self._connection.client is None and self._connection.error is not None:
            return public_reason(self._connection.error, self._transport)
        return None if self._breakers.is_closed else self._breakers.reason

    def retry_in_s(self, breaker: Breaker | None = None) -> float | None:
        """Seconds until calls are admitted again or the server is connected again."""
        waits = [(breaker or self._breakers).retry_in_s]
        if self._connection.retry_at is not None:
            waits.append(max(self._connection.retry_at - asyncio.get_running_loop().time(), 0.0))
        return min((wait_s for wait_s in waits if wait_s is not None), default=None)

    def record_success(self, caller: Caller) -> bool:
        """Record an answer; return whether the server is back after it was down."""
        self._breakers.get(caller).record_success()
        if self.phase != "down":
            return False
        self.update()
        return self.phase != "down"

    def record_failure(self, caller: Caller, error: HubbubError) -> str:
        """Record a call without an answer; return the reason, in words that callers may read."""
        self.failures += 1
        reason = public_reason(error, self._transport)
        if reason != error.message:
            logger.warning("upstream_failed", extra={"server": self._id, "reason": error.message})
        self._breakers.get(caller).record_failure(reason)
        self.update()
        return reason

    def update(self, *, always_notify: bool = False) -> None:
        """Determine the phase again; `always_notify`: call `on_phase` even if it is the same."""
        before, self.phase = self.phase, self._find_phase()
        if self.phase != before:
            self.since = time.time()
        if self.phase != before or always_notify:
            self._on_phase()

    def _find_phase(self) -> Phase:
        if self.is_closing:
            return "closing"
        if not self._connection.is_started:
            return "idle"
        if self._connection.client is not None:
            return "ready" if self._breakers.is_closed else "down"
        return "connecting" if self._connection.error is None else "down"
