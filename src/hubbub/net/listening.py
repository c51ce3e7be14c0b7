"""Rules and messages for commands that listen: which addresses need `--insecure`, and why one cannot be used."""

from __future__ import annotations

import errno
import socket

from hubbub.errors import SettingsError
from hubbub.protocol.authority import is_loopback


def require_loopback(host: str, option: str, harm: str, *, insecure: bool) -> None:
    """Refuse a host that other machines may reach, unless `insecure`.

    `option` is how the host was given, such as `--host 0.0.0.0`; `harm` completes "whoever reaches it may …".

    Raises: SettingsError.
    """
    if not insecure and not is_loopback(host):
        raise SettingsError(
            f"{option} may be reached by others, and whoever reaches it may {harm}; "
            "listen on 127.0.0.1, or add --insecure if that is what you want"
        )


def listen_error(host: str, port: int | None, reason: Exception | str, *, option: str | None = None) -> SettingsError:
    """The error for an address that cannot be listened on. `option` is the one to change: `--host` or `--port`.

    Without a port, `host` is the path of a Unix socket.
    """
    is_host = isinstance(reason, socket.gaierror) or getattr(reason, "errno", None) == errno.EADDRNOTAVAIL
    reason = getattr(reason, "strerror", None) or str(reason).rstrip(".")
    option = option or ("--host" if is_host else "--port")
    address = host if port is None else format_address(host, port)
    return SettingsError(f"cannot listen on {address}: {reason}; try another {option}")


def format_address(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
