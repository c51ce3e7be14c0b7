"""Types of every kind that a function may take and return, and a helper for the messages about invalid arguments."""

import dataclasses
import datetime
import enum
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from hubbub import ArgumentsInvalid
from hubbub.protocol.schema import Arguments


class Service:
    """A service that the server injects."""


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Node:
    value: int
    below: "Node | None" = None


class Place(TypedDict):
    city: str
    days: int


class Point(NamedTuple):
    x: int
    y: int = 0


class Box(msgspec.Struct):
    point: Point
    colour: Colour = Colour.RED


class Person(pydantic.BaseModel):
    name: str
    born: datetime.date
    friends: "list[Person]" = []


class StrictPerson(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    born: datetime.date


@dataclasses.dataclass
class Team:
    lead: Person
    others: list[Person] = dataclasses.field(default_factory=list)


def refusal_message(function: Callable[..., Any], raw: bytes) -> str:
    with pytest.raises(ArgumentsInvalid) as caught:
        Arguments.from_function(function).decode(raw)
    return caught.value.message
