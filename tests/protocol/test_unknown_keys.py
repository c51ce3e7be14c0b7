"""Undeclared keys are refused at every depth, with their path and the nearest known name."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypedDict

import jsonschema_rs
import msgspec
import pydantic
import pytest
from tests.protocol.sample_types import Node, Team, refusal_message

from hubbub.protocol.schema import Arguments


class Rng(msgspec.Struct):
    seed: int | None = None


class ClosedRng(msgspec.Struct, forbid_unknown_fields=True):
    seed: int | None = None


class Place(TypedDict, total=False):
    city: str
    rng: Rng


@dataclasses.dataclass
class Trip:
    places: list[Place]
    by_name: dict[str, Place] = dataclasses.field(default_factory=dict)


class Dog(msgspec.Struct, tag="dog", rename="camel"):
    tail_length: int = 0


class Cat(msgspec.Struct, tag="cat"):
    lives: int = 9


class Pair(NamedTuple):
    first: Rng
    second: int = 0


class Line(msgspec.Struct, array_like=True):
    start: Rng
    end: Rng | None = None


class Loose(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore")
    name: str = ""


class Inner(pydantic.BaseModel):
    name: str = ""


class Renamed(pydantic.BaseModel):
    inner: Inner | None = None
    size: int = pydantic.Field(0, alias="Size")

    @pydantic.model_validator(mode="before")
    @classmethod
    def accept_the_old_name(cls, data: Any) -> Any:
        if isinstance(data, dict) and "length" in data:
            data["Size"] = data.pop("length")
        return data


class Outer(pydantic.BaseModel):
    loose: Loose = Loose()
    inner: Inner = Inner()


def struct(rng: Rng | None = None) -> None: ...
def closed(rng: ClosedRng | None = None) -> None: ...
def typed(place: Place) -> None: ...
def trip(trip: Trip) -> None: ...
def pets(pets: list[Dog | Cat]) -> None: ...
def pair(pair: Pair, line: Line | None = None) -> None: ...
def node(node: Node) -> None: ...
def position(places: tuple[int, Place]) -> None: ...
def either(item: Annotated[Rng | list[Rng] | str, "One or more"]) -> None: ...
def model(item: Renamed) -> None: ...
def team(team: Team) -> None: ...


@pytest.mark.parametrize(
    ("function", "raw", "message"),
    [
        (struct, '{"rng":{"sede":7}}', "rng.sede: unknown field; did you mean 'seed'?"),
        (closed, '{"rng":{"sede":7}}', "rng.sede: unknown field; did you mean 'seed'?"),
        (struct, '{"rng":{"x":7}}', "rng.x: unknown field; known: seed"),
        (typed, '{"place":{"town":"Rome"}}', "place.town: unknown field; known: city, rng"),
        (typed, '{"place":{"rng":{"seeds":1}}}', "place.rng.seeds: unknown field; did you mean 'seed'?"),
        (trip, '{"trip":{"places":[{},{"cty":"x"}]}}', "trip.places[1].cty: unknown field; did you mean 'city'?"),
        (trip, '{"trip":{"places":[],"by_name":{"a":{"cty":""}}}}', "trip.by_name.a.cty: unknown field; did you mean"),
        (trip, '{"trip":{"places":[],"name":1}}', "trip.name: unknown field; did you mean 'by_name'?"),
        (pets, '{"pets":[{"type":"cat","live":1}]}', "pets[0].live: unknown field; did you mean 'lives'?"),
        (pets, '{"pets":[{"type":"dog","tail_length":1}]}', "pets[0].tail_length: unknown field; did you mean 'tailL"),
        (pair, '{"pair":[{"sed":1}]}', "pair[0].sed: unknown field; did you mean 'seed'?"),
        (pair, '{"pair":[{}],"line":[{},{"sed":1}]}', "line[1].sed: unknown field; did you mean 'seed'?"),
        (
            node,
            '{"node":{"value":1,"below":{"value":2,"xx":null}}}',
            "node.below.xx: unknown field; known: below, value",
        ),
        (position, '{"places":[1,{"cty":""}]}', "places[1].cty: unknown field; did you mean 'city'?"),
        (either, '{"item":[{"seed":1},{"sed":1}]}', "item[1].sed: unknown field; did you mean 'seed'?"),
        (either, '{"item":{"sed":1}}', "item.sed: unknown field; did you mean 'seed'?"),
        (model, '{"item":{"inner":{"nmae":""}}}', "item.inner.nmae: unknown field; did you mean 'name'?"),
        (model, '{"item":{"Sise":1}}', "item.Sise: unknown field; did you mean 'Size'?"),
        (
            team,
            '{"team":{"lead":{"name":"A","born":"2000-01-01","frends":[]}}}',
            "team.lead.frends: unknown field; did you mean 'friends'?",
        ),
    ],
)
def test_an_unknown_key_is_refused_with_its_place_and_the_nearest_name(
    function: Callable[..., Any], raw: str, message: str
) -> None:
    refusal = refusal_message(function, raw.encode())
    assert refusal.startswith(message)
    assert not jsonschema_rs.is_valid(Arguments.from_function(function).schema, msgspec.json.decode(raw))


@pytest.mark.parametrize(
    ("function", "raw"),
    [
        (struct, '{"rng":{"seed":7}}'),
        (struct, '{"rng":null}'),
        (trip, '{"trip":{"places":[{"city":"Rome","rng":{}}],"by_name":{"anything":{}}}}'),
        (pets, '{"pets":[{"type":"dog","tailLength":1},{"type":"cat"}]}'),
        (pair, '{"pair":[{"seed":1},2]}'),
        (either, '{"item":"text"}'),
        (model, '{"item":{"length":3,"inner":{"name":"a"}}}'),
        (node, '{"node":{"value":1.0,"below":{"value":2}}}'),
    ],
)
def test_known_keys_pass(function: Callable[..., Any], raw: str) -> None:
    Arguments.from_function(function).decode(raw.encode())


def test_a_mapping_of_anything_takes_anything() -> None:
    def call(data: dict[str, Any], more: Any = None) -> None: ...

    raw = b'{"data":{"any":{"depth":1}},"more":{"x":[{"y":1}]}}'
    assert Arguments.from_function(call).decode(raw)["data"] == {"any": {"depth": 1}}


def test_a_model_that_sets_extra_decides_by_itself() -> None:
    def call(loose: Loose, outer: Outer) -> None: ...

    arguments = Arguments.from_function(call)
    arguments.decode(b'{"loose":{"more":1},"outer":{"loose":{"more":1}}}')
    assert "additionalProperties" not in arguments.schema["$defs"]["Loose"]
    assert "additionalProperties" not in arguments.schema["$defs"]["Outer"]


def test_a_long_unknown_key_is_cut() -> None:
    message = refusal_message(struct, msgspec.json.encode({"rng": {"x" * 5000: 1}}))
    assert len(message) < 200
