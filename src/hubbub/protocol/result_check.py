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
from msgspec import inspect as msgspec_types

from hubbub.protocol import pydantic_support
from hubbub.protocol.schema import convert_integral_floats
from hubbub.protocol.type_info import OBJECTS, strip_metadata, walk_types

_NUMBER_LIMITS = ("ge", "gt", "le", "lt", "multiple_of")
_LENGTH_LIMITS = ("min_length", "max_length")
_UNTYPED = (msgspec_types.AnyType, msgspec_types.RawType, msgspec_types.CustomType)
_NULL: Final = b"null"
_PLAIN_TYPES: dict[type[msgspec_types.Type], Any] = {
    msgspec_types.NoneType: None,
    msgspec_types.BoolType: bool,
    msgspec_types.BytesType: str,
    msgspec_types.ByteArrayType: str,
    msgspec_types.MemoryViewType: str,
    msgspec_types.DateType: datetime.date,
    msgspec_types.TimeDeltaType: datetime.timedelta,
    msgspec_types.UUIDType: uuid.UUID,
    msgspec_types.DecimalType: str,
}
_CONSTRAINED_TYPES: dict[type[msgspec_types.Type], tuple[Any, tuple[str, ...]]] = {
    msgspec_types.IntType: (int, _NUMBER_LIMITS),
    msgspec_types.FloatType: (float, _NUMBER_LIMITS),
    msgspec_types.StrType: (str, (*_LENGTH_LIMITS, "pattern")),
    msgspec_types.DateTimeType: (datetime.datetime, ("tz",)),
    msgspec_types.TimeType: (datetime.time, ("tz",)),
}

ResolveClass = Callable[[Any], Any]


def getitem(generic: Any, arguments: Any) -> Any:
    """Return `generic[arguments]`, for arguments known at run time only."""
    return generic[arguments]


class ResultCheck:
    """Checks results against one return type."""

    def __init__(self, annotation: Any) -> None:
        (info,) = msgspec_types.multi_type_info([annotation])
        self._scalar = annotation if annotation in (int, bool, str) else None
        self._is_float = annotation is float
        self._hides_nan = any(map(_hides_nan, walk_types([info])))
        """Whether null in the JSON may come from NaN or an infinite number."""
        self._mirrors: dict[Any, Any] = {}
        self._decode = msgspec.json.Decoder(self._build_type(info), strict=True).decode

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
            integral = convert_integral_floats(encoded, error)
            try:
                if integral is None:
                    raise
                self._decode(integral)
            except msgspec.ValidationError as reason:
                refuse_nan(value, encoded)
                raise ValueError(_format_mismatch(reason)) from None
        if self._hides_nan:
            refuse_nan(value, encoded)

    def _build_type(self, info: Any) -> Any:
        """The type that the JSON of a result is read into."""
        self._mirror_all(info)
        return self._plain_type(info, self._mirrors.__getitem__)

    def _mirror_all(self, info: Any) -> None:
        """Make a struct for every class inside. They refer to each other by name, as classes may be recursive."""
        found = {part.cls: part for part in walk_types([info]) if isinstance(part, OBJECTS)}
        names = {cls: f"Mirror{number}" for number, cls in enumerate(found)}
        for cls, part in found.items():
            self._mirrors[cls] = self._mirror(part, lambda inner: ForwardRef(names[inner]))
        for mirror in self._mirrors.values():
            for cls, name in names.items():
                setattr(mirror, name, self._mirrors[cls])

    def _mirror(self, info: Any, resolve_class: ResolveClass) -> Any:
        fields: list[Any] = []
        for number, field in enumerate(info.fields):
            form = self._plain_type(field.type, resolve_class)
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

    def _plain_type(self, info: Any, resolve_class: ResolveClass) -> Any:
        info = strip_metadata(info)
        if isinstance(info, OBJECTS):
            return resolve_class(info.cls)
        if type(info) in _PLAIN_TYPES:
            return _PLAIN_TYPES[type(info)]
        if type(info) in _CONSTRAINED_TYPES:
            kind, limits = _CONSTRAINED_TYPES[type(info)]
            return _constrain(kind, info, limits)
        if isinstance(info, msgspec_types.EnumType):
            return getitem(Literal, tuple(member.value for member in info.cls))
        if isinstance(info, msgspec_types.LiteralType):
            return getitem(Literal, info.values)
        return self._plain_container_type(info, resolve_class)

    def _plain_container_type(self, info: Any, resolve_class: ResolveClass) -> Any:
        if isinstance(info, msgspec_types.UnionType):
            members = [self._plain_type(member, resolve_class) for member in info.types]
            return Any if Any in members else getitem(Union, tuple(dict.fromkeys(members)))
        if isinstance(info, msgspec_types.CollectionType):
            return _constrain(getitem(list, self._plain_type(info.item_type, resolve_class)), info, _LENGTH_LIMITS)
        if isinstance(info, msgspec_types.DictType):
            return _constrain(
                getitem(dict, (str, self._plain_type(info.value_type, resolve_class))), info, _LENGTH_LIMITS
            )
        if isinstance(info, msgspec_types.TupleType):
            return getitem(tuple, tuple(self._plain_type(item, resolve_class) for item in info.item_types))
        if isinstance(info, msgspec_types.NamedTupleType):
            return getitem(tuple, tuple(self._plain_type(field.type, resolve_class) for field in info.fields))
        return Any  # pydantic models validate themselves


def _constrain(kind: Any, info: Any, names: tuple[str, ...]) -> Any:
    limits = {name: value for name in names if (value := getattr(info, name)) is not None}
    return Annotated[kind, msgspec.Meta(**limits)] if limits else kind


def _hides_nan(info: Any) -> bool:
    """Whether the type allows both null and a float."""
    if isinstance(info, msgspec_types.UnionType):
        kinds = {type(member) for member in info.types}
        return msgspec_types.NoneType in kinds and (msgspec_types.FloatType in kinds or msgspec_types.Metadata in kinds)
    return isinstance(info, _UNTYPED)


def refuse_nan(value: Any, encoded: bytes) -> None:
    """Refuse NaN and infinite numbers, which are encoded as null.

    Raises:
        ValueError: there is one.
    """
    if _NULL not in encoded or isinstance(value, msgspec.Raw):
        return
    if _has_nan(msgspec.to_builtins(value, enc_hook=pydantic_support.dump_hook, str_keys=True)):
        raise ValueError("it contains NaN or an infinite number, which JSON cannot represent; return None instead")


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
