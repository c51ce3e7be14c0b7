"""Check that a result, as JSON, matches the declared return type of its function.

Clients check results against the output schema and refuse those that do not match, so a
mistake of the author must not be sent as a success. The JSON is decoded once more by
msgspec into plain structs of the declared form, so that no code of the author runs.
Results of a scalar type are checked by their Python type alone. `hubbub.protocol.schema`
creates the check when a function returns for the first time.
"""

import datetime
import math
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Final, ForwardRef, Literal, Union

import msgspec
from msgspec import inspect as described

from hubbub.protocol import foreign
from hubbub.protocol.schema import with_whole_numbers
from hubbub.protocol.type_info import OBJECTS, types_inside, without_metadata

_NUMBERS = ("ge", "gt", "le", "lt", "multiple_of")
_LENGTHS = ("min_length", "max_length")
_ANYTHING = (described.AnyType, described.RawType, described.CustomType)
_NULL: Final = b"null"
_SIMPLE: dict[type[described.Type], Any] = {
    described.NoneType: None,
    described.BoolType: bool,
    described.BytesType: str,
    described.ByteArrayType: str,
    described.MemoryViewType: str,
    described.DateType: datetime.date,
    described.TimeDeltaType: datetime.timedelta,
    described.UUIDType: uuid.UUID,
    described.DecimalType: str,
}
_LIMITED: dict[type[described.Type], tuple[Any, tuple[str, ...]]] = {
    described.IntType: (int, _NUMBERS),
    described.FloatType: (float, _NUMBERS),
    described.StrType: (str, (*_LENGTHS, "pattern")),
    described.DateTimeType: (datetime.datetime, ("tz",)),
    described.TimeType: (datetime.time, ("tz",)),
}

Refer = Callable[[Any], Any]


def getitem(generic: Any, arguments: Any) -> Any:
    """Return `generic[arguments]`, for arguments known at run time only."""
    return generic[arguments]


class ResultCheck:
    """Checks results against one return type."""

    def __init__(self, annotation: Any) -> None:
        (info,) = described.multi_type_info([annotation])
        self._scalar = annotation if annotation in (int, bool, str) else None
        self._is_float = annotation is float
        self._hides_nan = any(map(_hides_nan, types_inside([info])))
        """Whether null in the JSON may come from NaN or an infinite number."""
        self._mirrors: dict[Any, Any] = {}
        self._decode = msgspec.json.Decoder(self._form(info), strict=True).decode

    def check(self, value: Any, encoded: bytes) -> None:
        """Check a value by its JSON.

        Raises:
            ValueError: it is not of the declared type, or holds NaN or an infinite number.
        """
        kind = type(value)
        if kind is self._scalar or (self._is_float and kind is float and math.isfinite(value)):
            return
        try:
            self._decode(encoded)
        except msgspec.ValidationError as error:
            whole = with_whole_numbers(encoded, error)
            try:
                if whole is None:
                    raise
                self._decode(whole)
            except msgspec.ValidationError as reason:
                refuse_nan(value, encoded)
                raise ValueError(_format_mismatch(reason)) from None
        if self._hides_nan:
            refuse_nan(value, encoded)

    def _form(self, info: Any) -> Any:
        """The type that the JSON of a result is read into."""
        self._mirror_all(info)
        return self._plain(info, self._mirrors.__getitem__)

    def _mirror_all(self, info: Any) -> None:
        """Make a struct for every class inside. They refer to each other by name, as classes may be recursive."""
        found = {part.cls: part for part in types_inside([info]) if isinstance(part, OBJECTS)}
        names = {cls: f"Mirror{number}" for number, cls in enumerate(found)}
        for cls, part in found.items():
            self._mirrors[cls] = self._mirror(part, lambda inner: ForwardRef(names[inner]))
        for mirror in self._mirrors.values():
            for cls, name in names.items():
                setattr(mirror, name, self._mirrors[cls])

    def _mirror(self, info: Any, refer: Refer) -> Any:
        fields: list[Any] = []
        for number, field in enumerate(info.fields):
            form = self._plain(field.type, refer)
            fields.append((f"f{number}", form) if field.required else (f"f{number}", form, None))
        return msgspec.defstruct(
            "Mirror",
            fields,
            rename={f"f{number}": field.encode_name for number, field in enumerate(info.fields)},
            tag_field=getattr(info, "tag_field", None),
            tag=getattr(info, "tag", None),
            array_like=getattr(info, "array_like", False),
            kw_only=not getattr(info, "array_like", False),
            gc=False,
        )

    def _plain(self, info: Any, refer: Refer) -> Any:
        info = without_metadata(info)
        if isinstance(info, OBJECTS):
            return refer(info.cls)
        if type(info) in _SIMPLE:
            return _SIMPLE[type(info)]
        if type(info) in _LIMITED:
            kind, limits = _LIMITED[type(info)]
            return _limited(kind, info, limits)
        if isinstance(info, described.EnumType):
            return getitem(Literal, tuple(member.value for member in info.cls))
        if isinstance(info, described.LiteralType):
            return getitem(Literal, info.values)
        return self._plain_container(info, refer)

    def _plain_container(self, info: Any, refer: Refer) -> Any:
        if isinstance(info, described.UnionType):
            members = [self._plain(member, refer) for member in info.types]
            return Any if Any in members else getitem(Union, tuple(dict.fromkeys(members)))
        if isinstance(info, described.CollectionType):
            return _limited(getitem(list, self._plain(info.item_type, refer)), info, _LENGTHS)
        if isinstance(info, described.DictType):
            return _limited(getitem(dict, (str, self._plain(info.value_type, refer))), info, _LENGTHS)
        if isinstance(info, described.TupleType):
            return getitem(tuple, tuple(self._plain(item, refer) for item in info.item_types))
        if isinstance(info, described.NamedTupleType):
            return getitem(tuple, tuple(self._plain(field.type, refer) for field in info.fields))
        return Any  # pydantic models validate themselves


def _limited(kind: Any, info: Any, names: tuple[str, ...]) -> Any:
    limits = {name: value for name in names if (value := getattr(info, name)) is not None}
    return Annotated[kind, msgspec.Meta(**limits)] if limits else kind


def _hides_nan(info: Any) -> bool:
    """Whether the type allows both null and a float."""
    if isinstance(info, described.UnionType):
        kinds = {type(member) for member in info.types}
        return described.NoneType in kinds and (described.FloatType in kinds or described.Metadata in kinds)
    return isinstance(info, _ANYTHING)


def refuse_nan(value: Any, encoded: bytes) -> None:
    """Refuse NaN and infinite numbers, which are encoded as null.

    Raises:
        ValueError: there is one.
    """
    if _NULL not in encoded or isinstance(value, msgspec.Raw):
        return
    if _has_nan(msgspec.to_builtins(value, enc_hook=foreign.dump_foreign, str_keys=True)):
        raise ValueError("it holds NaN or an infinite number, which JSON does not have; return None instead")


def _has_nan(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_nan, value.values()))
    return isinstance(value, list | tuple | set | frozenset) and any(map(_has_nan, value))


def _format_mismatch(error: msgspec.ValidationError) -> str:
    """Format the error without the value that msgspec quotes for an invalid choice."""
    message, _, place = str(error).partition(" - at ")
    message = "Invalid enum value" if message.startswith("Invalid enum value") else message
    return f"{message} - at {place}" if place else message
