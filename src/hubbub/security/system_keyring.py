"""Secrets in the keyring of the operating system.

The only module of the core that imports keyring, an optional library. The functions block: call them in a thread.
"""

from __future__ import annotations

from typing import Any

from hubbub.errors import SettingsError


def read_keyring(service: str, user: str) -> str | None:
    """Return an entry; None if there is none.

    Raises: SettingsError, which says what to do.
    """
    keyring, keyring_error = _import_keyring()
    try:
        return keyring.get_password(service, user)  # type: ignore[no-any-return]
    except (keyring_error, RuntimeError) as error:
        raise _unusable(error) from None


def write_keyring(service: str, user: str, value: str) -> None:
    """Create or replace an entry.

    Raises: SettingsError, which says what to do.
    """
    keyring, keyring_error = _import_keyring()
    try:
        keyring.set_password(service, user, value)
    except (keyring_error, RuntimeError) as error:
        raise _unusable(error) from None


def delete_keyring(service: str, user: str) -> None:
    """Delete an entry, if there is one.

    Raises: SettingsError, which says what to do.
    """
    keyring, keyring_error = _import_keyring()
    try:
        if keyring.get_password(service, user) is not None:
            keyring.delete_password(service, user)
    except (keyring_error, RuntimeError) as error:
        raise _unusable(error) from None


def is_keyring_usable() -> bool:
    """Whether the library is installed, and has a keyring that answers."""
    try:
        read_keyring("hubbub", "probe")
    except SettingsError:
        return False
    return True


def _import_keyring() -> tuple[Any, type[Exception]]:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise SettingsError(
            "the keyring library is missing: install Hubbub with its extra 'keyring' "
            "(in a clone: pip install -e '.[keyring]')"
        ) from None
    return keyring, KeyringError


def _unusable(error: Exception) -> SettingsError:
    return SettingsError(f"the system's keyring cannot be used: {error}")
