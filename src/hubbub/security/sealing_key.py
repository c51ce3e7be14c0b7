"""The key of the one sealer, kept between two starts of a server.

Clients of an HTTP server may come back after it has started anew, with a cursor that
should still be good. The key is 64 hex digits in a file that only its owner can read,
in the user's data folder unless another is named. Read when something is first sealed.
"""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path

from hubbub.errors import SettingsError
from hubbub.security.sealed import KEY_BYTES
from hubbub.settings.folders import data_folder

logger = logging.getLogger("hubbub.security")


def read_key(path: Path) -> bytes:
    """The key in a file.

    Raises:
        SettingsError: it cannot be read, or is none.
    """
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise SettingsError(f"sealing_key_file: {path} cannot be read: {error.strerror}") from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise SettingsError(
            f"sealing_key_file: {path} must hold {2 * KEY_BYTES} hex digits; openssl rand -hex {KEY_BYTES} makes some"
        )
    return key


def kept_key(path: Path | None = None) -> bytes:
    """The key of the data folder, made when there is none; a passing one where nothing can be kept."""
    try:
        path = data_folder() / "sealing.key" if path is None else path
        if not path.exists():
            _create(path)
        return read_key(path)
    except (OSError, SettingsError) as error:
        logger.warning("sealing_key_not_kept", extra={"reason": type(error).__name__, "path": str(path)})
        return secrets.token_bytes(KEY_BYTES)


def _create(path: Path) -> None:
    """Write a new key, whole or not at all; the first of several processes wins."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()
