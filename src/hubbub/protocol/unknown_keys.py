"""Unknown members of nested objects, searched in arguments that were already decoded.

msgspec ignores unknown members of a dataclass, a TypedDict or an open struct, so a misspelt
name would be treated as one that was left out. `hubbub.protocol.schema` makes a `KeyCheck` for
functions that take such a type; structs declared with `forbid_unknown_fields=True` need none,
and pydantic models are checked by pydantic.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect as msgspec_types

from hubbub.protocol.type_info import OBJECTS, OPEN_OBJECTS, strip_metadata, walk_types
from hubbub.protocol.validation_messages import describe_unknown_field, format_path, join_problems


class _Shape:
    """The known members of a value; values without known members have no shape."""

    __slots__ = ("alternatives", "items", "members", "names", "positions", "tag", "values")

    def __init__(self) -> None:
        self.names: frozenset[str] | None = None
        """Every member of an object; None for other values, and for objects with arbitrary members."""
        self.members: list[tuple[str, _Shape]] = []
        """Those members that have a shape themselves."""
        self.tag: tuple[str, Any] | None = None
        """The member and value that select an object in its union."""
        self.values: _Shape | None = None
        """The shape of the values of a mapping."""
        self.items: _Shape | None = None
        """The shape of the items of a list."""
        self.positions: list[_Shape | None] = []
        """The shapes of the items of a tuple."""
        self.alternatives: list[_Shape] = []
        """The shapes of the members of a union."""


class _Unknown(NamedTuple):
    """A member that its object does not have."""

    path: tuple[str | int, ...]
    """Where the object is."""
    name: str
    known: frozenset[str]

    def with_parent(self, place: str | int) -> "_Unknown":
        return self._replace(path=(place, *self.path))


class KeyCheck:
    """Checks the keys of every object in the arguments of one function."""

    def __init__(self, types: Mapping[str, Any]) -> None:
        """`types` maps the names of the arguments to their types."""
        infos = msgspec_types.multi_type_info(types.values())
        self._shapes: dict[Any, _Shape] = {}
        shapes = {name: self._build_shape(info) for name, info in zip(types, infos, strict=True)}
        self._arguments = [(name, shape) for name, shape in shapes.items() if shape is not None]

    def check(self, raw: bytes | msgspec.Raw) -> None:
        """Look for members that their object does not have.

        Raises:
            ArgumentsInvalid: there is one; the message has its path and the most similar known name.
        """
        unknown = _find_unknown_member(msgspec.json.decode(raw), self._arguments)
        if unknown is not None:
            raise join_problems([describe_unknown_field(format_path(unknown.path), unknown.name, unknown.known)])

    def _build_shape(self, info: Any) -> _Shape | None:
        info = strip_metadata(info)
        if not isinstance(info, OBJECTS):
            return self._build_part_shape(info)
        shape = self._shapes.get(info.cls)
        if shape is None:
            shape = self._shapes[info.cls] = _Shape()
            self._fill_shape(shape, info)
        return shape

    def _build_part_shape(self, info: Any) -> _Shape | None:
        shape = _Shape()
        if isinstance(info, msgspec_types.UnionType):
            shape.alternatives = [inner for member in info.types if (inner := self._build_shape(member)) is not None]
        elif isinstance(info, msgspec_types.CollectionType):
            shape.items = self._build_shape(info.item_type)
        elif isinstance(info, msgspec_types.TupleType):
            shape.positions = [self._build_shape(item) for item in info.item_types]
        elif isinstance(info, msgspec_types.NamedTupleType):
            shape.positions = [self._build_shape(field.type) for field in info.fields]
        elif isinstance(info, msgspec_types.DictType):
            shape.values = self._build_shape(info.value_type)
        if len(shape.alternatives) == 1:
            return shape.alternatives[0]
        is_shaped = shape.alternatives or shape.items or shape.values or any(shape.positions)
        return shape if is_shaped else None

    def _fill_shape(self, shape: _Shape, info: Any) -> None:
        tag_field = getattr(info, "tag_field", None)
        if getattr(info, "array_like", False):
            shape.positions = [self._build_shape(field.type) for field in info.fields]
            if tag_field is not None:
                shape.positions.insert(0, None)
            return
        names = {field.encode_name for field in info.fields}
        if tag_field is not None:
            names.add(tag_field)
            shape.tag = tag_field, info.tag
        shape.names = frozenset(names)
        shapes = [(field.encode_name, self._build_shape(field.type)) for field in info.fields]
        shape.members = [(name, inner) for name, inner in shapes if inner is not None]


def has_open_objects(types: Iterable[Any]) -> bool:
    """Whether a value of one of these types may hold an object whose unknown members msgspec ignores."""
    return any(map(_is_open, walk_types(msgspec_types.multi_type_info(types))))


def _is_open(info: Any) -> bool:
    if isinstance(info, msgspec_types.StructType):
        return not (info.array_like or info.forbid_unknown_fields)
    return isinstance(info, OPEN_OBJECTS)


def _find_unknown(value: Any, shape: _Shape) -> _Unknown | None:
    """Find the first unknown member; its path is built on the way back, so that valid arguments need none."""
    if shape.alternatives:
        chosen = _select_alternative(value, shape.alternatives)
        return None if chosen is None else _find_unknown(value, chosen)
    if type(value) is dict:
        if shape.names is not None:
            if not value.keys() <= shape.names:
                return _Unknown((), next(key for key in value if key not in shape.names), shape.names)
            return _find_unknown_member(value, shape.members)
        return None if shape.values is None else _find_unknown_member(value, ((key, shape.values) for key in value))
    if type(value) is list:
        shapes = shape.positions or [shape.items] * len(value)
        for place, (item, inner) in enumerate(zip(value, shapes, strict=False)):
            if inner is not None and (unknown := _find_unknown(item, inner)) is not None:
                return unknown.with_parent(place)
    return None


def _find_unknown_member(value: dict[str, Any], members: Iterable[tuple[str, _Shape]]) -> _Unknown | None:
    for name, shape in members:
        if name in value and (unknown := _find_unknown(value[name], shape)) is not None:
            return unknown.with_parent(name)
    return None


def _select_alternative(value: Any, alternatives: list[_Shape]) -> _Shape | None:
    """Choose the union member of a value: msgspec allows one kind of array, and one object or several with tags."""
    if type(value) is dict:
        for shape in alternatives:
            if shape.tag is not None and value.get(shape.tag[0]) == shape.tag[1]:
                return shape
        return next((shape for shape in alternatives if shape.names is not None or shape.values is not None), None)
    return next((shape for shape in alternatives if shape.items is not None or shape.positions), None)
