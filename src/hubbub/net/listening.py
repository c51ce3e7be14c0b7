"""For commands that let in whoever reaches them: by default only this machine does."""

from __future__ import annotations

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
