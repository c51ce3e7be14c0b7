import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protocol.docstrings import Docstring, read_docstring

GOOGLE = """Forecast for a city.

    Looks a few days ahead.

    Args:
        city: Which city,
            with its country.
        days (int, optional): How many: at most 9.

    Returns:
        The forecast.
    """
NUMPY = """Forecast for a city.

    Looks a few days ahead.

    Parameters
    ----------
    city : str
        Which city,
        with its country.
    days : int, optional
        How many: at most 9.

    Returns
    -------
    str
        The forecast.
    """
REST = """Forecast for a city.

    Looks a few days ahead.

    :param city: Which city,
        with its country.
    :param int days: How many: at most 9.
    :type city: str
    :returns: The forecast.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST])
def test_every_docstring_convention_gives_the_same_descriptions(text: str) -> None:
    assert read_docstring(text) == Docstring(
        "Forecast for a city.\n\nLooks a few days ahead.",
        {"city": "Which city, with its country.", "days": "How many: at most 9."},
    )


def test_text_that_resembles_a_section_stays_in_the_description() -> None:
    text = "Send it.\n\nParameters\nare few. Args: none.\n\nReturns:\nnothing."
    assert read_docstring(text) == Docstring(text, {})


def test_a_missing_docstring_gives_an_empty_description() -> None:
    assert read_docstring(None) == Docstring("", {})


def test_numpy_names_that_share_a_description_each_get_it() -> None:
    assert read_docstring("Parameters\n---\nx, y : int\n    A side.").parameters == {"x": "A side.", "y": "A side."}


@given(st.lists(st.sampled_from(["Args:", "Parameters", "---", ":param x: y", "  x: y", "    z", "", "text"])))
def test_any_order_of_lines_is_parsed(lines: list[str]) -> None:
    read = read_docstring("\n".join(lines))
    assert set(read.parameters) <= {"x", "text", "Args", "Parameters"}
    assert all(set(description.split()) <= {"x:", "y", "z"} for description in read.parameters.values())
