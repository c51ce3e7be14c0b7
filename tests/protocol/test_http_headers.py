from hypothesis import given
from hypothesis import strategies as st

from hubbub.protocol.http_headers import Headers

names = st.sampled_from([b"host", b"origin", b"cookie", b"accept", b"x-other"])
values = st.binary(max_size=8)


def test_headers_are_looked_up_by_lower_case_name() -> None:
    headers = Headers([(b"host", b"localhost"), (b"x-name", b"caf\xe9")])
    assert headers.get(b"host") == "localhost"
    assert headers.raw(b"x-name") == b"caf\xe9"
    assert headers.get(b"x-name") == "café"
    assert b"host" in headers
    assert b"origin" not in headers
    assert headers.get(b"origin") is None
    assert not headers.has_repeated


def test_repeated_headers_are_joined_and_reported_as_repeated() -> None:
    headers = Headers([(b"host", b"localhost"), (b"accept", b"a"), (b"host", b"evil.example")])
    assert headers.get(b"host") == "localhost, evil.example"
    assert headers.is_repeated(b"host")
    assert not headers.is_repeated(b"accept")
    assert not headers.is_repeated(b"origin")
    assert headers.has_repeated


def test_cookie_headers_are_joined() -> None:
    assert Headers([(b"cookie", b"a=1"), (b"cookie", b"b=2")]).get(b"cookie") == "a=1; b=2"


@given(st.lists(st.tuples(names, values)))
def test_repeated_names_are_exactly_those_sent_more_than_once(pairs: list[tuple[bytes, bytes]]) -> None:
    headers = Headers(pairs)
    found = [name for name, _ in pairs]
    for name in set(found):
        assert headers.is_repeated(name) == (found.count(name) > 1)
        separator = b"; " if name == b"cookie" else b", "
        assert headers.raw(name) == separator.join(value for other, value in pairs if other == name)
    assert headers.has_repeated == (len(set(found)) < len(found))
