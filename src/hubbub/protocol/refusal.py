"""What the edge answers instead of serving a request.

Made by the gate and the quotas, written by whichever endpoint asked them. The
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
    """When trying again helps."""
    principal: str | None = None
    """Who is refused, where that is known."""
