"""Where this user's data lies, on whatever system."""

from __future__ import annotations

from pathlib import Path


def data_folder() -> Path:
    """The folder of all that Hubbub keeps; whoever writes there makes it."""
    from platformdirs import user_data_path  # Most runs keep nothing.

    return user_data_path("hubbub", appauthor=False)
