"""Declare and read the fields of a settings struct, with their flags and variables.

    port: Annotated[int, setting("Port to listen on.", flag="--port")] = 3000

`hubbub.settings.read` fills them, and the command line makes its options from them.
"""

from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from hubbub.settings.secret import Secret

SECRET_SOURCE_FORM: Final = "SOURCE"
"""The form of a setting that says where a secret is, and never contains it."""


def setting(
    description: str,
    *,
    flag: str | None = None,
    env: str | None = None,
    form: str | None = None,
    switch: bool = False,
    in_file: bool = True,
    harmless: bool = False,
    names_file: bool = False,
    ignores_case: bool = False,
    **bounds: Any,
) -> msgspec.Meta:
    """Describe a setting.

    `flag` is its option on the command line, without a value if `switch`; `env` is a variable
    in addition to those derived from its name; `form` shows what a value looks like;
    `bounds` are those of `msgspec.Meta`.

    `harmless` allows an untrusted `hubbub.toml` in the working folder to set it. Only for
    settings that change how things are displayed, or hide things: never for settings that
    start programs, open addresses or files, change a limit or reduce security.

    `names_file` marks a setting that names a file or folder, by a path that may be relative.

    `ignores_case` turns a value from the environment into lower case.
    """
    extra = {
        "flag": flag,
        "env": env,
        "form": form,
        "switch": switch,
        "in_file": in_file,
        "harmless": harmless,
        "names_file": names_file,
        "ignores_case": ignores_case,
    }
    return msgspec.Meta(description=description, extra=extra, **bounds)


class Setting(msgspec.Struct, frozen=True):
    """One field of a settings struct."""

    name: str
    key: str
    """Its name in files and variables."""
    annotation: Any
    kind: Any
    """The annotation without `Annotated`."""
    default: Any
    """`NODEFAULT` if a value is required."""
    description: str
    extra: dict[str, Any]

    @property
    def flag(self) -> str | None:
        """The option on the command line."""
        flag: str | None = self.extra.get("flag")
        return flag

    @property
    def is_harmless(self) -> bool:
        """Whether an untrusted file may set it."""
        return self.extra.get("harmless") is True

    @property
    def names_file(self) -> bool:
        """Whether a value may be a relative path."""
        return self.extra.get("names_file") is True

    @property
    def ignores_case(self) -> bool:
        """Whether a value from the environment is turned into lower case."""
        return self.extra.get("ignores_case") is True

    @property
    def members(self) -> tuple[Any, ...]:
        """The types that a value may have."""
        members = get_args(self.kind) if get_origin(self.kind) in (Union, UnionType) else (self.kind,)
        return tuple(get_args(member)[0] if get_origin(member) is Annotated else member for member in members)

    @property
    def is_secret(self) -> bool:
        """Whether the value must never be shown."""
        return Secret in self.members or any(Secret in get_args(member) for member in self.members)

    @property
    def is_mapping(self) -> bool:
        """Whether the value is a mapping with arbitrary keys."""
        return any(get_origin(member) is dict for member in self.members)

    @property
    def is_list(self) -> bool:
        """Whether there may be several values."""
        return any((get_origin(member) or member) in (tuple, list, frozenset, set) for member in self.members)

    @property
    def is_section(self) -> bool:
        """Whether the value is a struct of settings itself."""
        return isinstance(self.kind, type) and issubclass(self.kind, msgspec.Struct)

    @property
    def optional_section(self) -> type[msgspec.Struct] | None:
        """The struct of settings, if the value is one or None."""
        structs = [member for member in self.members if isinstance(member, type) and issubclass(member, msgspec.Struct)]
        return structs[0] if structs and type(None) in self.members else None

    @property
    def named_sections(self) -> type[msgspec.Struct] | None:
        """The struct of each section, if the value is a table of named sections."""
        kind = get_args(self.kind)[-1] if get_origin(self.kind) is dict else None
        return kind if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None

    @property
    def table_kind(self) -> type[msgspec.Struct] | None:
        """The struct of each table, if the value is an array of tables."""
        kind = get_args(self.kind)[0] if get_origin(self.kind) is tuple else None
        return kind if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed values, if the type is a `Literal`."""
        return tuple(
            str(choice) for member in self.members if get_origin(member) is Literal for choice in get_args(member)
        )

    @property
    def form(self) -> str:
        """What a value looks like, for help texts and messages."""
        if self.choices:
            return "|".join(self.choices)
        form: str | None = self.extra.get("form")
        if form is not None:
            return form
        return {int: "N", bool: "true|false", float: "NUMBER"}.get(self.members[0], "TEXT")


@cache
def list_settings(kind: type[msgspec.Struct]) -> tuple[Setting, ...]:
    """The settings that a struct declares."""
    return tuple(_read_field(field) for field in msgspec.structs.fields(kind))


def _read_field(field: msgspec.structs.FieldInfo) -> Setting:
    kind = field.type
    metas: tuple[msgspec.Meta, ...] = ()
    if get_origin(kind) is Annotated:
        kind, *annotations = get_args(kind)
        metas = tuple(meta for meta in annotations if isinstance(meta, msgspec.Meta))
    description = next((meta.description for meta in metas if meta.description), "")
    extra: dict[str, Any] = {}
    for meta in metas:
        extra |= meta.extra or {}
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return Setting(field.name, field.encode_name, field.type, kind, default, description, extra)
