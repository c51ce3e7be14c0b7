from hypothesis import given
from hypothesis import strategies as st

from hubbub.protocol.http_headers import Headers

names = st.sampled_from([b"host", b"origin", b"cookie", b"accept", b"x-other"])
values = st.binary(max_size=8)


def test_a_header_is_text_by_its_lower_case_name() -> None:
    headers = Headers([(b"host", b"localhost"), (b"x-name", b"caf\xe9")])
    assert headers.get(b"host") == "localhost"
    assert headers.raw(b"x-name") == b"caf\xe9"
    assert headers.get(b"x-name") == "café"
    assert b"host" in headers
    assert b"origin" not in headers
    assert headers.get(b"origin") is None
    assert not headers.has_repeated


def test_neither_of_two_values_is_picked() -> None:
    headers = Headers([(b"host", b"localhost"), (b"accept", b"a"), (b"host", b"evil.example")])
    assert headers.get(b"host") == "localhost, evil.example"
    assert headers.is_repeated(b"host")
    assert not headers.is_repeated(b"accept")
    assert not headers.is_repeated(b"origin")
    assert headers.has_repeated


def test_a_cookie_that_came_in_pieces_is_one_cookie() -> None:
    assert Headers([(b"cookie", b"a=1"), (b"cookie", b"b=2")]).get(b"cookie") == "a=1; b=2"


@given(st.lists(st.tuples(names, values)))
def test_doubled_says_exactly_which_names_came_more_than_once(pairs: list[tuple[bytes, bytes]]) -> None:
    headers = Headers(pairs)
    found = [name for name, _ in pairs]
    for name in set(found):
        assert headers.is_repeated(name) == (found.count(name) > 1)
        separator = b"; " if name == b"cookie" else b", "
        assert headers.raw(name) == separator.join(value for other, value in pairs if other == name)
    assert headers.has_repeated == (len(set(found)) < len(found))
