"""Helpers for the type information of msgspec, used for schemas and for checks of arguments and results."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import inspect as described

OPEN_OBJECTS: Final = (described.DataclassType, described.TypedDictType)
"""Objects whose unknown members msgspec ignores."""
OBJECTS: Final = (described.StructType, *OPEN_OBJECTS)


def without_metadata(info: Any) -> Any:
    """The type itself, without titles, descriptions and the like."""
    while isinstance(info, described.Metadata):
        info = info.type
    return info


def types_inside(infos: Iterable[Any]) -> Iterator[Any]:
    """These types and all types inside them; each class once, as classes may be recursive."""
    return _inside(infos, set())


def _inside(infos: Iterable[Any], seen: set[Any]) -> Iterator[Any]:
    for info in infos:
        cls = getattr(info, "cls", None)
        if cls is not None:
            if cls in seen:
                continue
            seen.add(cls)
        yield info
        yield from _inside(_parts(info), seen)


def _parts(info: Any) -> Iterable[Any]:
    if isinstance(info, described.Metadata):
        return (info.type,)
    if isinstance(info, described.CollectionType):
        return (info.item_type,)
    if isinstance(info, described.TupleType):
        return info.item_types
    if isinstance(info, described.DictType):
        return info.key_type, info.value_type
    if isinstance(info, described.UnionType):
        return info.types
    return [field.type for field in getattr(info, "fields", ())]
