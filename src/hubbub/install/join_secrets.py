"""Creates the secret that a preset needs, where the server reads it: in the system's keyring or in a private file."""

from __future__ import annotations

from pathlib import Path
from secrets import token_urlsafe
from typing import Final, Literal, TypeAlias

from hubbub.errors import SettingsError
from hubbub.security.system_keyring import read_keyring, write_keyring
from hubbub.server.pack import Preset
from hubbub.settings.folders import data_folder, make_private_folder, replace_file

SecretPlace: TypeAlias = Literal["keyring", "file"]

_SERVICE: Final = "hubbub"


def make_secret_variables(preset: Preset, place: SecretPlace) -> dict[str, str]:
    """Return the variables with the location of the secret, for the server. They do not contain the secret.

    Raises: SettingsError, if the preset needs none, or the server cannot read it from there.
    """
    if preset.secret is None:
        raise SettingsError("--create-secret is for presets that need a secret, such as secure-core")
    if place == "file":
        return {f"{preset.secret}_FILE": str(_secret_file(preset.secret))}
    if preset.keyring is None:
        raise SettingsError("the server of this preset cannot read the keyring; use --create-secret file")
    return {preset.keyring: f"{_SERVICE}/{preset.secret}"}


def create_secret(preset: Preset, place: SecretPlace) -> bool:
    """Create the secret; False if there is one already, which is kept because other peers may share it.

    Raises: SettingsError.
    """
    variable = str(preset.secret)
    return _create_in_keyring(variable) if place == "keyring" else _create_file(_secret_file(variable))


def _secret_file(variable: str) -> Path:
    return data_folder() / "secrets" / variable.lower()


def _create_file(path: Path) -> bool:
    """Write the file in one step, so that an interrupted installation leaves no empty one."""
    try:
        make_private_folder(path.parent)
        if path.exists() and path.read_bytes().strip():
            return False
        replace_file(path, f"{token_urlsafe(32)}\n".encode())
    except OSError as error:
        raise SettingsError(f"the secret {path} cannot be read or written: {error.strerror}") from None
    return True


def _create_in_keyring(variable: str) -> bool:
    try:
        if read_keyring(_SERVICE, variable):
            return False
        write_keyring(_SERVICE, variable, token_urlsafe(32))
    except SettingsError as error:
        raise SettingsError(f"--create-secret keyring: {error.message}; use --create-secret file") from None
    return True
