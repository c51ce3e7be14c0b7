"""What the sidecar has to be told before it shows the screen: every user of a machine can send it requests.

It lies in a file that only its user can read. `hubbub sidecar` makes it, and the pack finds it there;
where they run for different users or on different machines, both are given it in the settings.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from hubbub import Secret, SettingsError
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.settings.folders import data_folder

_BYTES: Final = 32
_MOST_BYTES: Final = 1000


def token_of(settings: ActivitySettings, *, make: bool = False) -> Secret | None:
    """The token; None where there is none and none is to be made.

    Raises: SettingsError, if it cannot be made or read.
    """
    if settings.sidecar_token:
        return settings.sidecar_token
    path = data_folder() / "activity" / "sidecar_token"
    try:
        return _read(path) or (_make(path) if make else None)
    except OSError as error:
        raise SettingsError(f"the token of the sidecar in {path} cannot be used: {error.strerror}") from error


def _read(path: Path) -> Secret | None:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode(errors="replace").strip()
    except FileNotFoundError:
        return None
    return Secret(text) if text else None


def _make(path: Path) -> Secret:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    token = secrets.token_urlsafe(_BYTES)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{token}\n")
    except FileExistsError:
        raise SettingsError(f"the token of the sidecar in {path} is empty; remove that file") from None
    return Secret(token)
