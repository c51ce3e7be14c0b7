"""Fill a settings struct from the sources, and refuse what does not belong there."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from hubbub.errors import SettingsError
from hubbub.settings.fields import Setting, settings_of
from hubbub.settings.nearest import nearest
from hubbub.settings.secret import Secret
from hubbub.settings.sources import HUB, PACKS, PREFIX, SERVERS, VIEWS, Given, Sources, variables_of

S = TypeVar("S", bound=msgspec.Struct)
_RULE = re.compile(r"^Expected `\w+` ")
"""How msgspec begins to say which bound a value breaks."""


def read_settings(kind: type[S], sources: Sources, section: Sequence[str] = ()) -> S:
    """Read the settings of one section; the one without a name is the top of the file.

    Raises:
        SettingsError: a value does not fit, is missing, or has a name that nobody knows.
    """
    section = tuple(section)
    _refuse_unknown_keys(kind, sources, section)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in settings_of(kind):
        if setting.is_section:
            values[setting.name] = read_settings(setting.kind, sources, (*section, setting.key))
            continue
        if setting.named_sections is not None:
            place = (*section, setting.key)
            names = sources.file.table(place) if sources.file is not None else {}
            values[setting.name] = {
                name: read_settings(setting.named_sections, sources, (*place, name)) for name in names
            }
            continue
        given = sources.find(section, setting)
        if given is not None:
            values[setting.name] = _convert(given, setting)
            origins[setting.name] = given.origin
        elif setting.default is msgspec.NODEFAULT:
            raise _missing(setting, section)
    try:
        return kind(**values)
    except ValueError as error:  # What `__post_init__` has to say about values that do not go together.
        name, _, problem = str(error).partition(" ")
        if name in origins:
            raise SettingsError(f"{origins[name]} {problem}") from None
        raise SettingsError(f"{_place(sources, section)}: {error}") from error


def _place(sources: Sources, section: tuple[str, ...]) -> str:
    if section and sources.file is not None and sources.file.table(section):
        return sources.file.place(section)
    return f"settings {'.'.join(section) or 'of serve'}"


def known_variables(kind: type[msgspec.Struct], section: Sequence[str] = ()) -> set[str]:
    """Every variable that a struct's settings are read from."""
    section, names = tuple(section), set[str]()
    for setting in settings_of(kind):
        if setting.is_section:
            names |= known_variables(setting.kind, (*section, setting.key))
            continue
        if setting.named_sections is not None:
            continue  # only a file can name them
        variables = variables_of(section, setting)
        names.update(variables)
        if setting.is_secret:
            names.update(f"{name}_FILE" for name in variables)
    return names


def refuse_unknown_variables(environ: Iterable[str], known: Iterable[str]) -> None:
    """Refuse variables that look like ours and are not.

    Raises: SettingsError.
    """
    names = {name for name in known if name.startswith(PREFIX)}
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in names:
            raise SettingsError(f"the environment variable {name} is not a setting{nearest(name, names)}")


def _refuse_unknown_keys(kind: type[msgspec.Struct], sources: Sources, section: tuple[str, ...]) -> None:
    if sources.file is None:
        return
    known = {setting.key for setting in settings_of(kind) if setting.extra.get("in_file", True)}
    if not section:
        known |= {PACKS, SERVERS, HUB, VIEWS}
    for key in sources.file.table(section):
        if key not in known:
            raise SettingsError(f"{sources.file.place((*section, key))} is not a setting{nearest(key, known)}")


def _convert(given: Given, setting: Setting) -> Any:
    value = given.value
    try:
        if given.is_text and setting.is_mapping:
            value = msgspec.json.decode(value)
        elif given.is_text and setting.is_list:
            value = _split(value)
        return msgspec.convert(value, setting.annotation, strict=not given.is_text, dec_hook=_make_secret)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise SettingsError(f"{given.origin} {_expected(setting, given.value, str(error))}") from None


def _split(value: str | Sequence[str]) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    return [item for text in texts for item in map(str.strip, text.split(",")) if item]


def _make_secret(kind: type[Any], value: Any) -> Any:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError("must be text")


def _expected(setting: Setting, value: Any, problem: str) -> str:
    if setting.is_mapping:
        return f"must look like {setting.form}"
    if setting.is_secret:
        return "must be text"
    shown = str(value)[:80]
    if setting.choices:
        return f"must be one of {', '.join(setting.choices)}, not {shown!r}"
    if setting.extra.get("form") and not setting.is_list:
        return f"must look like {setting.form}, not {shown!r}"
    if "got" in problem:
        wanted = {int: "a whole number", bool: "true or false", float: "a number", str: "text"}.get(setting.members[0])
        if wanted is not None:
            return f"must be {wanted}, not {shown!r}"
    return f"must be {_RULE.sub('', problem)}, not {shown!r}"


def _missing(setting: Setting, section: tuple[str, ...]) -> SettingsError:
    path = ".".join([*section, setting.key])
    ways = [*([setting.flag] if setting.flag else []), variables_of(section, setting)[0], f"{path} in hubbub.toml"]
    return SettingsError(f"{path} must be set ({setting.description.rstrip('.')}); give {' or '.join(ways)}")
