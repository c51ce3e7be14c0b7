"""Typed settings, read from flags, the environment and `hubbub.toml`, in this order of precedence.

A setting is a field of a frozen struct; what it means, its flag and its extra variables
stand in the field's `Meta`. `hubbub.settings.serve` has those of the command `serve`,
each pack brings its own. Whatever nobody knows is refused, with the nearest name.
"""

from hubbub.settings.fields import setting
from hubbub.settings.nearest import nearest
from hubbub.settings.read import known_variables, read_settings, refuse_unknown_variables
from hubbub.settings.secret import Secret
from hubbub.settings.serve import ServeSettings
from hubbub.settings.sources import Sources, gather

__all__ = [
    "Secret",
    "ServeSettings",
    "Sources",
    "gather",
    "known_variables",
    "nearest",
    "read_settings",
    "refuse_unknown_variables",
    "setting",
]
