"""Parameters of methods, elicitation forms and content."""

import dataclasses
import enum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from hubbub import Audio, DefinitionError, Image, InvalidParams, Meta, Text
from hubbub.protocol.calls import NO_META
from hubbub.protocol.elicitation_forms import decode_form, form_schema
from hubbub.protocol.params import CallToolParams, CompleteParams, InitializeParams, ListenParams, decode_params

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


def decode(method: str, params: Any) -> tuple[Any, Meta]:
    return decode_params(method, Raw(msgspec.json.encode(params)))


def test_arguments_stay_raw_until_the_tool_is_known() -> None:
    params, meta = decode_params("tools/call", Raw(b'{"name":"x","arguments":{"a": [1, 2]}}'))
    assert isinstance(params, CallToolParams)
    assert params.name == "x"
    assert bytes(params.arguments) == b'{"a": [1, 2]}'
    assert meta is NO_META


@pytest.mark.parametrize(
    ("method", "params", "kind"),
    [
        ("initialize", {"protocolVersion": "x"}, InitializeParams),
        ("tools/call", {"name": "x"}, CallToolParams),
        ("subscriptions/listen", {}, ListenParams),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt"}, "argument": {"name": "a", "value": ""}},
            CompleteParams,
        ),
    ],
)
def test_optional_parameters_may_be_missing(method: str, params: dict[str, Any], kind: type) -> None:
    assert isinstance(decode(method, params)[0], kind)


@pytest.mark.parametrize("method", ["initialize", "tools/call", "resources/read", "prompts/get", "logging/setLevel"])
@pytest.mark.parametrize("raw", [b"{}", b"[]", b"[1]", b'{"name":1,"uri":1,"level":1,"protocolVersion":1}'])
def test_an_invalid_parameter_is_returned_as_an_error(method: str, raw: bytes) -> None:
    params, meta = decode_params(method, Raw(raw))
    assert isinstance(params, InvalidParams)
    assert params.message.startswith(f"Invalid params for {method}: ")
    assert "$" not in params.message
    assert meta is NO_META


def test_the_era_of_invalid_parameters_is_known() -> None:
    meta = {VERSION_KEY: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params, read = decode("tools/call", {"_meta": meta})
    assert isinstance(params, InvalidParams)
    assert (read.version, read.capabilities) == ("2026-07-28", {})


@pytest.mark.parametrize("broken", [{"progressToken": 1, "traceparent": 5}, {"io.modelcontextprotocol/clientInfo": 5}])
def test_the_era_of_an_invalid_meta_is_known(broken: dict[str, Any]) -> None:
    params, read = decode("tools/list", {"_meta": broken | {VERSION_KEY: "2026-07-28"}})
    assert isinstance(params, InvalidParams)
    assert read.version == "2026-07-28"
    params, read = decode("tools/list", {"_meta": broken})
    assert isinstance(params, InvalidParams)
    assert read.version is UNSET


@pytest.mark.parametrize("meta", [5, None, [], "x", {VERSION_KEY: 5}])
def test_a_meta_that_is_not_an_object_is_refused(meta: object) -> None:
    params, read = decode("tools/list", {"_meta": meta})
    assert isinstance(params, InvalidParams)
    assert read is NO_META


def test_unknown_members_and_methods_are_accepted() -> None:
    params, meta = decode("no/such", {"a": 1, "_meta": {"other": 1}})
    assert not isinstance(params, InvalidParams)
    assert meta == NO_META


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "_meta", "uri", "cursor", VERSION_KEY, "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(st.sampled_from(["tools/call", "initialize", "tools/list", "x", "completion/complete"]), VALUES)
def test_decoding_any_parameters_raises_nothing(method: str, value: object) -> None:
    _, meta = decode(method, value)
    assert isinstance(meta, Meta)


# -- forms -----------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclasses.dataclass
class AsDataclass:
    name: Annotated[str, msgspec.Meta(description="Your name")]
    age: int = 3


class AsStruct(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(description="Your name")]
    age: int = 3


class AsModel(pydantic.BaseModel):
    name: str = pydantic.Field(description="Your name")
    age: int = 3


class AsTypedDict(TypedDict):
    name: Annotated[str, msgspec.Meta(description="Your name")]
    age: int


@pytest.mark.parametrize("form", [AsDataclass, AsStruct, AsModel, AsTypedDict])
def test_a_form_is_a_flat_schema(form: type) -> None:
    schema = form_schema(form)
    assert set(schema) <= {"type", "properties", "required"}
    assert schema["type"] == "object"
    assert schema["properties"]["name"]["type"] == "string"
    assert schema["properties"]["name"]["description"] == "Your name"
    assert schema["properties"]["age"]["type"] == "integer"
    assert "name" in schema["required"]


@pytest.mark.parametrize("form", [AsDataclass, AsStruct, AsModel, AsTypedDict])
def test_the_content_of_a_form_is_decoded_to_its_type(form: type) -> None:
    filled: Any = decode_form(b'{"name":"Ada","age":36}', form)
    if form is AsTypedDict:
        assert filled == {"name": "Ada", "age": 36}
    else:
        assert (filled.name, filled.age) == ("Ada", 36)
        assert isinstance(filled, form)


@pytest.mark.parametrize("form", [AsDataclass, AsStruct, AsModel, AsTypedDict])
@pytest.mark.parametrize(
    "content", [b"{}", b"null", b"[]", b"5", b'{"name":5,"age":1}', b'{"name":"x","age":"y"}', b"{"]
)
def test_invalid_content_of_a_form_is_refused(form: type, content: bytes) -> None:
    with pytest.raises(InvalidParams, match="does not match the form"):
        decode_form(content, form)


def test_choices_are_listed_in_a_form() -> None:
    @dataclasses.dataclass
    class Choices:
        colour: Colour
        size: Literal["s", "m"] = "s"

    properties = form_schema(Choices)["properties"]
    assert properties["colour"]["enum"] in (["red", "green"], ["green", "red"])
    assert properties["colour"]["type"] == properties["size"]["type"] == "string"
    assert "$ref" not in properties["colour"]


@dataclasses.dataclass
class Nested:
    inner: AsDataclass


@dataclasses.dataclass
class Listed:
    names: list[str]


@dataclasses.dataclass
class Mapped:
    names: dict[str, str]


@pytest.mark.parametrize("form", [Nested, Listed, Mapped])
def test_a_form_cannot_nest(form: type) -> None:
    with pytest.raises(DefinitionError, match="must be a string, a number"):
        form_schema(form)


@pytest.mark.parametrize("form", [int, list[int], str])
def test_a_form_must_have_named_fields(form: Any) -> None:
    with pytest.raises(DefinitionError, match="named fields"):
        form_schema(form)


# -- content ---------------------------------------------------------------------------


def test_bytes_become_base64_and_unset_fields_are_omitted() -> None:
    assert msgspec.json.encode(Image(b"\x00\xff")) == b'{"type":"image","data":"AP8=","mimeType":"image/png"}'
    assert msgspec.json.encode(Audio(b"", "audio/mp3")) == b'{"type":"audio","data":"","mimeType":"audio/mp3"}'
    assert msgspec.json.encode(Text("x", meta={"a": 1})) == b'{"type":"text","text":"x","_meta":{"a":1}}'


@pytest.mark.parametrize("kind", [Image, Audio])
def test_an_invalid_mime_type_is_refused(kind: type[Image] | type[Audio]) -> None:
    with pytest.raises(ValueError, match="MIME type"):
        kind(b"", "png")
