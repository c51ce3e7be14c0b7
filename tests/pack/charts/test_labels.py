"""Labels from untrusted text, such as titles of windows and web pages."""

import unicodedata
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clock import measure_cpu_s

from hubbub.pack.charts.labels import clean, cut, replace_missing

WORDS = st.text(st.characters(), max_size=80)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand\x00more", "two lines and more"),
        ("  space \u00a0\u2003 space  ", "space space"),
        ("evil \u202egnp.exe\u2066", "evil gnp.exe"),
        ("a\u0301", "á"),
        ("z" + "\u0335" * 500, "z" + "\u0335" * 4),
        ("\u0301mark first", "mark first"),
        ("❤\ufe0f 👨\u200d👩\u200d👧 👍\U0001f3fd", "❤ 👨👩👧 👍"),
        ("نمی\u200cخواهم", "نمی\u200cخواهم"),
        ("half \ud83d", "half \ufffd"),
        ("", ""),
    ],
)
def test_a_label_is_one_line_without_control_characters(text: str, shown: str) -> None:
    assert clean(text, 40) == shown


def test_wide_characters_take_two_columns() -> None:
    assert cut("漢字漢字", 8) == "漢字漢字"
    assert cut("漢字漢字漢", 8) == "漢字漢…"
    assert cut("abcdefghi", 8) == "abcdefg…"


def test_long_text_is_cut_before_anything_else() -> None:
    for letter, shown in (("x", "x" * 39 + "…"), (" ", "…")):
        long, longer = letter * 10_000, letter * 10_000_000
        assert clean(longer, 40) == shown
        assert measure_cpu_s(partial(clean, longer, 40)) < 10 * measure_cpu_s(partial(clean, long, 40))


@given(WORDS, st.integers(min_value=1, max_value=60))
def test_a_label_never_takes_more_than_its_columns(text: str, columns: int) -> None:
    label = clean(text, columns)
    widths = (0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in label)
    assert sum(widths) <= columns
    assert not any(unicodedata.category(c) in ("Cc", "Zl", "Zp", "Cs") for c in label)
    assert not any(c in label for c in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")


def test_characters_without_a_glyph_are_written_as_names_or_codes() -> None:
    missing = frozenset("🎉微信读书💡")
    assert replace_missing("Party 🎉!", missing) == "Party [party popper]!"
    assert replace_missing("微信 chat", missing) == "[U+5FAE U+4FE1] chat"
    assert replace_missing("微信读书微信", missing) == "[U+5FAE U+4FE1 U+8BFB +3]"
    assert replace_missing("nothing", missing) == "nothing"
