"""Read the accessibility tree: programs describe their own windows there, more reliably than text recognition can.

On Linux this is AT-SPI, whose library comes with the system's Python and not as a package, so a small script is run
with that Python (`accessibility_script`). Where that does not work, there is no tree.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.privacy import Box

ADVICE: Final = (
    "turn accessibility on (apt install at-spi2-core gir1.2-atspi-2.0 python3-gi, then "
    "gsettings set org.gnome.desktop.interface toolkit-accessibility true) and restart the browser"
)
_SYSTEM_PYTHON: Final = "/usr/bin/python3"
_SCRIPT: Final = Path(__file__).with_name("accessibility_script.py")


class Frame(msgspec.Struct, frozen=True):
    """A window as described by its program."""

    app: str
    pid: int
    name: str
    box: Box


class Node(msgspec.Struct, frozen=True):
    """An element of the screen as described by its program."""

    role: str
    name: str
    frame: int
    """Index of its window in the list of frames."""
    box: Box
    is_interactive: bool


class AccessibilityTree(msgspec.Struct, frozen=True):
    """The windows and elements of all programs."""

    frames: list[Frame] = []
    nodes: list[Node] = []


def read_tree() -> AccessibilityTree | None:
    """Read all windows and the named elements in them; None if there is no accessibility tree."""
    if sys.platform != "linux" or not Path(_SYSTEM_PYTHON).exists() or not os.environ.get("DISPLAY"):
        return None
    # Shorter than the timeout below: a program that does not answer can delay the script a little longer.
    script_timeout_s = limits.ACCESSIBILITY_TIMEOUT_S * 0.6
    command = [_SYSTEM_PYTHON, str(_SCRIPT), str(2 * limits.SCREEN_ELEMENTS), str(script_timeout_s)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limits.ACCESSIBILITY_TIMEOUT_S, check=True
        )
        output = done.stdout
    except subprocess.TimeoutExpired as expired:
        output = expired.stdout or b""  # a program hangs; the output of the others came before
    except (OSError, subprocess.SubprocessError):
        return None
    frames, _, nodes = output.partition(b"\n")
    try:
        found = msgspec.json.decode(frames, type=list[Frame])
    except ValueError:
        return None
    try:
        return AccessibilityTree(found, msgspec.json.decode(nodes, type=list[Node]))
    except ValueError:
        return AccessibilityTree(found)
