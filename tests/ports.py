"""Ports for servers whose address must be known before they start."""

import random
import socket
from contextlib import suppress
from typing import Final

_PORTS: Final = (10_000, 32_000)
"""Lower than ephemeral ports: an outgoing connection could take one before the server does, and a polling client could
connect to itself."""


def free_port() -> int:
    """Return a port of 127.0.0.1 that is not in use."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port := random.randrange(*_PORTS)))
            return port
