"""Saves content that a terminal cannot show to new files; never overwrites a file."""

from __future__ import annotations

import mimetypes
import re
from pathlib import Path
from typing import Final

from hubbub import bounds
from hubbub.errors import SettingsError

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_DEFAULT_EXTENSION: Final = ".bin"
_EXTENSIONS: Final = {"audio/wav": ".wav", "audio/x-wav": ".wav", "image/webp": ".webp", "audio/ogg": ".ogg"}
"""Extensions that are missing in the tables of some systems."""


def save_file(data: bytes, *, stem: str, mime_type: str, folder: str | Path = ".") -> Path:
    """Write a new file; return its name.

    Raises:
        SettingsError: the folder cannot be written to.
    """
    name, extension = _safe_name(stem), _extension(mime_type)
    for number in range(1, bounds.SAVED_FILES + 1):
        path = Path(folder) / f"{name}{'' if number == 1 else f'-{number}'}{extension}"
        try:
            # Exclusive: neither an existing file nor the target of a link is overwritten.
            with path.open("xb") as file:
                file.write(data)
        except FileExistsError:
            continue
        except OSError as error:
            raise SettingsError(
                f"{path} cannot be written: {error.strerror}; choose another folder with --save-to"
            ) from error
        return path
    raise SettingsError(
        f"{Path(folder) / name}{extension} and {bounds.SAVED_FILES - 1} numbered files like it already exist; "
        "choose another folder with --save-to"
    )


def file_stem(uri: str) -> str:
    """The name of a file with the contents of a resource, without an extension."""
    return Path(uri.partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2]).stem


def _safe_name(stem: str) -> str:
    return _UNSAFE.sub("_", stem).lstrip(".-_")[: bounds.SAVED_NAME_CHARACTERS].rstrip(".") or "result"


def _extension(mime_type: str) -> str:
    media_type = mime_type.partition(";")[0].strip().lower()
    return _EXTENSIONS.get(media_type) or mimetypes.guess_extension(media_type) or _DEFAULT_EXTENSION
