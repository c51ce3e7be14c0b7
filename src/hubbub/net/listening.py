"""For commands that listen: by default only this machine reaches them, and where they cannot they say what to do."""

from __future__ import annotations

import socket

from hubbub.errors import SettingsError
from hubbub.protocol.authority import is_loopback


def refuse_strangers(host: str, given: str, harm: str) -> None:
    """Refuse a host that others may reach. `given` is how it was asked for, `harm` what they may do then.

    Raises: SettingsError.
    """
    if not is_loopback(host):
        raise SettingsError(
            f"{given} may be reached by others, and whoever reaches it may {harm}; "
            "listen on 127.0.0.1, or add --insecure if that is what you want"
        )


def cannot_listen(host: str, port: int, error: OSError | OverflowError) -> SettingsError:
    """Why nothing can listen there, and which flag helps."""
    told = getattr(error, "strerror", None) or str(error).rstrip(".")
    flag = "--host" if isinstance(error, socket.gaierror) else "--port"
    return SettingsError(f"cannot listen on {host}:{port}: {told}; try another {flag}")
