"""Typed functions as JSON Schemas, decoders and encoders.

`Arguments` and `Output` are made once, when a function is registered, and are
then used for every call: arguments go from the raw JSON to typed values in one
pass of msgspec, results go back in another. Schemas that somebody gives as data
are in `hubbub.protocol.schema_data`. The server's registry calls this.
"""

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from hubbub.errors import DefinitionError, ToolError
from hubbub.protocol import foreign, problems
from hubbub.protocol.hints import Parameter, name_of, read_signature, resolve_hints, union_members
from hubbub.protocol.type_schema import Schema, describe, inline, needed, with_notes_last

# A list of anything may be a list of content, which has no schema.
_WITHOUT_SCHEMA = frozenset({None, type(None), str, bytes, Any, list, list[Any]})
_IMMUTABLE = (type(None), bool, int, float, str, bytes)

_encoder = msgspec.json.Encoder(enc_hook=foreign.encode_foreign)
_as_dict = msgspec.structs.asdict


class Arguments:
    """What a function takes from its callers."""

    __slots__ = ("_decode", "injected", "schema")

    def __init__(self, schema: Schema, injected: dict[str, Any], decode: Callable[[Any], msgspec.Struct]) -> None:
        self.schema = schema
        self.injected = injected
        """Parameters that the server fills, and the type each of them wants."""
        self._decode = decode

    @classmethod
    def of(cls, function: Callable[..., Any], *, skip: Collection[type] = (), from_text: bool = False) -> "Arguments":
        """Read a function; parameters of a type in `skip` are left to the server.

        `from_text` is for callers who can only send text: "3" is then a number where one is wanted.

        Raises:
            DefinitionError: a parameter cannot be filled from JSON.
        """
        signature = read_signature(function, skip)
        parameters = signature.parameters
        schema = _arguments_schema(function, parameters)
        return cls(schema, signature.injected, _decoder(function, parameters, strict=not from_text))

    def decode(self, raw: bytes | msgspec.Raw) -> dict[str, Any]:
        """Give the keyword arguments for the function.

        Raises:
            ArgumentsInvalid: they do not fit the schema, or are not JSON.
        """
        try:
            return _as_dict(self._decode(raw))
        except Exception as error:  # Validators of the user's may raise anything.
            whole = _with_whole_numbers(raw, error)
            if whole is None:
                raise problems.refused(error, self.schema) from error
        try:
            return _as_dict(self._decode(whole))
        except Exception as error:
            raise problems.refused(error, self.schema) from error


class Output:
    """What a function gives back."""

    __slots__ = ("_name", "is_object", "schema")

    def __init__(self, name: str, schema: Schema | None) -> None:
        self._name = name
        self.schema = schema
        """None when the result is text, or anything at all."""
        self.is_object = schema is not None and schema.get("type") == "object"

    @classmethod
    def of(cls, function: Callable[..., Any], *, skip: Collection[type] = ()) -> "Output":
        """Read a function's return annotation; what holds a type in `skip` has no schema.

        Raises:
            DefinitionError: JSON cannot carry the annotated type.
        """
        annotation = resolve_hints(function, skip).get("return")
        bare = getattr(annotation, "__origin__", None) if hasattr(annotation, "__metadata__") else annotation
        if all(member in _WITHOUT_SCHEMA for member in union_members(bare)) or _mentions(bare, skip):
            return cls(name_of(function), None)
        try:
            (schema,), definitions = describe([annotation], "serialization")
        except Exception as error:
            raise DefinitionError(
                f"{name_of(function)}: its return type has no JSON Schema ({_first_line(error)}); "
                "return a type that JSON can carry, or annotate it as `Any`"
            ) from error
        root = inline(schema, definitions)
        if root is not schema:
            root.pop("title", None)
        return cls(name_of(function), _closed(with_notes_last(root), definitions))

    @property
    def wrapped_schema(self) -> Schema | None:
        """The schema of `{"result": value}`, for revisions that allow only objects."""
        if self.schema is None:
            return None
        inner = {key: value for key, value in self.schema.items() if key != "$defs"}
        wrapped: Schema = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
        return _closed(wrapped, self.schema.get("$defs", {}))

    def encode(self, value: Any) -> bytes:
        """Write a result as JSON.

        Raises:
            ToolError: JSON cannot carry this value.
        """
        try:
            return _encoder.encode(value)
        except Exception as error:  # Serializers of the user's may raise anything.
            raise ToolError(f"{self._name} returned a value that is not JSON: {_first_line(error)}") from error


def _arguments_schema(function: Callable[..., Any], parameters: tuple[Parameter, ...]) -> Schema:
    try:
        schemas, definitions = describe([parameter.type for parameter in parameters], "validation")
    except Exception as error:
        raise _unsupported(function, parameters, error) from error
    properties = {
        parameter.name: _property(parameter, schema, definitions)
        for parameter, schema in zip(parameters, schemas, strict=True)
    }
    required = [parameter.name for parameter in parameters if parameter.default is msgspec.NODEFAULT]
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return _closed(schema, definitions)


def _property(parameter: Parameter, schema: Schema, definitions: dict[str, Schema]) -> Schema:
    target = inline(schema, definitions)
    if "enum" in target:  # Choices are easier to follow where they are used.
        schema = {key: value for key, value in target.items() if key != "title" or key in schema}
    schema = {**schema, **parameter.notes}
    if parameter.default is not msgspec.NODEFAULT:
        try:
            schema["default"] = msgspec.json.decode(_encoder.encode(parameter.default))
        except Exception:  # A default that JSON cannot carry stays between us and the function.
            pass
    return with_notes_last(schema)


def _closed(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    wanted = needed(schema, definitions)
    return {**schema, "$defs": wanted} if wanted else schema


def _unsupported(function: Callable[..., Any], parameters: tuple[Parameter, ...], error: Exception) -> DefinitionError:
    """Find which parameter it is: together they give no name."""
    for parameter in parameters:
        try:
            describe([parameter.type], "validation")
        except Exception as reason:
            return DefinitionError(
                f"{name_of(function)}: parameter `{parameter.name}` has a type that "
                f"cannot be filled from JSON ({_first_line(reason)})"
            )
    return DefinitionError(f"{name_of(function)}: its parameters have no JSON Schema ({_first_line(error)})")


def _decoder(
    function: Callable[..., Any], parameters: tuple[Parameter, ...], *, strict: bool
) -> Callable[[Any], msgspec.Struct]:
    try:
        struct = msgspec.defstruct(
            "Arguments", [_field(parameter) for parameter in parameters], kw_only=True, forbid_unknown_fields=True
        )
        return msgspec.json.Decoder(struct, strict=strict, dec_hook=foreign.decode_foreign).decode
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{name_of(function)}: no decoder for its parameters ({_first_line(error)})") from error


def _field(parameter: Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    default = parameter.default
    if default is msgspec.NODEFAULT:
        return parameter.name, parameter.type
    if isinstance(default, _IMMUTABLE):
        return parameter.name, parameter.type, default
    # msgspec refuses most mutable defaults; Python hands out the same object each time.
    return parameter.name, parameter.type, msgspec.field(default_factory=lambda: default)


def _with_whole_numbers(raw: bytes | msgspec.Raw, error: Exception) -> bytes | None:
    """Write 3.0 as 3: JSON Schema calls both integers, msgspec only the second."""
    if not isinstance(error, msgspec.ValidationError) or "got `float`" not in str(error):
        return None
    try:
        return _encoder.encode(_whole(msgspec.json.decode(raw)))
    except (ValueError, RecursionError):
        return None


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _mentions(annotation: Any, kinds: Collection[type]) -> bool:
    if isinstance(annotation, type) and annotation in kinds:
        return True
    return any(_mentions(part, kinds) for part in getattr(annotation, "__args__", ()))


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__).strip()
