"""Convert typed values to protobuf messages and back, field by field, by their types and the descriptors.

A field of a struct, or a parameter of a method, is the field of the message with the same name. If the message has no
such field, JSON is in NAME_json, and the fields of a struct are among those of the message itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from types import GenericAlias, NoneType
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from hubbub.packs.tabletop import checks, limits
from hubbub.packs.tabletop.campaign_document import CampaignDocument, read_document
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.model import GM_CONTROL, Controller, Page, PageRequest
from hubbub.packs.tabletop.wire import campaign_pb2

_UNSPECIFIED: Final[dict[type[StrEnum], StrEnum]] = {Controller: Controller.HUMAN}
"""Value of an enum that is unspecified in a message; other enums are required."""
_STEP_KEYS: Final = (
    "hope", "fear", "base_total", "modifier", "total", "difficulty", "meets_difficulty", "is_crit",
    "critical_override", "outcome", "outcome_full",
)  # fmt: skip
"""Order of the keys in the data of an explanation's steps, by the contract."""


class Codec(NamedTuple):
    """Conversion of one type to a field of a message and back."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class _Field(NamedTuple):
    name: str
    wire_name: str
    """Empty for a struct whose fields are among those of the message itself."""
    codec: Codec
    is_optional: bool
    absent: Any
    """The value of an optional field that the message leaves out: None or UNSET."""
    has_presence: bool


class Fields:
    """Converts named values of known types to the fields of one kind of message."""

    def __init__(self, types: Mapping[str, Any], message: type[Message]) -> None:
        self._message_class = message
        self._fields = [_make_field(name, hint, message) for name, hint in types.items()]

    def message(self, values: Mapping[str, Any]) -> Any:
        """Build the message.

        Raises: InvalidArgument, for a value that does not fit into it.
        """
        fields = self.write(values)
        try:
            return self._message_class(**fields)
        except ValueError as error:
            raise self._misfit_error(fields) from error

    def write(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the message; values that are None or UNSET are left out."""
        written: dict[str, Any] = {}
        for field in self._fields:
            value = values[field.name]
            if value is None or value is UNSET:
                continue
            if field.wire_name:
                written[field.wire_name] = field.codec.write(value)
            else:
                written.update(field.codec.write(value))
        return written

    def read(self, message: Any) -> dict[str, Any]:
        """Return the values of a message.

        Raises: InvalidArgument, for an enum that is unspecified or unknown, and for bad JSON.
        """
        values = {}
        for name, wire_name, codec, is_optional, absent, has_presence in self._fields:
            if not wire_name:
                values[name] = codec.read(message)
            elif is_optional and not (message.HasField(wire_name) if has_presence else getattr(message, wire_name)):
                values[name] = absent
            else:
                values[name] = codec.read(getattr(message, wire_name))
        return values

    def _misfit_error(self, fields: Mapping[str, Any]) -> InvalidArgument:
        for name, value in fields.items():
            try:
                self._message_class(**{name: value})
            except ValueError as error:
                words = name.replace("_", " ")
                if isinstance(value, str):
                    checks.validate_characters(value, words)
                return InvalidArgument(f"{words} does not fit into a message: {error}")
        raise AssertionError("each field fits")


def _make_field(name: str, hint: Any, message: type[Message]) -> _Field:
    options = [option for option in get_args(hint) if option not in (NoneType, UnsetType)]
    is_optional = len(options) == 1 and len(get_args(hint)) == 2
    kind = options[0] if is_optional else hint
    absent = None if NoneType in get_args(hint) else UNSET
    descriptor_fields: Any = message.DESCRIPTOR
    for wire_name in (name, f"{name}_json"):
        if (field := descriptor_fields.fields_by_name.get(wire_name)) is not None:
            return _Field(name, wire_name, _make_codec(kind, field), is_optional, absent, field.has_presence)
    if kind is PageRequest:
        return _Field(name, "", Codec(_write_page, _read_page), False, None, False)
    return _Field(name, "", _flat_codec(kind, message), False, None, False)


def _make_codec(kind: Any, field: FieldDescriptor) -> Codec:
    """Return the codec of a type and a field of a message, single or repeated."""
    if get_origin(kind) in (tuple, Sequence):
        item = _value_codec(get_args(kind)[0], field)
        if item is _IDENTITY:
            return Codec(list, tuple)
        return Codec(
            lambda values: [item.write(value) for value in values],
            lambda found: tuple([item.read(value) for value in found]),
        )
    return _value_codec(kind, field)


def _value_codec(kind: Any, field: FieldDescriptor) -> Codec:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return Codec(_write_json, read_document if kind is CampaignDocument else _read_event_data)
    if field.enum_type is not None:
        return _enum_codec(kind, field.enum_type)
    if field.message_type is None:
        return _IDENTITY
    known = _MESSAGES.get(field.message_type.full_name)
    return _struct_codec(kind, GetMessageClass(field.message_type)) if known is None else known


def _enum_codec(kind: type[StrEnum], enum: EnumDescriptor) -> Codec:
    """Map words to enum numbers; value names may have the enum's name as a prefix."""
    prefix = f"{enum.name.upper()}_"
    numbers = {value.name.removeprefix(prefix): value.number for value in enum.values}
    words = {numbers[word.value]: word for word in kind}
    if kind in _UNSPECIFIED:
        words[0] = _UNSPECIFIED[kind]
    what = re.sub(r"(?<=.)(?=[A-Z])", " ", kind.__name__).lower()

    def read(number: int) -> StrEnum:
        try:
            return words[number]
        except KeyError:
            raise InvalidArgument(f"{what} is required; use one of {', '.join(kind)}") from None

    return Codec(lambda word: numbers[word.value], read)


def _struct_codec(kind: type[msgspec.Struct], message: type[Message]) -> Codec:
    fields = Fields(get_type_hints(kind), message)
    return Codec(lambda value: fields.message(asdict(value)), lambda found: kind(**fields.read(found)))


def _flat_codec(kind: type[msgspec.Struct], message: type[Message]) -> Codec:
    fields = Fields(get_type_hints(kind), message)
    return Codec(lambda value: fields.write(asdict(value)), lambda found: kind(**fields.read(found)))


def result_codec(result: Any, message: type[Message], name: str | None) -> Codec:
    """Return the codec of a response: its field `name`, or the items of a page in it; without a name, all of it."""
    if name is None:
        return _struct_codec(result, message)
    if get_origin(result) is not Page:
        fields = Fields({name: result}, message)
        return Codec(lambda value: fields.message({name: value}), lambda found: fields.read(found)[name])
    fields = Fields({name: GenericAlias(tuple, (*get_args(result), ...)), "next_page_token": str}, message)
    return Codec(
        lambda page: fields.message({name: page.items, "next_page_token": page.next_page_token}),
        lambda found: Page(*fields.read(found).values()),
    )


def _write_json(data: Any) -> bytes:
    try:
        return msgspec.json.encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"data must be JSON: {error}") from error


def _read_event_data(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (ValueError, RecursionError) as error:  # invalid UTF-8 raises another ValueError than DecodeError
        raise InvalidArgument(f"event data must be a JSON object: {error}") from error


def _write_page(page: PageRequest) -> dict[str, Any]:
    return {"page_size": min(max(page.size, 0), limits.MAX_PAGE_SIZE), "page_token": page.token}


def _read_page(message: Any) -> PageRequest:
    return PageRequest(message.page_size, message.page_token)


def _write_time(time: datetime) -> Timestamp:
    return Timestamp(seconds=int(time.timestamp()))


def _read_time(time: Timestamp) -> datetime:
    return datetime.fromtimestamp(time.seconds, UTC)


def _write_controller(controller: str) -> campaign_pb2.ActorController:
    if controller.strip().upper() == GM_CONTROL:
        return campaign_pb2.ActorController(gm=campaign_pb2.GmController())
    participant = campaign_pb2.ParticipantController(
        participant_id=checks.validate_characters(controller, "controller")
    )
    return campaign_pb2.ActorController(participant=participant)


def _read_controller(message: campaign_pb2.ActorController) -> str:
    """Return "GM" or the participant's id; empty if the message names neither."""
    return GM_CONTROL if message.HasField("gm") else message.participant.participant_id


def _write_data(data: dict[str, Any]) -> Struct:
    message = Struct()
    message.update(data)
    return message


def _read_data(message: Struct) -> dict[str, Any]:
    """Restore integers and the contract's key order: a Struct has only doubles and sorts its keys."""
    found = {key: int(value) if isinstance(value, float) else value for key, value in MessageToDict(message).items()}
    positions = {key: position for position, key in enumerate(_STEP_KEYS)}
    return {key: found[key] for key in sorted(found, key=lambda key: (positions.get(key, len(positions)), key))}


_IDENTITY: Final = Codec(lambda value: value, lambda value: value)
_MESSAGES: Final[dict[str, Codec]] = {
    "google.protobuf.Timestamp": Codec(_write_time, _read_time),
    "google.protobuf.Struct": Codec(_write_data, _read_data),
    "campaign.v1.ActorController": Codec(_write_controller, _read_controller),
}
"""Codecs of messages that are not structs."""
