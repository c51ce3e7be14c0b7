"""Health of the campaign store by its last accesses, for logs, health checks and metrics.

Each change is logged once, so that a store that fails for an hour does not fill the log.
"""

from __future__ import annotations

import logging
from typing import Literal, TypeAlias

from hubbub.pack import Metric

logger = logging.getLogger("hubbub.tabletop")
Access: TypeAlias = Literal["read", "write"]


class StoreStatus:
    """Results of the last reads and writes of one store."""

    def __init__(self) -> None:
        self._failing: set[Access] = set()
        self.failures = 0
        """Failed accesses so far."""

    @property
    def is_ok(self) -> bool:
        """Whether neither reads nor writes fail."""
        return not self._failing

    def is_failing(self, access: Access) -> bool:
        """Whether the last access of this kind failed."""
        return access in self._failing

    def record_failure(self, access: Access, reason: str) -> None:
        """Count a failed access; `reason` is for the operator."""
        self.failures += 1
        if access not in self._failing:
            self._failing.add(access)
            logger.error("store_failed", extra={"store": "tabletop", "access": access, "reason": reason})

    def record_success(self, access: Access) -> None:
        """Record a successful access."""
        if access in self._failing:
            self._failing.discard(access)
            logger.warning("store_recovered", extra={"store": "tabletop", "access": access})


def make_store_metrics(status: StoreStatus) -> list[Metric]:
    return [
        Metric("store_up", "1 while the store works.", "store", lambda: {"tabletop": float(status.is_ok)}),
        Metric(
            "store_failures",
            "Reads and writes of the store that failed.",
            "store",
            lambda: {"tabletop": status.failures},
            is_count=True,
        ),
    ]
