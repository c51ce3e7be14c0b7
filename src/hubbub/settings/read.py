"""Fill a settings struct from the sources, and refuse what does not belong there."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.settings.fields import SECRET_SOURCE_FORM, Setting, list_settings
from hubbub.settings.invalid_values import SECRET_SOURCE_ADVICE, describe_choices, find_invalid_value
from hubbub.settings.secret import Secret
from hubbub.settings.sources import (
    GOVERNANCE,
    HUB,
    OAUTH,
    PACKS,
    SERVERS,
    USER_VARIABLES,
    VARIABLE_PREFIX,
    VIEWS,
    GivenValue,
    Sources,
    collect_sources,
    is_service_link,
    variable_names,
)
from hubbub.suggestions import find_closest, format_suggestion

S = TypeVar("S", bound=msgspec.Struct)
_TRUE_WORDS = ("1", "true", "yes", "y", "on")
_FALSE_WORDS = ("0", "false", "no", "n", "off")


def read_settings(kind: type[S], sources: Sources, section: Sequence[str] = ()) -> S:
    """Read the settings of one section; the empty section is the top level of the file.

    Raises:
        SettingsError: a value does not fit or is missing, or a key is unknown.
    """
    section = tuple(section)
    _refuse_unknown_keys(kind, sources, section)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in list_settings(kind):
        if setting.is_section:
            values[setting.name] = read_settings(setting.kind, sources, (*section, setting.key))
            continue
        if setting.optional_section is not None:
            _refuse_literal_secret(sources, section, setting)
            if has_section(sources, (*section, setting.key)):
                values[setting.name] = read_settings(setting.optional_section, sources, (*section, setting.key))
            continue
        if setting.named_sections is not None:
            parent = (*section, setting.key)
            names = sources.file.table(parent) if sources.file is not None else {}
            values[setting.name] = {
                name: read_settings(setting.named_sections, sources, (*parent, name)) for name in names
            }
            continue
        if setting.table_kind is not None:
            values[setting.name] = read_table_list(setting.table_kind, sources, (*section, setting.key))
            continue
        given = sources.find(section, setting)
        if given is not None:
            values[setting.name] = _convert(given, setting, sources)
            origins[setting.name] = given.origin
        elif setting.default is msgspec.NODEFAULT:
            raise _missing_error(setting, section)
    try:
        return kind(**values)
    except ValueError as error:  # `__post_init__` refuses combinations of values.
        name, _, problem = str(error).partition(" ")
        if name in origins:
            raise SettingsError(f"{origins[name]} {problem}") from None
        raise SettingsError(f"{_describe_location(sources, section)}: {error}") from error


def has_section(sources: Sources, section: Sequence[str]) -> bool:
    """Whether a file has this section, or a variable sets one of its values."""
    *parents, name = section
    prefix = VARIABLE_PREFIX + "__".join(part.replace("-", "_").upper() for part in section) + "__"
    in_file = sources.file is not None and name in sources.file.table(parents)
    return in_file or any(variable.startswith(prefix) for variable in sources.environ)


def read_table_list(kind: type[S], sources: Sources, section: Sequence[str]) -> tuple[S, ...]:
    """Read an array of tables, such as `[[tenants]]`; only a file can have one.

    Raises:
        SettingsError: a table does not fit; the message names its line.
    """
    *parents, name = section
    table = sources.file.table(parents) if sources.file is not None else {}
    items = table.get(name, [])
    if not items:
        return ()
    assert sources.file is not None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise SettingsError(f"{sources.file.locate(section)} must be an array of tables: [[{'.'.join(section)}]]")
    found = []
    for index, item in enumerate(items):
        try:
            found.append(_convert_value(item, kind))
        except ValueError:  # also of `__post_init__`
            invalid = find_invalid_value(kind, item, _convert_value)
            place = sources.file.locate((*section, str(index), *invalid.path))
            raise SettingsError(f"{place} {invalid.problem}") from None
    return tuple(found)


def read_pack_settings(kind: type[S], pack: str, flags: Mapping[str, Any] | None = None) -> S:
    """Read the settings of one pack as `hubbub serve` does. `flags` are values by option, such as `{"--port": 80}`.

    Raises:
        SettingsError: a value does not fit, is missing, or a settings file cannot be read or is not trusted.
    """
    return read_settings(kind, collect_sources(flags or {}), (PACKS, pack))


def _describe_location(sources: Sources, section: tuple[str, ...]) -> str:
    if section and sources.file is not None and section[-1] in sources.file.table(section[:-1]):
        return sources.file.locate(section)
    return f"settings {'.'.join(section) or 'of serve'}"


def known_variables(kind: type[msgspec.Struct], section: Sequence[str] = ()) -> set[str]:
    """Every variable that a struct's settings are read from."""
    section, names = tuple(section), set[str]()
    for setting in list_settings(kind):
        if setting.is_section:
            names |= known_variables(setting.kind, (*section, setting.key))
            continue
        if setting.optional_section is not None:
            names |= known_variables(setting.optional_section, (*section, setting.key))
            continue
        if setting.named_sections is not None or setting.table_kind is not None:
            continue  # only a file can have them
        variables = variable_names(section, setting)
        names.update(variables)
        if setting.is_secret:
            names.update(f"{name}_FILE" for name in variables)
    return names


def unknown_variables(environ: Mapping[str, str], known: Collection[str]) -> list[str]:
    """`HUBBUB_*` variables that are not settings, except those that Kubernetes injects for a Service."""
    return sorted(
        name
        for name, value in environ.items()
        if name.startswith(VARIABLE_PREFIX)
        and name not in known
        and name not in USER_VARIABLES
        and not is_service_link(name, value)
    )


def describe_unknown_variables(unknown: Sequence[str], known: Iterable[str]) -> str:
    """Return a warning that names the variables, each with the most similar setting."""
    names = {name.removeprefix(VARIABLE_PREFIX) for name in known if name.startswith(VARIABLE_PREFIX)}
    shown = []
    for name in unknown[: bounds.SHOWN_KEYS]:
        close = find_closest(name.removeprefix(VARIABLE_PREFIX), names)
        shown.append(f"{name} (did you mean {VARIABLE_PREFIX}{close}?)" if close is not None else name)
    more = f" and {len(unknown) - len(shown)} more" if len(unknown) > len(shown) else ""
    return f"unknown environment variables were ignored: {', '.join(shown)}{more}"


def _refuse_unknown_keys(kind: type[msgspec.Struct], sources: Sources, section: tuple[str, ...]) -> None:
    if sources.file is None:
        return
    known = {setting.key for setting in list_settings(kind) if setting.extra.get("in_file", True)}
    if not section:
        known |= {PACKS, SERVERS, HUB, VIEWS, OAUTH, *GOVERNANCE}
    for key in sources.file.table(section):
        if key not in known:
            place = sources.file.locate((*section, key))
            if section and _is_top_level(key) and find_closest(key, known) != key:
                raise SettingsError(
                    f"{place} is not a setting; {key!r} belongs to the top level: put it before the first [section]"
                )
            raise SettingsError(f"{place} is not a setting{format_suggestion(key, known)}")


def _is_top_level(key: str) -> bool:
    from hubbub.settings.serve import ServeSettings  # Only needed for error messages.

    return any(setting.key == key and setting.extra.get("in_file", True) for setting in list_settings(ServeSettings))


def _refuse_literal_secret(sources: Sources, section: tuple[str, ...], setting: Setting) -> None:
    """Refuse a secret that was written in place of its source, without showing it."""
    if setting.extra.get("form") == SECRET_SOURCE_FORM and sources.file is not None:
        value = sources.file.table(section).get(setting.key, {})
        if not isinstance(value, dict):
            raise SettingsError(f"{sources.file.locate((*section, setting.key))} {SECRET_SOURCE_ADVICE}")


def _convert_value(value: Any, annotation: Any, *, strict: bool = True) -> Any:
    return msgspec.convert(value, annotation, strict=strict, dec_hook=_make_secret)


def _convert(given: GivenValue, setting: Setting, sources: Sources) -> Any:
    value = _normalize(given.value, setting) if given.is_variable else given.value
    try:
        if given.is_text and setting.is_mapping:
            value = msgspec.json.decode(value)
        elif given.is_text and setting.is_list:
            value = _split_or_refuse(given, value)
        return _convert_value(value, setting.annotation, strict=not given.is_text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise _invalid_value_error(given, setting, value, sources) from None


def _invalid_value_error(given: GivenValue, setting: Setting, value: Any, sources: Sources) -> SettingsError:
    if given.is_text:
        return SettingsError(f"{given.origin} {_describe_text(setting, given.value, value)}")
    invalid = find_invalid_value(setting.annotation, value, _convert_value)
    if given.path and sources.file is not None:
        return SettingsError(f"{sources.file.locate((*given.path, *invalid.path))} {invalid.problem}")
    return SettingsError(f"{'.'.join((given.origin, *invalid.path))} {invalid.problem}")


def _normalize(text: str, setting: Setting) -> str:
    """Normalize a variable: ignore spaces, the case of fixed names, and other words for true and false.

    Other texts stay as they are and are an error later: a guess might turn off what the operator wants on.
    """
    if setting.is_secret:
        return text
    text = text.strip()
    word = text.lower()
    if bool in setting.members:
        return "true" if word in _TRUE_WORDS else "false" if word in _FALSE_WORDS else text
    if setting.ignores_case:
        return word
    return next((choice for choice in setting.choices if choice.lower() == word), text)


def _split_or_refuse(given: GivenValue, value: Any) -> list[str]:
    """Split a list; refuse an empty one, which may come from an unset shell variable and mean "no restriction"."""
    items = _split(value)
    is_blank_variable = given.is_variable and not value.strip()
    if not items and not is_blank_variable:
        raise SettingsError(f"{given.origin} is empty; give a value, or leave it out")
    return items


def _split(value: str | Sequence[str]) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    return [item for text in texts for item in map(str.strip, text.split(",")) if item]


def _make_secret(kind: type[Any], value: Any) -> Any:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError("must be text")


def _describe_text(setting: Setting, text: Any, value: Any) -> str:
    """Describe what the text of a flag or a variable must be."""
    if setting.is_mapping:
        return f"must look like {setting.form}"
    if setting.is_secret:
        return "must be text"
    if setting.choices:
        return describe_choices(setting.choices, text)
    return find_invalid_value(setting.annotation, value, partial(_convert_value, strict=False)).problem


def _missing_error(setting: Setting, section: tuple[str, ...]) -> SettingsError:
    path = ".".join([*section, setting.key])
    ways = [*([setting.flag] if setting.flag else []), variable_names(section, setting)[0], f"{path} in hubbub.toml"]
    return SettingsError(f"{path} must be set ({setting.description.rstrip('.')}); set {' or '.join(ways)}")
