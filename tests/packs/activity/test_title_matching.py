"""Titles of hidden pages are found in window titles and the reverse, as in a pairwise comparison, but faster."""

from hypothesis import given
from hypothesis import strategies as st
from tests.clock import measure_cpu_s

from hubbub.packs.activity.title_matching import HiddenTitles

TITLES = st.lists(st.text(alphabet="ab -", max_size=8), max_size=6)


@given(TITLES, TITLES, st.text(alphabet="ab -", max_size=12))
def test_matching_equals_pairwise_comparison(dropped: list[str], masked: list[str], title: str) -> None:
    for are_pages in (True, False):

        def fits(hidden: str, are_pages: bool = are_pages) -> bool:
            return len(hidden) > 2 and len(title) > 2 and (hidden in title if are_pages else title in hidden)

        expected = "dropped" if any(map(fits, dropped)) else "masked" if any(map(fits, masked)) else "disclosed"
        assert HiddenTitles(dropped, masked, are_pages=are_pages).verdict(title) == expected


def test_matching_works_with_many_thousands_of_titles() -> None:
    pages = [f"All about thing number {number} and more" for number in range(30_000)]
    windows = [f"{page} - Mozilla Firefox" for page in pages]
    hidden_pages, hidden_windows = HiddenTitles(pages), HiddenTitles(windows, are_pages=False)
    assert hidden_pages.verdict("Something else - Mozilla Firefox") == "disclosed"
    assert hidden_windows.verdict("Something else") == "disclosed"

    def look() -> None:
        assert all(hidden_pages.verdict(window) == "dropped" for window in windows[::100])
        assert all(hidden_windows.verdict(page) == "dropped" for page in pages[::100])

    def compare_each() -> None:
        assert all(any(page in window for page in pages) for window in windows[::100])
        assert all(any(page in window for window in windows) for page in pages[::100])

    assert measure_cpu_s(look, times=1) < measure_cpu_s(compare_each, times=1) / 3
