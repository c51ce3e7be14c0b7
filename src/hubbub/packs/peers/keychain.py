"""The join token's secret, from the settings or from the system's keyring. The only module that imports keyring."""

from __future__ import annotations

from hubbub.errors import SettingsError
from hubbub.packs.peers.settings import PeersSettings


def join_token_secrets(settings: PeersSettings) -> tuple[str, ...]:
    """The secrets that join tokens may be signed with; the first is the one to sign with.

    Raises:
        SettingsError: the keyring cannot be read, or has no such secret.
    """
    # A secret of nothing is none: anybody could sign with it.
    old = filter(None, (secret.reveal().strip() for secret in settings.join_token_old_secrets))
    secret = settings.join_token_secret.reveal().strip() if settings.join_token_secret else ""
    if secret:
        return (secret, *old)
    if settings.join_token_keyring is not None:
        return (_read(settings.join_token_keyring), *old)
    return ()


def _read(entry: str) -> str:
    service, _, name = entry.partition("/")
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError as error:
        raise SettingsError("join_token_keyring needs the keyring library: pip install 'hubbub[keyring]'") from error
    try:
        secret = (keyring.get_password(service, name) or "").strip()
    except KeyringError as error:
        raise SettingsError(f"join_token_keyring: the system's keyring cannot be read: {error}") from error
    if not secret:
        raise SettingsError(
            f"join_token_keyring: the system's keyring has no secret {entry!r}; put it there with "
            f"`keyring set {service} {name}`"
        )
    return secret
