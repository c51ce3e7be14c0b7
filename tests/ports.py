"""Ports for servers whose address must be known before they start."""

import random
import socket
from contextlib import suppress
from typing import Final

_PORTS: Final = (10_000, 32_000)
"""Below those that outgoing connections use: they would take a port before the server does, and a client that polls may
connect to itself."""


def free_port() -> int:
    """Return a port of 127.0.0.1 that is not in use."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port := random.randrange(*_PORTS)))
            return port
