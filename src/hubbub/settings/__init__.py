"""Typed settings, read from flags, the environment and `hubbub.toml`, in this order of precedence.

A setting is a field of a frozen struct; its description, flag and extra variables are in
the field's `Meta`. `hubbub.settings.serve` has the settings of the command `serve`, and each
pack has its own. Unknown keys in a file are refused, with the most similar known name.
"""

from hubbub.settings.fields import setting
from hubbub.settings.read import known_variables, read_pack_settings, read_settings
from hubbub.settings.secret import Secret
from hubbub.settings.serve import ServeSettings
from hubbub.settings.sources import Sources, collect_sources
from hubbub.suggestions import format_suggestion

__all__ = [
    "Secret",
    "ServeSettings",
    "Sources",
    "collect_sources",
    "format_suggestion",
    "known_variables",
    "read_pack_settings",
    "read_settings",
    "setting",
]
