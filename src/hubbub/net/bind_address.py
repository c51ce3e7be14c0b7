"""Bind addresses: refuse one that other machines can reach unless `--insecure` is set, and report one that fails."""

from __future__ import annotations

import errno
import socket

from hubbub.errors import SettingsError
from hubbub.protocol.host_origin import is_loopback


def require_loopback(host: str, option: str, harm: str, *, insecure: bool) -> None:
    """Refuse a host that other machines can reach, unless `insecure`.

    `option` is how the host was given, such as `--host 0.0.0.0`; `harm` completes "anyone who connects could …".

    Raises: SettingsError.
    """
    if not insecure and not is_loopback(host):
        raise SettingsError(
            f"{option} can be reached from other machines, and anyone who connects could {harm}; "
            "listen on 127.0.0.1, or add --insecure to accept this"
        )


def listen_error(host: str, port: int | None, reason: Exception | str, *, option: str | None = None) -> SettingsError:
    """Return the error for an address that cannot be listened on; it suggests to change `option`.

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
