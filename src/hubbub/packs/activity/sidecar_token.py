"""The shared token of a sidecar on a TCP port, needed because every user of a machine can send requests there.

It is in a file that only its user can read. `hubbub sidecar --port` creates it, and the pack reads it. If they run for
different users or on different machines, both get it from the settings. It is never sent: see `sidecar_proof`. The
sidecar's socket needs no token.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from hubbub import Secret, SettingsError
from hubbub.pack import data_folder, make_private_folder
from hubbub.pack.http import address_kind
from hubbub.packs.activity import limits
from hubbub.packs.activity.settings import ActivitySettings

_TOKEN_BYTES: Final = 32


def load_token(settings: ActivitySettings, *, create: bool = False) -> Secret | None:
    """Return the token; None if there is none and none is to be created.

    Raises: SettingsError, if it cannot be created or read.
    """
    if settings.sidecar_token:
        return settings.sidecar_token
    path = data_folder() / "activity" / "sidecar_token"
    try:
        return _read_token(path) or (_create(path) if create else None)
    except OSError as error:
        raise SettingsError(
            f"cannot read or create the sidecar token {path}: {error.strerror}; check its permissions"
        ) from error


def load_token_for(settings: ActivitySettings, url: str) -> Secret | None:
    """Return the token for the sidecar at a URL. A token from the file is only for a sidecar on this machine.

    Raises: SettingsError.
    """
    host = urlsplit(url).hostname or ""
    is_local = host == "localhost" or address_kind(host) == "loopback"
    return load_token(settings) if is_local or settings.sidecar_token else None


def _read_token(path: Path) -> Secret | None:
    try:
        with path.open("rb") as file:
            text = file.read(limits.STATE_FILE_BYTES).decode(errors="replace").strip()
    except FileNotFoundError:
        return None
    return Secret(text) if text else None


def _create(path: Path) -> Secret:
    make_private_folder(path.parent)
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{token}\n")
    except FileExistsError:
        raise SettingsError(f"the sidecar token {path} is empty; remove that file") from None
    return Secret(token)
