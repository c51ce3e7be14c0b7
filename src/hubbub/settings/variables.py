"""Stored variables: values that `${NAME}` in the sections of servers refers to, if the environment has none.

A client that starts a hub often passes none of the variables of the user's shell. `hubbub import` stores the secrets
there that it found in the files of clients, so that no settings file holds them. One JSON file in the user's data
folder, which only the user can read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from hubbub.errors import SettingsError
from hubbub.settings.folders import data_folder, make_private_folder, replace_file

_FILE: Final = "variables.json"
_OTHERS: Final = 0o077


def variables_path() -> Path:
    """Return where the variables are stored."""
    return data_folder() / _FILE


def read_variables() -> dict[str, str]:
    """Return the stored variables; none if there is no file.

    Raises: SettingsError, if it cannot be read, is invalid, or other users can read it.
    """
    path = variables_path()
    try:
        with path.open("rb") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & _OTHERS:
                raise SettingsError(f"other users can read the secrets in {path}; run `chmod 600 {path}`")
            return msgspec.json.decode(file.read(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"the stored variables {path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise SettingsError(f"{path} is invalid; it must be a JSON object of texts, such as {{}}") from None


def write_variables(values: Mapping[str, str]) -> None:
    """Replace the stored variables.

    Raises: SettingsError. The file is then unchanged.
    """
    path = variables_path()
    try:
        make_private_folder(path.parent)
        replace_file(path, msgspec.json.format(msgspec.json.encode(dict(values)), indent=2) + b"\n")
    except OSError as error:
        raise SettingsError(f"the variables cannot be stored in {path}: {error.strerror}") from None
