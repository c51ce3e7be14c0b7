"""Recognise text in pictures with the program `tesseract`."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Hashable
from shutil import which
from typing import Final

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.privacy import Box
from hubbub.packs.activity.sidecar.engine import SidecarError

PROGRAM: Final = "tesseract"
DEFAULT_LANGUAGE: Final = "eng"
ADVICE: Final = "install tesseract: apt install tesseract-ocr, brew install tesseract, or winget install tesseract"
_SPARSE_TEXT_MODE: Final = "11"
"""Page segmentation mode: find text anywhere, in no order, because a screen has no page layout."""
_TSV_COLUMNS: Final = 12
_VERSION: Final = re.compile(r"tesseract v?(\S+)")


class Line(msgspec.Struct, frozen=True):
    """A line of text."""

    text: str
    box: Box
    score: float


def version() -> str | None:
    """Return the version of the program by running it; None if it is not installed."""
    path = which(PROGRAM)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, timeout=limits.ACCESSIBILITY_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search((done.stdout or done.stderr).decode(errors="replace"))
    return found[1] if found else "unknown"


def installed_languages() -> list[str] | None:
    """Return the installed languages; None if they cannot be determined."""
    try:
        done = subprocess.run(
            [PROGRAM, "--list-langs"], capture_output=True, timeout=limits.ACCESSIBILITY_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").split("\n")[1:]


def require_language(lang: str) -> None:
    """Raises: SidecarError, if a language is not installed."""
    installed = installed_languages()
    missing = [] if installed is None else [each for each in lang.split("+") if each not in installed]
    if missing:
        packages = " ".join(f"tesseract-ocr-{each.lower().replace('_', '-')}" for each in missing)
        known = ", ".join(each for each in installed or [] if each and each != "osd") or "none"
        message = (
            f"tesseract has no language data for {' and '.join(missing)}: apt install {packages}, or put "
            f"{missing[0]}.traineddata into its tessdata folder. Installed: {known}"
        )
        raise SidecarError(503, "language_missing", message, missing_languages=missing)


def read_lines(
    png: bytes, scale: int, *, lang: str = DEFAULT_LANGUAGE, owner: Callable[[Box], Hashable] = lambda _: None
) -> list[Line]:
    """Return the lines of text in a picture that was enlarged by `scale`.

    `owner`: returns what shows a box, such as a window; words of different owners are not joined.

    Raises: SidecarError.
    """
    command = [PROGRAM, "stdin", "stdout", "--psm", _SPARSE_TEXT_MODE, "-l", lang, "tsv"]
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}  # more threads only slow each other down
    try:
        done = subprocess.run(
            command, input=png, capture_output=True, timeout=limits.OCR_TIMEOUT_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise SidecarError(500, "parse_failed", f"tesseract took longer than {limits.OCR_TIMEOUT_S:g} s") from None
    except OSError as error:
        raise SidecarError(503, "preflight_only", ADVICE, preflight_ok=False, reason="ocr_missing") from error
    if done.returncode:
        error_lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise SidecarError(500, "parse_failed", f"tesseract: {error_lines[0][:200] if error_lines else 'failed'}")
    return _parse_table(done.stdout.decode("utf-8", errors="replace"), scale, owner)


def _parse_table(table: str, scale: int, owner: Callable[[Box], Hashable]) -> list[Line]:
    """Join the words of tesseract's table into lines."""
    words: dict[tuple[Hashable, ...], list[tuple[str, Box, float]]] = {}
    for row in table.splitlines()[1:]:
        columns = row.split("\t")
        if len(columns) != _TSV_COLUMNS or not columns[11].strip() or float(columns[10]) < 0:
            continue
        left, top, width, height = (float(value) / scale for value in columns[6:10])
        box = (left, top, left + width, top + height)
        words.setdefault((*columns[1:5], owner(box)), []).append((columns[11], box, float(columns[10]) / 100))
    return [_join_words(found) for found in words.values()]


def _join_words(words: list[tuple[str, Box, float]]) -> Line:
    boxes = [box for _, box, _ in words]
    bounding_box = (
        min(box[0] for box in boxes),
        min(box[1] for box in boxes),
        max(box[2] for box in boxes),
        max(box[3] for box in boxes),
    )
    return Line(
        " ".join(text for text, _, _ in words), bounding_box, round(sum(score for *_, score in words) / len(words), 3)
    )
