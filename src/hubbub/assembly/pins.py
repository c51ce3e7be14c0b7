"""Adds the pins of the section `[pins]` to a hub."""

from __future__ import annotations

from pathlib import Path

from hubbub.governance.definition_lock import LOCK_FILE
from hubbub.governance.pins import Pins
from hubbub.hub.gateway import Gateway
from hubbub.hub.pinned_lists import use_pins
from hubbub.settings.governance import PINS, PinSettings
from hubbub.settings.read import read_settings
from hubbub.settings.sources import Sources


def add_pins(hub: Gateway, sources: Sources) -> Pins | None:
    """Read the lock file and apply it to the hub; None if pins are off.

    Raises: SettingsError, if the settings or the lock file are not valid.
    """
    settings = read_settings(PinSettings, sources, (PINS,))
    if settings.mode == "off":
        return None
    pins = Pins(find_lock_file(settings, sources), settings.mode)
    use_pins(hub, pins)
    return pins


def find_lock_file(settings: PinSettings, sources: Sources) -> Path:
    """The lock file that the settings name, or `hubbub.lock` beside the file that has the section `[pins]`."""
    if settings.file is not None:
        return Path(settings.file).expanduser()
    file = sources.file
    while file is not None and file.base is not None and PINS not in (file.own_tree or {}):
        file = file.base
    return Path.cwd() / LOCK_FILE if file is None else Path(file.path).absolute().with_name(LOCK_FILE)
