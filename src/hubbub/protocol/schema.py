"""JSON Schemas, decoders and encoders of typed functions.

`Arguments` and `Output` are made once, when a function is registered, and are
then used for every call: msgspec decodes arguments from raw JSON to typed values in
one pass and encodes results in another. Schemas given as data are in
`hubbub.protocol.schema_data`. The server's registry calls this.
"""

import logging
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from hubbub.errors import DefinitionError, ToolError
from hubbub.protocol import foreign, problems
from hubbub.protocol.hints import Parameter, name_of, read_signature, resolve_hints, union_members
from hubbub.protocol.schema_writer import Schema
from hubbub.protocol.type_schema import describe, inline, needed, with_notes_last
from hubbub.protocol.unknown_keys import KeyCheck, ignores_keys

# A list of anything may be a list of content, which has no schema.
_WITHOUT_SCHEMA = frozenset({None, type(None), str, bytes, Any, list, list[Any]})
_IMMUTABLE = (type(None), bool, int, float, str, bytes)

logger = logging.getLogger("hubbub.handlers")
_encoder = msgspec.json.Encoder(enc_hook=foreign.encode_foreign)
_as_dict = msgspec.structs.asdict


class Arguments:
    """The arguments of a function: their schema and decoder."""

    __slots__ = ("_check_keys", "_decode", "injected", "schema")

    def __init__(
        self,
        schema: Schema,
        injected: dict[str, Any],
        decode: Callable[[Any], msgspec.Struct],
        check_keys: Callable[[Any], None] | None = None,
    ) -> None:
        self.schema = schema
        self.injected = injected
        """Parameters that the server fills, with their types."""
        self._decode = decode
        self._check_keys = check_keys

    @classmethod
    def of(cls, function: Callable[..., Any], *, skip: Collection[type] = (), from_text: bool = False) -> "Arguments":
        """Read a function; the server fills parameters of a type in `skip`.

        `from_text` is for callers that can only send text: "3" is then accepted as a number.

        Raises:
            DefinitionError: a parameter cannot be filled from JSON.
        """
        signature = read_signature(function, skip)
        parameters = signature.parameters
        schema = _arguments_schema(function, parameters)
        decode = _decoder(function, parameters, strict=not from_text)
        types = {parameter.name: parameter.type for parameter in parameters}
        check_keys = KeyCheck(types).check if ignores_keys(types.values()) else None
        return cls(schema, signature.injected, decode, check_keys)

    def decode(self, raw: bytes | msgspec.Raw) -> dict[str, Any]:
        """Decode the keyword arguments for the function.

        Raises:
            ArgumentsInvalid: they do not fit the schema, or are not JSON.
        """
        try:
            arguments = _as_dict(self._decode(raw))
        except Exception as error:  # User-defined validators may raise anything.
            arguments = self._decode_whole(raw, error)
        if self._check_keys is not None:
            self._check_keys(raw)
        return arguments

    def _decode_whole(self, raw: bytes | msgspec.Raw, error: Exception) -> dict[str, Any]:
        """Decode again with integers, if one was written as 3.0."""
        whole = with_whole_numbers(raw, error)
        if whole is None:
            raise problems.refused(error, self.schema) from error
        try:
            return _as_dict(self._decode(whole))
        except Exception as reason:
            raise problems.refused(reason, self.schema) from reason


class Output:
    """The result of a function: its schema, encoder and check."""

    __slots__ = ("_annotation", "_check", "_name", "is_object", "schema")

    def __init__(self, name: str, schema: Schema | None, annotation: Any = None) -> None:
        """Take the declared type, or None for a schema that was given as data.

        Raises:
            DefinitionError: the schema is not valid.
        """
        self._name = name
        self._annotation = annotation
        self._check: Callable[[Any, bytes], None] | None = None
        if schema is not None and annotation is None:
            from hubbub.protocol.schema_data import result_check

            self._check = result_check(schema)
        self.schema = schema
        """None if the result is text or of any type."""
        self.is_object = schema is not None and schema.get("type") == "object"

    @classmethod
    def of(cls, function: Callable[..., Any], *, skip: Collection[type] = ()) -> "Output":
        """Read a function's return annotation; a type that contains one in `skip` has no schema.

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
        return cls(name_of(function), _closed(with_notes_last(root), definitions), annotation)

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
            ToolError: JSON cannot carry this value, or it is not of the declared type.
        """
        try:
            encoded = _encoder.encode(value)
        except Exception as error:  # User-defined serializers may raise anything.
            raise ToolError(f"{self._name} returned a value that is not JSON: {_first_line(error)}") from error
        if self.schema is not None:
            self.check(value, encoded)
        return encoded

    def check(self, value: Any, encoded: bytes) -> None:
        """Refuse a result that clients would refuse, and log the reason for the author.

        Raises:
            ToolError: it is not of the declared type.
        """
        if self._check is None:
            from hubbub.protocol.result_check import ResultCheck  # Needed by the first result only.

            self._check = ResultCheck(self._annotation).check
        try:
            self._check(value, encoded)
        except ValueError as mismatch:
            declared = "its output schema" if self._annotation is None else f"`{_type_name(self._annotation)}`"
            logger.error("%s returned a result that does not match %s: %s", self._name, declared, mismatch)
            raise ToolError(
                f"{self._name} returned a result that does not match its output schema; the server's log says where"
            ) from None


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
        except Exception:  # A default that JSON cannot carry is left out of the schema.
            pass
    return with_notes_last(schema)


def _closed(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    wanted = needed(schema, definitions)
    return {**schema, "$defs": wanted} if wanted else schema


def _unsupported(function: Callable[..., Any], parameters: tuple[Parameter, ...], error: Exception) -> DefinitionError:
    """Find the parameter without a schema: the error for all of them does not name it."""
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
    # msgspec refuses most mutable defaults; as in Python, every call gets the same object.
    return parameter.name, parameter.type, msgspec.field(default_factory=lambda: default)


def with_whole_numbers(raw: bytes | msgspec.Raw, error: Exception) -> bytes | None:
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


def _type_name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__).strip()
