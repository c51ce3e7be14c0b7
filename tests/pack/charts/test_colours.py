"""Colours that are derived from names, and distinguishable with every kind of colour vision."""

from itertools import combinations
from math import dist

import pytest

from hubbub.pack.charts import GREY, PALETTE, Look, choose_colour, looks

# Simulated vision without red, green and blue cones: Machado, Oliveira and Fernandes (2009), severity 1.
VISIONS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "without red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "without green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "without blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
Triple = tuple[float, float, float]
APPS = ["Code", "Firefox", "kitty", "Thunderbird", "Slack", "Obsidian", "zoom", "Spotify", "GIMP", "微信"]


def linear(colour: str) -> Triple:
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    first, second, third = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue))
    return first, second, third


def times(matrix: tuple[Triple, Triple, Triple], vector: Triple) -> Triple:
    first, second, third = (sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)
    return first, second, third


def oklab(light: Triple) -> Triple:
    cones = times(
        ((0.4122214708, 0.5363325363, 0.0514459929), (0.2119034982, 0.6806995451, 0.1073969566),
         (0.0883024619, 0.2817188376, 0.6299787005)),
        light,
    )  # fmt: skip
    first, second, third = (max(cone, 0.0) ** (1 / 3) for cone in cones)
    return times(
        ((0.2104542553, 0.7936177850, -0.0040720468), (1.9779984951, -2.4285922050, 0.4505937099),
         (0.0259040371, 0.7827717662, -0.8086757660)),
        (first, second, third),
    )  # fmt: skip


def test_every_colour_has_enough_contrast_with_white() -> None:
    for colour in (*PALETTE, GREY):
        red, green, blue = linear(colour)
        assert 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) >= 3, colour


@pytest.mark.parametrize(
    ("vision", "least"), [("normal", 14), ("without red", 8), ("without green", 8), ("without blue", 6.5)]
)
def test_colours_can_be_distinguished_with_colour_blindness(vision: str, least: float) -> None:
    seen = {}
    for colour in PALETTE:
        red, green, blue = (min(1.0, max(0.0, part)) for part in times(VISIONS[vision], linear(colour)))
        seen[colour] = oklab((red, green, blue))
    for one, other in combinations(PALETTE, 2):
        assert 100 * dist(seen[one], seen[other]) >= least, (one, other)


def test_the_colour_of_a_name_does_not_depend_on_other_names_or_their_order() -> None:
    whole = looks(APPS)
    for count in range(1, len(APPS)):
        few = looks(reversed(APPS[:count]))
        assert {name: look.colour for name, look in few.items()} == {name: whole[name].colour for name in few}
    assert looks(reversed(APPS)) == whole


def test_an_application_has_the_same_colour_on_three_systems() -> None:
    assert len(set(looks(["Firefox", "firefox", "firefox.exe"]).values())) == 1


def test_names_that_share_a_colour_differ_by_texture() -> None:
    names = [f"app {number}" for number in range(40)]
    found = looks(names)
    assert (
        len(set(found.values())) == len(names)
        or max(sum(choose_colour(name) == colour for name in names) for colour in PALETTE) > 4
    ), "four textures for each colour"
    few = looks(names[:10])
    assert len(set(few.values())) == 10
    assert all(look.colour == choose_colour(name) for name, look in few.items())


def test_an_empty_name_is_grey() -> None:
    assert looks(["Code", "(none)"], nameless=["(none)"])["(none)"] == Look(GREY)


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 100_000, "\x00"])
def test_any_text_has_a_colour(name: str) -> None:
    assert choose_colour(name) in PALETTE
