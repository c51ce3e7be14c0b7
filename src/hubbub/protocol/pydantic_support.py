"""Hooks for types that msgspec does not support: pydantic models and paths.

msgspec calls them to decode, encode and describe such types. pydantic is never imported
here: a function whose parameter is a pydantic model has imported it already, and other
programs do not pay for the import.
"""

import inspect
import sys
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Literal, TypeGuard
from weakref import WeakKeyDictionary

import msgspec

Mode = Literal["validation", "serialization"]

_CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
_FORBID: dict[str, Any] = {"extra": "forbid"}
_closed_models: WeakKeyDictionary[type[Any], bool] = WeakKeyDictionary()


def is_model(kind: object) -> TypeGuard[type[Any]]:
    """Whether this is a pydantic model class."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def is_path(kind: object) -> TypeGuard[type[Any]]:
    """Whether this is a pathlib class."""
    pathlib = sys.modules.get("pathlib")
    return pathlib is not None and isinstance(kind, type) and issubclass(kind, pathlib.PurePath)


def is_field(value: object) -> bool:
    """Whether this is the result of pydantic's `Field(...)`."""
    fields = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(value, fields.FieldInfo)


def decode_hook(kind: type[Any], value: Any) -> Any:
    """Create a value of a foreign type from plain JSON data (msgspec's `dec_hook`)."""
    if is_model(kind):
        # In JSON mode strict models still take dates and enums from strings.
        return kind.model_validate_json(msgspec.json.encode(value), **(_FORBID if refuses_unknown_keys(kind) else {}))
    if is_path(kind) and isinstance(value, str):
        return kind(value)
    raise TypeError(f"Expected `{'str' if is_path(kind) else kind.__name__}`, got `{type(value).__name__}`")


def encode_hook(value: Any) -> Any:
    """Convert a foreign value to one that msgspec can encode (msgspec's `enc_hook`)."""
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


def dump_hook(value: Any) -> Any:
    """Convert a foreign value to plain data without changing numbers."""
    return value.model_dump() if is_model(type(value)) else encode_hook(value)


def refuses_unknown_keys(model: type[Any]) -> bool:
    """Whether this server refuses unknown keys of a model that does not set `extra`.

    A model that sets `extra`, itself or in a nested model, keeps its own rule; before pydantic 2.12 every model does.
    """
    known = _closed_models.get(model)
    if known is None:
        can_close = "extra" in inspect.signature(model.model_validate_json).parameters
        known = can_close and all("extra" not in each.model_config for each in _collect_models(model))
        _closed_models[model] = known
    return known


def _collect_models(annotation: Any, found: dict[Any, None] | None = None) -> dict[Any, None]:
    """Collect a model and the models nested in it."""
    found = {} if found is None else found
    if is_model(annotation) and annotation not in found:
        found[annotation] = None
        for field in annotation.model_fields.values():
            _collect_models(field.annotation, found)
    for part in getattr(annotation, "__args__", ()):
        _collect_models(part, found)
    return found


def describe_models(models: Collection[type[Any]], mode: Mode, prefix: str) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Return a reference for each pydantic model, and the definitions they need.

    All models are described together, so that shared definitions appear once.
    """
    from pydantic.json_schema import GenerateJsonSchema, models_json_schema

    closed = {inner for model in models if refuses_unknown_keys(model) for inner in _collect_models(model)}

    class ClosedSchemaGenerator(GenerateJsonSchema):  # type: ignore[misc, unused-ignore]
        """Sets `additionalProperties: false` for models whose unknown keys this server refuses."""

        def model_schema(self, schema: Any) -> Any:
            written = super().model_schema(schema)
            if mode == "validation" and schema["cls"] in closed and "properties" in written:
                written.setdefault("additionalProperties", False)
            return written

    model_modes = [(model, mode) for model in models]
    references, document = models_json_schema(
        model_modes, ref_template=f"#/$defs/{prefix}{{model}}", schema_generator=ClosedSchemaGenerator
    )
    definitions = {prefix + name: schema for name, schema in document.get("$defs", {}).items()}
    return {model: reference for (model, _), reference in references.items()}, definitions


def read_constraints(item: object) -> dict[str, Any]:
    """Read the limits that `Field(ge=1)` or `annotated_types.Ge(1)` put on a value."""
    if not type(item).__module__.startswith(("pydantic", "annotated_types")):
        return {}
    found = {name: getattr(item, name, None) for name in _CONSTRAINTS}
    limits = {name: value for name, value in found.items() if value is not None}
    for part in getattr(item, "metadata", ()):
        limits.update(read_constraints(part))
    return limits


def field_default(field: Any) -> Any:
    """The default that `Field(...)` gives, `msgspec.NODEFAULT` when it gives none."""
    return msgspec.NODEFAULT if field.is_required() else field.get_default(call_default_factory=True)


def field_annotations(field: Any) -> dict[str, Any]:
    """Return what `Field(...)` adds to a schema without changing what is valid."""
    found = {"title": field.title, "description": field.description, "examples": field.examples}
    notes = {name: value for name, value in found.items() if value is not None}
    extra = field.json_schema_extra
    return {**notes, **extra} if isinstance(extra, dict) else notes


def list_model_errors(error: BaseException | None) -> list[tuple[tuple[int | str, ...], str | None]]:
    """Return path and message of each pydantic problem, None as message for an unknown key; empty for other errors."""
    core = sys.modules.get("pydantic_core")
    if core is None or not isinstance(error, core.ValidationError):
        return []
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return [(detail["loc"], None if detail["type"] == "extra_forbidden" else detail["msg"]) for detail in details]
