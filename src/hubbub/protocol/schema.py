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
from hubbub.protocol import pydantic_support, validation_messages
from hubbub.protocol.schema_writer import Schema
from hubbub.protocol.signatures import Parameter, function_name, read_signature, resolve_hints, union_members
from hubbub.protocol.type_schema import describe_types, inline_reference, order_keywords, select_definitions
from hubbub.protocol.unknown_keys import KeyCheck, has_open_objects

# A list of anything may be a list of content, which has no schema.
_WITHOUT_SCHEMA = frozenset({None, type(None), str, bytes, Any, list, list[Any]})
_IMMUTABLE = (type(None), bool, int, float, str, bytes)

logger = logging.getLogger("hubbub.handlers")
_encoder = msgspec.json.Encoder(enc_hook=pydantic_support.encode_hook)
_as_dict = msgspec.structs.asdict
as_values = msgspec.structs.astuple
"""Convert the struct that `Arguments.read` returned to positional arguments."""


class Arguments:
    """The arguments of a function: their schema and decoder."""

    __slots__ = ("_check_keys", "_decode", "injected", "names", "schema")

    def __init__(
        self,
        schema: Schema,
        injected: dict[str, Any],
        decode: Callable[[Any], msgspec.Struct],
        names: tuple[str, ...] = (),
        check_keys: Callable[[Any], None] | None = None,
    ) -> None:
        self.schema = schema
        self.names = names
        """The names of the arguments, in the order in which `read` returns them."""
        self.injected = injected
        """Parameters that the server fills, with their types."""
        self._decode = decode
        self._check_keys = check_keys

    @classmethod
    def from_function(
        cls, function: Callable[..., Any], *, skip: Collection[type] = (), from_text: bool = False
    ) -> "Arguments":
        """Read a function; the server fills parameters of a type in `skip`.

        `from_text` is for callers that can only send text: "3" is then accepted as a number.

        Raises:
            DefinitionError: a parameter cannot be filled from JSON.
        """
        signature = read_signature(function, skip)
        parameters = signature.parameters
        schema = _arguments_schema(function, parameters)
        decode = _build_decoder(function, parameters, strict=not from_text)
        types = {parameter.name: parameter.type for parameter in parameters}
        check_keys = KeyCheck(types).check if has_open_objects(types.values()) else None
        return cls(schema, signature.injected, decode, tuple(types), check_keys)

    def decode(self, raw: bytes | msgspec.Raw) -> dict[str, Any]:
        """Decode the keyword arguments for the function.

        Raises:
            ArgumentsInvalid: they do not fit the schema, or are not JSON.
        """
        return _as_dict(self.read(raw))

    def read(self, raw: bytes | msgspec.Raw) -> msgspec.Struct:
        """Decode the arguments to a struct with a field for each; `as_values` makes positional arguments of it.

        Raises:
            ArgumentsInvalid: as for `decode`.
        """
        decode = self._decode
        try:
            arguments = decode(raw)
        except Exception as error:  # User-defined validators may raise anything.
            arguments = self._decode_integral(raw, error)
        if self._check_keys is not None:
            self._check_keys(raw)
        return arguments

    def _decode_integral(self, raw: bytes | msgspec.Raw, error: Exception) -> msgspec.Struct:
        """Decode again with integers, if one was written as 3.0."""
        integral = convert_integral_floats(raw, error)
        if integral is None:
            raise validation_messages.arguments_error(error, self.schema) from error
        try:
            return self._decode(integral)
        except Exception as reason:
            raise validation_messages.arguments_error(reason, self.schema) from reason


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
            from hubbub.protocol.schema_data import make_result_check

            self._check = make_result_check(schema)
        self.schema = schema
        """None if the result is text or of any type."""
        self.is_object = schema is not None and schema.get("type") == "object"

    @classmethod
    def from_function(cls, function: Callable[..., Any], *, skip: Collection[type] = ()) -> "Output":
        """Read a function's return annotation; a type that contains one in `skip` has no schema.

        Raises:
            DefinitionError: JSON cannot represent the annotated type.
        """
        annotation = resolve_hints(function, skip).get("return")
        unannotated = getattr(annotation, "__origin__", None) if hasattr(annotation, "__metadata__") else annotation
        if all(member in _WITHOUT_SCHEMA for member in union_members(unannotated)) or _contains_type(unannotated, skip):
            return cls(function_name(function), None)
        try:
            (schema,), definitions = describe_types([annotation], "serialization")
        except Exception as error:
            raise DefinitionError(
                f"{function_name(function)}: its return type has no JSON Schema ({_first_line(error)}); "
                "return a type that JSON can represent, or annotate it as `Any`"
            ) from error
        root = inline_reference(schema, definitions)
        if root is not schema:
            root.pop("title", None)
        return cls(function_name(function), _add_definitions(order_keywords(root), definitions), annotation)

    @property
    def wrapped_schema(self) -> Schema | None:
        """The schema of `{"result": value}`, for revisions that allow only objects."""
        if self.schema is None:
            return None
        inner = {key: value for key, value in self.schema.items() if key != "$defs"}
        wrapped: Schema = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
        return _add_definitions(wrapped, self.schema.get("$defs", {}))

    def encode(self, value: Any) -> bytes:
        """Write a result as JSON.

        Raises:
            ToolError: JSON cannot represent this value, or it is not of the declared type.
        """
        try:
            encoded = _encoder.encode(value)
        except Exception as error:  # User-defined serializers may raise anything.
            raise ToolError(
                f"{self._name} returned a value that JSON cannot represent: {_first_line(error)}"
            ) from error
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
                f"{self._name} returned a result that does not match its output schema; "
                "the server's log has the details"
            ) from None


def _arguments_schema(function: Callable[..., Any], parameters: tuple[Parameter, ...]) -> Schema:
    try:
        schemas, definitions = describe_types([parameter.type for parameter in parameters], "validation")
    except Exception as error:
        raise _unsupported_error(function, parameters, error) from error
    properties = {
        parameter.name: _property_schema(parameter, schema, definitions)
        for parameter, schema in zip(parameters, schemas, strict=True)
    }
    required = [parameter.name for parameter in parameters if parameter.default is msgspec.NODEFAULT]
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return _add_definitions(schema, definitions)


def _property_schema(parameter: Parameter, schema: Schema, definitions: dict[str, Schema]) -> Schema:
    target = inline_reference(schema, definitions)
    if "enum" in target:  # Choices are easier to follow where they are used.
        schema = {key: value for key, value in target.items() if key != "title" or key in schema}
    schema = {**schema, **parameter.notes}
    if parameter.default is not msgspec.NODEFAULT:
        try:
            schema["default"] = msgspec.json.decode(_encoder.encode(parameter.default))
        except Exception:  # A default that JSON cannot represent is left out of the schema.
            pass
    return order_keywords(schema)


def _add_definitions(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    used_definitions = select_definitions(schema, definitions)
    return {**schema, "$defs": used_definitions} if used_definitions else schema


def _unsupported_error(
    function: Callable[..., Any], parameters: tuple[Parameter, ...], error: Exception
) -> DefinitionError:
    """Find the parameter without a schema: the error for all of them does not name it."""
    for parameter in parameters:
        try:
            describe_types([parameter.type], "validation")
        except Exception as reason:
            return DefinitionError(
                f"{function_name(function)}: parameter `{parameter.name}` has a type that "
                f"cannot be decoded from JSON ({_first_line(reason)})"
            )
    return DefinitionError(f"{function_name(function)}: its parameters have no JSON Schema ({_first_line(error)})")


def _build_decoder(
    function: Callable[..., Any], parameters: tuple[Parameter, ...], *, strict: bool
) -> Callable[[Any], msgspec.Struct]:
    try:
        struct = msgspec.defstruct(
            "Arguments",
            [_struct_field(parameter) for parameter in parameters],
            kw_only=True,
            forbid_unknown_fields=True,
        )
        return msgspec.json.Decoder(struct, strict=strict, dec_hook=pydantic_support.decode_hook).decode
    except (TypeError, ValueError) as error:
        raise DefinitionError(
            f"{function_name(function)}: its parameters cannot be decoded from JSON ({_first_line(error)})"
        ) from error


def _struct_field(parameter: Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    default = parameter.default
    if default is msgspec.NODEFAULT:
        return parameter.name, parameter.type
    if isinstance(default, _IMMUTABLE):
        return parameter.name, parameter.type, default
    # msgspec refuses most mutable defaults; as in Python, every call gets the same object.
    return parameter.name, parameter.type, msgspec.field(default_factory=lambda: default)


def convert_integral_floats(raw: bytes | msgspec.Raw, error: Exception) -> bytes | None:
    """Write 3.0 as 3: JSON Schema calls both integers, msgspec only the second."""
    if not isinstance(error, msgspec.ValidationError) or "got `float`" not in str(error):
        return None
    try:
        return _encoder.encode(_to_integers(msgspec.json.decode(raw)))
    except (ValueError, RecursionError):
        return None


def _to_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _to_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_integers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _contains_type(annotation: Any, kinds: Collection[type]) -> bool:
    if isinstance(annotation, type) and annotation in kinds:
        return True
    return any(_contains_type(part, kinds) for part in getattr(annotation, "__args__", ()))


def _type_name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__).strip()
