"""Reads the accessibility tree: what programs say of their own windows, which is better than what can be seen.

On Linux that is AT-SPI, whose library comes with the system's Python and not as a package, so a
small script is run there (`accessibility_script`). Where it does not work, there is no tree.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from hubbub import bounds
from hubbub.packs.activity.privacy import Box

_SYSTEM_PYTHON: Final = "/usr/bin/python3"
_SCRIPT: Final = Path(__file__).with_name("accessibility_script.py")


class Node(msgspec.Struct, frozen=True):
    """One thing on the screen, as its program describes it."""

    role: str
    name: str
    app: str
    box: Box
    is_interactive: bool


def read_tree() -> list[Node] | None:
    """Everything with a name and a place; None where there is no tree."""
    if sys.platform != "linux" or not Path(_SYSTEM_PYTHON).exists() or not os.environ.get("DISPLAY"):
        return None
    try:
        done = subprocess.run(
            [_SYSTEM_PYTHON, str(_SCRIPT), str(bounds.SCREEN_ELEMENTS)],
            capture_output=True,
            timeout=bounds.ACCESSIBILITY_S,
            check=True,
        )
        return msgspec.json.decode(done.stdout, type=list[Node])
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
