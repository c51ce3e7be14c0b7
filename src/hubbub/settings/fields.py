"""The fields of a settings struct, with what their `Meta` says about them.

    port: Annotated[int, setting("Port to listen on.", flag="--port")] = 3000

Read by `hubbub.settings.read` to fill them, and by the command line to make its options.
"""

from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from hubbub.settings.secret import Secret


def setting(
    description: str,
    *,
    flag: str | None = None,
    env: str | None = None,
    form: str | None = None,
    switch: bool = False,
    in_file: bool = True,
    **bounds: Any,
) -> msgspec.Meta:
    """Describe a setting.

    `flag` is its option on the command line and `switch` one without a value, `env` a
    variable besides those that follow from its name, `form` what a value looks like;
    `bounds` are those of `msgspec.Meta`.
    """
    extra = {"flag": flag, "env": env, "form": form, "switch": switch, "in_file": in_file}
    return msgspec.Meta(description=description, extra=extra, **bounds)


class Setting(msgspec.Struct, frozen=True):
    """One field."""

    name: str
    key: str
    """Its name in files and variables."""
    annotation: Any
    kind: Any
    """The annotation without `Annotated`."""
    default: Any
    """`NODEFAULT` where one must be given."""
    description: str
    extra: dict[str, Any]

    @property
    def flag(self) -> str | None:
        """The option on the command line."""
        flag: str | None = self.extra.get("flag")
        return flag

    @property
    def members(self) -> tuple[Any, ...]:
        """The types that a value may have."""
        return get_args(self.kind) if get_origin(self.kind) in (Union, UnionType) else (self.kind,)

    @property
    def is_secret(self) -> bool:
        """Whether the value must never be shown."""
        return Secret in self.members or any(Secret in get_args(member) for member in self.members)

    @property
    def is_mapping(self) -> bool:
        """Whether the value has names of its own."""
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
    def named_sections(self) -> type[msgspec.Struct] | None:
        """The settings of each section, if the value is any number of them by name."""
        kind = get_args(self.kind)[-1] if get_origin(self.kind) is dict else None
        return kind if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None

    @property
    def choices(self) -> tuple[str, ...]:
        """The only values there are, if the type names them."""
        return tuple(
            str(choice) for member in self.members if get_origin(member) is Literal for choice in get_args(member)
        )

    @property
    def form(self) -> str:
        """What a value looks like, for people."""
        if self.choices:
            return "|".join(self.choices)
        form: str | None = self.extra.get("form")
        if form is not None:
            return form
        return {int: "N", bool: "true|false", float: "NUMBER"}.get(self.members[0], "TEXT")


@cache
def settings_of(kind: type[msgspec.Struct]) -> tuple[Setting, ...]:
    """The settings that a struct declares."""
    return tuple(_read(field) for field in msgspec.structs.fields(kind))


def _read(field: msgspec.structs.FieldInfo) -> Setting:
    kind = field.type
    metas: tuple[msgspec.Meta, ...] = ()
    if get_origin(kind) is Annotated:
        kind, *found = get_args(kind)
        metas = tuple(meta for meta in found if isinstance(meta, msgspec.Meta))
    description = next((meta.description for meta in metas if meta.description), "")
    extra: dict[str, Any] = {}
    for meta in metas:
        extra |= meta.extra or {}
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return Setting(field.name, field.encode_name, field.type, kind, default, description, extra)
