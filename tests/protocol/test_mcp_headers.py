from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import DefinitionError, HeaderMismatch, InvalidParams
from hubbub.protocol.mcp_headers import check_header_parameters, decode_value, encode_value, header_parameters

# -- values --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("us-west1", "us-west1"),
        ("", ""),
        ("two  words ~!", "two  words ~!"),
        (42, "42"),
        (-7, "-7"),
        (0, "0"),
        (2**53 - 1, "9007199254740991"),
        (True, "true"),
        (False, "false"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded", "=?base64?IHBhZGRlZA==?="),
        ("padded ", "=?base64?cGFkZGVkIA==?="),
        (" ", "=?base64?IA==?="),
        ("a\tb", "=?base64?YQli?="),
        ("a\r\nb", "=?base64?YQ0KYg==?="),
        ("\x7f", "=?base64?fw==?="),
        ("=?base64?SGVsbG8=?=", "=?base64?PT9iYXNlNjQ/U0dWc2JHOD0/PQ==?="),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("SGVsbG8=?=", "SGVsbG8=?="),
    ],
)
def test_a_value_has_one_header_form(value: int | str, text: str) -> None:
    assert encode_value(value) == text
    assert decode_value(text) == (text if isinstance(value, int) else value)


@pytest.mark.parametrize("value", [2**53, -(2**53), "\ud800"])
def test_a_value_without_a_header_form_is_refused(value: int | str) -> None:
    with pytest.raises(InvalidParams):
        encode_value(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("=?base64?SGVsbG8=?=", "Hello"),
        (" \t Hello \t", "Hello"),
        ("  =?base64?SGVsbG8=?=\t", "Hello"),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("SGVsbG8=?=", "SGVsbG8=?="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("=?base64?=", "=?base64?="),
        ("=?base64??=", ""),
        ("=?base64?IA==?=", " "),
        ("a\tb", "a\tb"),
    ],
)
def test_header_text_is_decoded_strictly(text: str, value: str) -> None:
    assert decode_value(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "=?base64?SGVsbG8?=",  # padding is missing
        "=?base64?SGVsbG8==?=",  # too much padding
        "=?base64?SGVs!!!bG8=?=",
        "=?base64?SGVs bG8=?=",
        "=?base64?SGVsbG8=\n?=",
        "=?base64?SGVsbG9=?=",  # bits after the end
        "=?base64?=SGVsbG8?=",
        "=?base64?_-8=?=",  # the URL alphabet
        "=?base64?é?=",
        "=?base64?/w==?=",  # not UTF-8
        "=?base64?7aCA?=",  # a surrogate
        "café",
        "a\x00b",
    ],
)
def test_header_text_in_a_non_canonical_form_is_a_mismatch(text: str) -> None:
    with pytest.raises(HeaderMismatch):
        decode_value(text)


@given(st.text(st.characters(codec="utf-8")) | st.text(st.sampled_from("=?base64 \tA"), max_size=30))
def test_any_text_is_encoded_and_decoded_unchanged(value: str) -> None:
    text = encode_value(value)
    assert text.isascii()
    assert text.isprintable()
    assert text == text.strip()
    assert decode_value(text) == value
    assert decode_value(f" {text}\t") == value


@given(st.text())
def test_any_header_text_decodes_or_is_a_mismatch(text: str) -> None:
    try:
        value = decode_value(text)
    except HeaderMismatch:
        return
    assert decode_value(encode_value(value)) == value


# -- annotations ---------------------------------------------------------------


def annotated(name: object, kind: object = "string") -> dict[str, object]:
    return {"type": kind, "x-mcp-header": name}


def test_annotations_are_found_through_properties_only() -> None:
    schema = {
        "type": "object",
        "properties": {
            "region": annotated("Region"),
            "plain": {"type": "string"},
            "where": {"type": "object", "properties": {"zone": annotated("Zone-2", "integer")}},
            "dry": annotated("dry_run", "boolean"),
        },
    }
    assert header_parameters(schema) == {
        "Mcp-Param-Region": ("region",),
        "Mcp-Param-Zone-2": ("where", "zone"),
        "Mcp-Param-dry_run": ("dry",),
    }


def test_a_schema_without_annotations_has_no_headers() -> None:
    assert header_parameters({}) == {}
    assert header_parameters({"type": "object", "properties": {"a": True}, "items": False}) == {}


def test_annotations_inside_default_const_enum_and_examples_are_ignored() -> None:
    schema = {
        "properties": {
            "x-mcp-header": {"type": "string"},
            "a": {
                "default": annotated(""),
                "const": annotated(""),
                "enum": [annotated("")],
                "examples": [annotated("")],
            },
        }
    }
    assert header_parameters(schema) == {}


@pytest.mark.parametrize("name", ["", "two words", "a:b", "é", "a\r\nb", "a/b", None, 5, ["a"], "(a)", "a\n"])
def test_an_annotation_must_be_a_header_token(name: object) -> None:
    with pytest.raises(DefinitionError, match="valid HTTP header name"):
        header_parameters({"properties": {"a": annotated(name)}})


@pytest.mark.parametrize("kind", ["number", "object", "array", "null", None, ["string", "null"], "String"])
def test_an_annotation_must_be_on_a_string_an_integer_or_a_boolean(kind: object) -> None:
    with pytest.raises(DefinitionError, match="string, integer or boolean"):
        header_parameters({"properties": {"a": annotated("A", kind)}})


def test_annotations_must_differ_in_more_than_case() -> None:
    with pytest.raises(DefinitionError, match="share"):
        header_parameters({"properties": {"a": annotated("Region"), "b": annotated("region")}})
    nested = {"properties": {"a": annotated("R"), "o": {"properties": {"b": annotated("r")}}}}
    with pytest.raises(DefinitionError, match="share"):
        header_parameters(nested)


HIDDEN = {"properties": {"x": annotated("X")}}


@pytest.mark.parametrize(
    "schema",
    [
        annotated("X"),
        {"items": HIDDEN},
        {"items": [HIDDEN]},
        {"prefixItems": [HIDDEN]},
        {"oneOf": [{}, HIDDEN]},
        {"anyOf": [HIDDEN]},
        {"allOf": [HIDDEN]},
        {"not": HIDDEN},
        {"if": HIDDEN},
        {"then": HIDDEN},
        {"else": HIDDEN},
        {"$defs": {"d": HIDDEN}},
        {"$defs": {"d": annotated("X")}},
        {"definitions": {"d": HIDDEN}},
        {"patternProperties": {".": annotated("X")}},
        {"additionalProperties": annotated("X")},
        {"dependentSchemas": {"d": HIDDEN}},
        {"contains": HIDDEN},
        {"propertyNames": annotated("X")},
        {"unevaluatedProperties": HIDDEN},
    ],
)
def test_an_annotation_outside_of_properties_is_refused(schema: dict[str, Any]) -> None:
    for root in (schema, {"properties": {"o": schema}} if schema != annotated("X") else schema):
        with pytest.raises(DefinitionError, match="`properties`"):
            header_parameters(root)


# -- headers against arguments -------------------------------------------------

PARAMETERS = {"Mcp-Param-A": ("a",), "Mcp-Param-B": ("o", "b")}


def check(arguments: dict[str, object], **headers: str) -> None:
    check_header_parameters(PARAMETERS, arguments, {f"Mcp-Param-{name}": text for name, text in headers.items()}.get)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        ("x", "  x "),
        ("x", "=?base64?eA==?="),
        ("", ""),
        ("ü", "=?base64?w7w=?="),
        ("42", "42"),
        (42, "42"),
        (42, "042"),
        (42, "42.0"),
        (42, "=?base64?NDI=?="),
        (42.0, "42"),
        (-1, "-1"),
        (0, "-0"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_a_header_equal_to_its_argument_passes(value: object, text: str) -> None:
    check({"a": value}, A=text)
    check({"o": {"b": value}}, B=text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "X"),
        ("x", "y"),
        ("x", ""),
        ("", "x"),
        ("42", "42.0"),
        (42, "43"),
        (42, "+42"),
        (42, "4 2"),
        (42, "0x2a"),
        (42, "4_2"),
        (42, ""),
        (42, "\N{FULLWIDTH DIGIT FOUR}2"),
        (42, "42" + "0" * 5000),
        (42.5, "42.5"),
        (float("nan"), "nan"),
        (1, "true"),
        (True, "1"),
        (True, "True"),
        (False, "0"),
        (["x"], "x"),
        ({}, "{}"),
        ("x", "=?base64?eA=?="),
    ],
)
def test_a_header_that_differs_from_its_argument_is_a_mismatch(value: object, text: str) -> None:
    with pytest.raises(HeaderMismatch):
        check({"a": value}, A=text)


@pytest.mark.parametrize("value", ["x", "", 0, False])
def test_an_argument_without_its_header_is_a_mismatch(value: int | str) -> None:
    with pytest.raises(HeaderMismatch, match="missing"):
        check({"a": value})


@pytest.mark.parametrize("arguments", [{}, {"a": None}, {"o": None}, {"o": {}}, {"o": {"b": None}}, {"o": "b"}])
def test_a_missing_argument_without_a_header_passes(arguments: dict[str, Any]) -> None:
    check(arguments)


@pytest.mark.parametrize("arguments", [{}, {"o": None}, {"o": {"b": None}}, {"o": []}])
def test_a_header_without_its_argument_is_a_mismatch(arguments: dict[str, Any]) -> None:
    with pytest.raises(HeaderMismatch, match=r"o\.b"):
        check(arguments, B="x")


@given(st.text(st.characters(codec="utf-8")) | st.integers(1 - 2**53, 2**53 - 1) | st.booleans())
def test_an_encoded_header_passes_the_check(value: int | str) -> None:
    check({"a": value}, A=encode_value(value))
