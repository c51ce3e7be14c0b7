"""Types that msgspec does not know by itself: pydantic models and paths.

The hooks that msgspec calls for them when it decodes, encodes and describes.
pydantic is never imported here: a function whose parameter is a pydantic model
has imported it already, and everyone else pays nothing for it.
"""

import sys
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Literal, TypeGuard

import msgspec

Mode = Literal["validation", "serialization"]

_CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")


def is_model(kind: object) -> TypeGuard[type[Any]]:
    """Say whether this is a class of pydantic's."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def is_path(kind: object) -> TypeGuard[type[Any]]:
    """Say whether this is a class of pathlib's."""
    pathlib = sys.modules.get("pathlib")
    return pathlib is not None and isinstance(kind, type) and issubclass(kind, pathlib.PurePath)


def is_field(value: object) -> bool:
    """Say whether this is what pydantic's `Field(...)` returns."""
    fields = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(value, fields.FieldInfo)


def decode_foreign(kind: type[Any], value: Any) -> Any:
    """Make a value of a foreign type from plain JSON data (msgspec's `dec_hook`)."""
    if is_model(kind):
        # In JSON mode strict models still take dates and enums from strings.
        return kind.model_validate_json(msgspec.json.encode(value))
    if is_path(kind) and isinstance(value, str):
        return kind(value)
    raise TypeError(f"Expected `{'str' if is_path(kind) else kind.__name__}`, got `{type(value).__name__}`")


def encode_foreign(value: Any) -> Any:
    """Turn a foreign value into what msgspec can write (msgspec's `enc_hook`)."""
    kind = type(value)
    if is_model(kind):
        return msgspec.Raw(value.model_dump_json(by_alias=True).encode())
    if is_path(kind):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, AbstractSet):
        return list(value)
    raise NotImplementedError(f"Encoding objects of type {kind.__name__} is unsupported")


def describe_models(models: Iterable[type[Any]], mode: Mode, prefix: str) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Give a reference for each pydantic model, and the definitions they need.

    All of them together, so that what two models share is defined once.
    """
    from pydantic.json_schema import models_json_schema

    wanted = [(model, mode) for model in models]
    references, document = models_json_schema(wanted, ref_template=f"#/$defs/{prefix}{{model}}")
    definitions = {prefix + name: schema for name, schema in document.get("$defs", {}).items()}
    return {model: reference for (model, _), reference in references.items()}, definitions


def constraints_of(item: object) -> dict[str, Any]:
    """Read the limits that `Field(ge=1)` or `annotated_types.Ge(1)` put on a value."""
    if not type(item).__module__.startswith(("pydantic", "annotated_types")):
        return {}
    found = {name: getattr(item, name, None) for name in _CONSTRAINTS}
    limits = {name: value for name, value in found.items() if value is not None}
    for part in getattr(item, "metadata", ()):
        limits.update(constraints_of(part))
    return limits


def field_default(field: Any) -> Any:
    """The default that `Field(...)` gives, `msgspec.NODEFAULT` when it gives none."""
    return msgspec.NODEFAULT if field.is_required() else field.get_default(call_default_factory=True)


def field_annotations(field: Any) -> dict[str, Any]:
    """What `Field(...)` adds to a schema without changing what is valid."""
    found = {"title": field.title, "description": field.description, "examples": field.examples}
    notes = {name: value for name, value in found.items() if value is not None}
    extra = field.json_schema_extra
    return {**notes, **extra} if isinstance(extra, dict) else notes


def model_problems(error: BaseException | None) -> list[tuple[tuple[int | str, ...], str]]:
    """Where and why a pydantic model refused its data; empty for other errors."""
    core = sys.modules.get("pydantic_core")
    if core is None or not isinstance(error, core.ValidationError):
        return []
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return [(detail["loc"], detail["msg"]) for detail in details]
