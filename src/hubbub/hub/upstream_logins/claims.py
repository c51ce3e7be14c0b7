"""Stores how login links were used, and logouts. The first claim on a name wins, at all processes with a database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from hubbub.hub.upstream_logins import limits


@runtime_checkable
class ClaimStore(Protocol):
    """Stores claims; implemented by stores that all processes of an installation share."""

    async def claim(self, name: str, value: str, expires_at: float) -> str:
        """Return the value of the first claim on a name, which is this one if there was none."""

    async def replace_claim(self, name: str, value: str, expires_at: float) -> None:
        """Store a claim in place of the one on this name, if any."""

    async def find_claim(self, name: str) -> str | None:
        """Return the value of the claim on a name; None: there is none, or it has expired."""


class MemoryClaims:
    """Claims of this process. Implements `ClaimStore`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._claims: dict[str, tuple[str, float]] = {}

    async def claim(self, name: str, value: str, expires_at: float) -> str:
        """Return the value of the first claim on a name, which is this one if there was none."""
        now = self._clock()
        while self._claims:
            oldest = next(iter(self._claims))
            if len(self._claims) < limits.LOGIN_CLAIMS and self._claims[oldest][1] > now:
                break
            del self._claims[oldest]
        return self._claims.setdefault(name, (value, expires_at))[0]

    async def replace_claim(self, name: str, value: str, expires_at: float) -> None:
        """Store a claim in place of the one on this name, if any."""
        self._claims.pop(name, None)
        await self.claim(name, value, expires_at)

    async def find_claim(self, name: str) -> str | None:
        """Return the value of the claim on a name; None: there is none, or it has expired."""
        value, expires_at = self._claims.get(name, (None, 0.0))
        return value if expires_at > self._clock() else None
