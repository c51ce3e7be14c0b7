"""The user's folders, each where the system wants it: for what is kept, and for what runs now."""

from pathlib import Path
from typing import Final

_NAME: Final = "hubbub"


def data_folder() -> Path:
    """For what must outlive the process, such as keys."""
    from platformdirs import user_data_path

    return user_data_path(_NAME, appauthor=False)


def state_folder() -> Path:
    """For what processes tell each other about themselves."""
    from platformdirs import user_state_path

    return user_state_path(_NAME, appauthor=False)
