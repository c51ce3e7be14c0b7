"""Which keeper of campaigns the settings ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hubbub.packs.tabletop.backend import Backend
    from hubbub.packs.tabletop.settings import TabletopSettings


def choose_backend(settings: TabletopSettings) -> Backend:
    """One that is reached when it is first used; nothing is opened here.

    Raises: SettingsError, for a database that we cannot use.
    """
    raise NotImplementedError
