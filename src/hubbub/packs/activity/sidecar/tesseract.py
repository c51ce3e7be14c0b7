"""Reads text from pictures with the program `tesseract`."""

from __future__ import annotations

import os
import re
import subprocess
from shutil import which
from typing import Final

import msgspec

from hubbub import bounds
from hubbub.packs.activity.privacy import Box
from hubbub.packs.activity.sidecar.engine import Refusal

PROGRAM: Final = "tesseract"
ADVICE: Final = "install tesseract: apt install tesseract-ocr, brew install tesseract, or winget install tesseract"
LANGUAGE: Final = re.compile(r"[A-Za-z_]{3,20}(?:\+[A-Za-z_]{3,20}){0,5}")
_SPARSE: Final = "11"
"""Find text wherever it is, in no order: a screen is no page."""
_COLUMNS: Final = 12
_VERSION: Final = re.compile(r"tesseract v?(\S+)")


class Line(msgspec.Struct, frozen=True):
    """A line of text."""

    text: str
    box: Box
    score: float


def version() -> str | None:
    """Of the program, which is really run; None if it is not there."""
    path = which(PROGRAM)
    if path is None:
        return None
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=bounds.ACCESSIBILITY_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search((done.stdout or done.stderr).decode(errors="replace"))
    return found[1] if found else "unknown"


def read_lines(png: bytes, scale: int, *, lang: str = "eng") -> list[Line]:
    """The lines of text in a picture that was enlarged so many times.

    Raises: Refusal.
    """
    command = [PROGRAM, "stdin", "stdout", "--psm", _SPARSE, "-l", lang, "tsv"]
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}  # more threads only get in each other's way
    try:
        done = subprocess.run(
            command, input=png, capture_output=True, timeout=bounds.OCR_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise Refusal(500, "parse_failed", f"reading took longer than {bounds.OCR_S:g} s") from None
    except OSError as error:
        raise Refusal(503, "preflight_only", ADVICE, preflight_ok=False, reason="ocr_missing") from error
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip().splitlines()
        raise Refusal(500, "parse_failed", f"tesseract: {told[0][:200] if told else 'failed'}")
    return _lines(done.stdout.decode("utf-8", errors="replace"), scale)


def _lines(table: str, scale: int) -> list[Line]:
    """Its words, put together line by line."""
    words: dict[tuple[str, ...], list[tuple[str, Box, float]]] = {}
    for row in table.splitlines()[1:]:
        columns = row.split("\t")
        if len(columns) != _COLUMNS or not columns[11].strip() or float(columns[10]) < 0:
            continue
        left, top, width, height = (float(value) / scale for value in columns[6:10])
        box = (left, top, left + width, top + height)
        words.setdefault(tuple(columns[1:5]), []).append((columns[11], box, float(columns[10]) / 100))
    return [_joined(found) for found in words.values()]


def _joined(words: list[tuple[str, Box, float]]) -> Line:
    boxes = [box for _, box, _ in words]
    around = (
        min(box[0] for box in boxes),
        min(box[1] for box in boxes),
        max(box[2] for box in boxes),
        max(box[3] for box in boxes),
    )
    return Line(
        " ".join(text for text, _, _ in words), around, round(sum(score for *_, score in words) / len(words), 3)
    )
