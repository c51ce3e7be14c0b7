"""Helpers for the type information of msgspec, used for schemas and for checks of arguments and results."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import inspect as msgspec_types

OPEN_OBJECTS: Final = (msgspec_types.DataclassType, msgspec_types.TypedDictType)
"""Objects whose unknown members msgspec ignores."""
OBJECTS: Final = (msgspec_types.StructType, *OPEN_OBJECTS)


def strip_metadata(info: Any) -> Any:
    """The type itself, without titles, descriptions and the like."""
    while isinstance(info, msgspec_types.Metadata):
        info = info.type
    return info


def walk_types(infos: Iterable[Any]) -> Iterator[Any]:
    """These types and all types inside them; each class once, as classes may be recursive."""
    return _walk(infos, set())


def _walk(infos: Iterable[Any], seen: set[Any]) -> Iterator[Any]:
    for info in infos:
        cls = getattr(info, "cls", None)
        if cls is not None:
            if cls in seen:
                continue
            seen.add(cls)
        yield info
        yield from _walk(_child_types(info), seen)


def _child_types(info: Any) -> Iterable[Any]:
    if isinstance(info, msgspec_types.Metadata):
        return (info.type,)
    if isinstance(info, msgspec_types.CollectionType):
        return (info.item_type,)
    if isinstance(info, msgspec_types.TupleType):
        return info.item_types
    if isinstance(info, msgspec_types.DictType):
        return info.key_type, info.value_type
    if isinstance(info, msgspec_types.UnionType):
        return info.types
    return [field.type for field in getattr(info, "fields", ())]
