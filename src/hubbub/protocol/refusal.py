"""HTTP refusals, which are sent instead of serving a request.

The gate and the quotas create them, and the endpoint that called these sends them. The
message is for the person or model that sent the request and says what to do next.
"""

from __future__ import annotations

import msgspec


class Refusal(msgspec.Struct, frozen=True):
    """An HTTP status with a message and the headers that belong to it."""

    status: int
    message: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    retry_after_s: int | None = None
    """Seconds after which the request can be repeated."""
    principal: str | None = None
    """Name of the refused principal, if it is known."""
