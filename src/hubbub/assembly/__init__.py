"""Putting a server together: the user's program, or packs, or both, with their settings.

Like `hubbub.app` it knows every part; that one runs what this one builds. The command
line calls both.
"""

from hubbub.assembly.assemble import assemble, settings_for
from hubbub.assembly.checking import check_sources
from hubbub.assembly.entries import PackEntry, find_packs
from hubbub.assembly.installing import Installed, install_pack
from hubbub.assembly.targets import load_target

__all__ = [
    "Installed",
    "PackEntry",
    "assemble",
    "check_sources",
    "find_packs",
    "install_pack",
    "load_target",
    "settings_for",
]
