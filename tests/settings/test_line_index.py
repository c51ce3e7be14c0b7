"""Lines of values in settings files."""

from hypothesis import given
from hypothesis import strategies as st

from hubbub.settings.line_index import find_line

TEXT = '''\
[servers.one]
args = ["-c", """
if [ -- ]; then
[*] item
[ . = . ]
"""]
[[tenants]]
name = "acme"
[[tenants]]
name = "beta"
'''


def test_lines_of_texts_that_look_like_headers_are_no_headers() -> None:
    assert find_line(TEXT, ("servers", "one", "args")) == 2
    assert find_line(TEXT, ("tenants", "1", "name")) == 10
    assert find_line(TEXT, ("tenants", "1", "servers")) == 9


@given(st.text(alphabet="[].= \n\"'ab-*#"))
def test_any_text_is_searched(text: str) -> None:
    assert find_line(text, ("a", "0", "b")) is None or "a" in text
