"""`WWW-Authenticate` headers, as servers write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.oauth.client.challenges import Challenge, parse_challenges, select_challenge

names = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
values = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30)


def quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@given(st.lists(st.tuples(names, st.dictionaries(names, values, max_size=4)), max_size=4))
def test_what_is_written_is_read(challenges: list[tuple[str, dict[str, str]]]) -> None:
    text = ", ".join(
        f"{scheme} {', '.join(f'{name}={quote(value)}' for name, value in parameters.items())}".strip()
        for scheme, parameters in challenges
    )
    assert parse_challenges(text) == [Challenge(scheme, parameters) for scheme, parameters in challenges]


@given(st.text(max_size=200))
def test_any_text_is_parsed_without_an_error(text: str) -> None:
    select_challenge(text)


@pytest.mark.parametrize(
    ("text", "scheme", "scopes"),
    [
        ('Bearer scope="a b a"', "bearer", ("a", "b")),
        ("BEARER scope=a,error=invalid_token", "bearer", ("a",)),
        ('Basic realm="x, Bearer y", Bearer scope="a"', "bearer", ("a",)),
        ('Bearer scope="a", DPoP algs="ES256", scope="b"', "dpop", ("b",)),
        ('Bearer scope="a b", error="insufficient_scope", DPoP algs="ES256"', "dpop", ("a", "b")),
        ('Negotiate YII==, Bearer scope = "a"', "bearer", ("a",)),
        ('Bearer scope="a", scope="b"', "bearer", ("a",)),
        ('Basic realm="x"', "", ()),
        ("", "", ()),
    ],
)
def test_the_challenge_for_a_token_is_selected(text: str, scheme: str, scopes: tuple[str, ...]) -> None:
    challenge = select_challenge(text)
    assert (challenge.scheme, challenge.scopes) == (scheme, scopes)
