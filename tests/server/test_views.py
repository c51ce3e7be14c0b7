"""Patterns of views: a combination matches exactly what the single patterns match."""

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st

from hubbub import View

NAMES = st.text(alphabet="ab._/*[]?!-\n", max_size=6)
PATTERNS = st.lists(NAMES | st.sampled_from(["*", "a*", "a/*", "[ab]*", "a?", "[!a]*", "a*b*"]), max_size=4).map(tuple)


def matches(name: str, qualified: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, each) or ("/" in each and fnmatchcase(qualified, each)) for each in patterns)


@given(PATTERNS, PATTERNS, st.dictionaries(NAMES, NAMES, max_size=8))
def test_a_view_matches_like_its_patterns_one_by_one(
    include: tuple[str, ...], exclude: tuple[str, ...], items: dict[str, str]
) -> None:
    view = View(include, exclude)
    shown = {
        name: qualified
        for name, qualified in items.items()
        if matches(name, qualified, include) and not matches(name, qualified, exclude)
    }
    assert {name: qualified for name, qualified in items.items() if view.names(name, qualified)} == shown
    assert view.choose(items, str) == shown
