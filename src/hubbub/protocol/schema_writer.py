"""JSON Schema 2020-12 of types, written from msgspec's description of them.

msgspec writes schemas itself, but sorts choices and the members of a TypedDict, leaves out
the type of a choice and the format of most dates, and allows unknown members in objects where
this server refuses them. `hubbub.protocol.type_schema` calls this.
"""

import datetime
import enum
import re
import textwrap
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import NODEFAULT
from msgspec import inspect as msgspec_types

from hubbub.protocol import pydantic_support
from hubbub.protocol.type_info import OBJECTS, strip_metadata, walk_types

Schema = dict[str, Any]
Hook = Callable[[type[Any]], Schema]

_DEFINED_TYPES = (*OBJECTS, msgspec_types.NamedTupleType, msgspec_types.EnumType)
_EMPTY_FACTORIES = (list, dict, set, frozenset, tuple)
_JSON_TYPES = {str: "string", int: "integer", bool: "boolean", type(None): "null"}
_NUMBER_KEYWORDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_FIXED_SCHEMAS: dict[type[msgspec_types.Type], Schema] = {
    msgspec_types.AnyType: {},
    msgspec_types.RawType: {},
    msgspec_types.NoneType: {"type": "null"},
    msgspec_types.BoolType: {"type": "boolean"},
    msgspec_types.DateType: {"type": "string", "format": "date"},
    msgspec_types.TimeDeltaType: {"type": "string", "format": "duration"},
    msgspec_types.UUIDType: {"type": "string", "format": "uuid"},
    msgspec_types.DecimalType: {"type": "string", "format": "decimal"},
}
_encode = msgspec.json.Encoder(enc_hook=pydantic_support.encode_hook).encode


class SchemaWriter:
    """Writes the schemas of some types, and the definitions of the classes in them.

    `is_input`: the schemas describe what callers send, not what they get. Objects are then closed, as the
    decoder refuses members that it does not know; and a date has its format although it may lack a time zone,
    which the format demands: a strict caller would refuse such a result.
    """

    def __init__(self, types: Iterable[Any], hook: Hook, *, is_input: bool) -> None:
        """Describe the types.

        Raises:
            TypeError: msgspec cannot decode one of the types; the message says why.
        """
        self._types = list(types)
        self._hook = hook
        self._is_input = is_input
        self._infos = msgspec_types.multi_type_info(self._types)
        self._classes = {info.cls: info for info in walk_types(self._infos) if isinstance(info, _DEFINED_TYPES)}
        self._names = _unique_names(self._classes)
        self._literal_orders = dict(_find_literals(self._types, set()))

    def schemas(self) -> list[Schema]:
        """The schema of each type."""
        return [self._write(info) for info in self._infos]

    def definitions(self) -> dict[str, Schema]:
        """The definitions that the schemas refer to."""
        return {self._names[cls]: self._write_type(info) for cls, info in self._classes.items()}

    def _write(self, info: Any) -> Schema:
        notes: Schema = {}
        while isinstance(info, msgspec_types.Metadata):
            notes = (info.extra_json_schema or {}) | notes
            info = info.type
        if isinstance(info, _DEFINED_TYPES):
            return {**notes, "$ref": f"#/$defs/{self._names[info.cls]}"}
        if isinstance(info, msgspec_types.CustomType):
            return self._write_custom(info.cls, notes)
        return {**self._write_type(info), **notes}

    def _write_custom(self, cls: type[Any], notes: Schema) -> Schema:
        try:
            return {**self._hook(cls), **notes}
        except NotImplementedError:
            if notes:
                return notes
            raise TypeError(f"type {cls!r} is not supported") from None

    def _write_type(self, info: Any) -> Schema:
        fixed = _FIXED_SCHEMAS.get(type(info))
        if fixed is not None:
            return dict(fixed)
        write: dict[type[msgspec_types.Type], Callable[[Any], Schema]] = {
            msgspec_types.IntType: _write_number,
            msgspec_types.FloatType: _write_number,
            msgspec_types.StrType: _write_text,
            msgspec_types.BytesType: _write_bytes,
            msgspec_types.ByteArrayType: _write_bytes,
            msgspec_types.MemoryViewType: _write_bytes,
            msgspec_types.DateTimeType: self._write_time,
            msgspec_types.TimeType: self._write_time,
            msgspec_types.TupleType: self._write_tuple,
            msgspec_types.DictType: self._write_mapping,
            msgspec_types.UnionType: self._write_union,
            msgspec_types.LiteralType: self._write_choice,
            msgspec_types.EnumType: self._write_enum,
            msgspec_types.NamedTupleType: self._write_fields_as_array,
        }
        if isinstance(info, msgspec_types.CollectionType):
            return self._write_collection(info)
        if isinstance(info, msgspec_types.StructType) and info.array_like:
            return self._write_fields_as_array(info)
        if type(info) not in write and not isinstance(info, _DEFINED_TYPES):
            raise TypeError(f"JSON cannot represent {info!r}")
        return write.get(type(info), self._write_object)(info)

    def _write_time(self, info: msgspec_types.DateTimeType | msgspec_types.TimeType) -> Schema:
        name = "date-time" if isinstance(info, msgspec_types.DateTimeType) else "time"
        if info.tz is True or (info.tz is None and self._is_input):
            return {"type": "string", "format": name}
        return {"type": "string"}

    def _write_collection(self, info: msgspec_types.CollectionType) -> Schema:
        schema: Schema = {"type": "array"}
        if not isinstance(info.item_type, msgspec_types.AnyType):
            schema["items"] = self._write(info.item_type)
        schema |= _length_limits(info, "minItems", "maxItems")
        if isinstance(info, msgspec_types.SetType | msgspec_types.FrozenSetType):
            schema["uniqueItems"] = True
        return schema

    def _write_tuple(self, info: msgspec_types.TupleType) -> Schema:
        count = len(info.item_types)
        schema: Schema = {"type": "array", "minItems": count, "maxItems": count}
        if count:
            schema |= {"prefixItems": [self._write(item) for item in info.item_types], "items": False}
        return schema

    def _write_mapping(self, info: msgspec_types.DictType) -> Schema:
        schema: Schema = {"type": "object"}
        names = self._write(info.key_type)
        if names.pop("type", None) == "string" and names:
            schema["propertyNames"] = names
        if not isinstance(info.value_type, msgspec_types.AnyType):
            schema["additionalProperties"] = self._write(info.value_type)
        return schema | _length_limits(info, "minProperties", "maxProperties")

    def _write_union(self, info: msgspec_types.UnionType) -> Schema:
        members = sorted(info.types, key=lambda member: isinstance(strip_metadata(member), msgspec_types.NoneType))
        tagged = {strip_metadata(member).tag: member for member in members if _is_tagged(strip_metadata(member))}
        if len(tagged) < 2:
            return {"anyOf": [self._write(member) for member in members]}
        choice: Schema = {
            "anyOf": [self._write(member) for member in tagged.values()],
            "discriminator": {
                "propertyName": strip_metadata(next(iter(tagged.values()))).tag_field,
                "mapping": {
                    tag: f"#/$defs/{self._names[strip_metadata(member).cls]}" for tag, member in tagged.items()
                },
            },
        }
        untagged = [member for member in members if not _is_tagged(strip_metadata(member))]
        if not untagged:
            return choice
        schemas_written = [self._write(member) for member in untagged]
        last = len(schemas_written) - isinstance(strip_metadata(untagged[-1]), msgspec_types.NoneType)
        return {"anyOf": [*schemas_written[:last], choice, *schemas_written[last:]]}

    def _write_choice(self, info: msgspec_types.LiteralType) -> Schema:
        return _enum_schema(self._literal_orders.get(_literal_key(info.values), info.values))

    def _write_enum(self, info: msgspec_types.EnumType) -> Schema:
        return _write_name(info) | _enum_schema([member.value for member in info.cls])

    def _write_object(self, info: Any) -> Schema:
        properties: Schema = {}
        required: list[str] = []
        if (tag_field := getattr(info, "tag_field", None)) is not None:
            properties[tag_field] = _enum_schema([info.tag])
            required.append(tag_field)
        for field in _declared_fields(info):
            properties[field.encode_name] = self._write_field(field)
            if field.required:
                required.append(field.encode_name)
        schema = {**_write_name(info), "type": "object", "properties": properties, "required": required}
        if self._is_input or getattr(info, "forbid_unknown_fields", False):
            schema["additionalProperties"] = False
        return schema

    def _write_fields_as_array(self, info: Any) -> Schema:
        fields = [self._write_field(field) for field in info.fields]
        if getattr(info, "tag_field", None) is not None:
            fields.insert(0, _enum_schema([info.tag]))
        optional = sum(not field.required for field in info.fields)
        schema = {**_write_name(info), "type": "array", "prefixItems": fields, "minItems": len(fields) - optional}
        if isinstance(info, msgspec_types.NamedTupleType) or info.forbid_unknown_fields:
            schema["maxItems"] = len(fields)
        return schema

    def _write_field(self, field: msgspec_types.Field) -> Schema:
        schema = self._write(field.type)
        default = field.default
        if field.default_factory in _EMPTY_FACTORIES:
            default = field.default_factory()
        if default is not NODEFAULT:
            try:
                schema["default"] = msgspec.json.decode(_encode(default))
            except Exception:  # defaults that cannot be encoded as JSON are left out
                pass
        return schema


def _is_tagged(info: Any) -> bool:
    return isinstance(info, msgspec_types.StructType) and not info.array_like


def _write_number(info: msgspec_types.IntType | msgspec_types.FloatType) -> Schema:
    limits = {_NUMBER_KEYWORDS[name]: value for name in _NUMBER_KEYWORDS if (value := getattr(info, name)) is not None}
    return {"type": "integer" if isinstance(info, msgspec_types.IntType) else "number", **limits}


def _write_text(info: msgspec_types.StrType) -> Schema:
    schema: Schema = {"type": "string", **_length_limits(info, "minLength", "maxLength")}
    if info.pattern is not None:
        schema["pattern"] = info.pattern
    return schema


def _write_bytes(info: Any) -> Schema:
    lengths = {name: 4 * ((size + 2) // 3) for name, size in _length_limits(info, "minLength", "maxLength").items()}
    return {"type": "string", "contentEncoding": "base64", **lengths}


def _length_limits(info: Any, min_keyword: str, max_keyword: str) -> Schema:
    found = {min_keyword: info.min_length, max_keyword: info.max_length}
    return {name: value for name, value in found.items() if value is not None}


def _enum_schema(values: Iterable[Any]) -> Schema:
    values = list(values)
    kinds = {_JSON_TYPES.get(type(value)) for value in values}
    kind = kinds.pop() if len(kinds) == 1 else None
    return {"enum": values} if kind is None else {"type": kind, "enum": values}


def _write_name(info: Any) -> Schema:
    """The name of a class, and its docstring if it was written by hand."""
    cls = getattr(info.cls, "__origin__", info.cls)
    schema = {"title": _class_name(info.cls)}
    doc = textwrap.dedent(cls.__doc__ or "").strip("\r\n")
    is_generated = doc == "An enumeration." or (doc.startswith(f"{cls.__name__}(") and doc.endswith(")"))
    if doc and not is_generated:
        schema["description"] = doc
    return schema


def _declared_fields(info: Any) -> list[msgspec_types.Field]:
    """The fields as declared; msgspec sorts those of a TypedDict."""
    if not isinstance(info, msgspec_types.TypedDictType):
        return list(info.fields)
    declared = list(getattr(info.cls, "__origin__", info.cls).__annotations__)
    return sorted(info.fields, key=lambda field: declared.index(field.name) if field.name in declared else 0)


def _class_name(cls: Any) -> str:
    arguments = getattr(cls, "__args__", ())
    if not arguments or not hasattr(cls, "__origin__"):
        return str(cls.__name__)
    names = [item.__name__ if isinstance(item, type) else repr(item) for item in arguments]
    return f"{cls.__origin__.__name__}[{', '.join(names)}]"


def _unique_names(classes: Iterable[Any]) -> dict[Any, str]:
    """A short name for each class; the whole path for those whose short names are the same."""
    found = list(classes)
    short = [_safe_name(_class_name(cls)) for cls in found]
    return {
        cls: name if short.count(name) == 1 else _safe_name(f"{cls.__module__}.{cls.__qualname__}")
        for cls, name in zip(found, short, strict=True)
    }


def _safe_name(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9.\-_]", "_", name)


def _literal_key(values: Iterable[Any]) -> frozenset[Any]:
    return frozenset((type(value), value) for value in values)


def _find_literals(types: Iterable[Any], seen: set[Any]) -> Iterator[tuple[frozenset[Any], tuple[Any, ...]]]:
    """The values of each `Literal` in these types and in the fields of their classes, in the order written."""
    for each in types:
        each = getattr(each, "__supertype__", getattr(each, "__value__", each))  # of NewType, of `type X = ...`
        origin, arguments = typing.get_origin(each), typing.get_args(each)
        if origin is Literal:
            yield _literal_key(arguments), arguments
            continue
        if origin is Annotated:
            arguments = arguments[:1]
        yield from _find_literals([item for item in arguments if item is not ...], seen)
        cls = origin or each
        if not isinstance(cls, type) or cls in seen or cls.__module__ in ("builtins", "datetime", "typing"):
            continue
        seen.add(cls)
        if not issubclass(cls, enum.Enum | datetime.date):
            yield from _find_literals(_field_types(cls), seen)


def _field_types(cls: type[Any]) -> list[Any]:
    try:
        return list(typing.get_type_hints(cls, include_extras=True).values())
    except Exception:  # names that only msgspec can find: their choices stay sorted
        return []
