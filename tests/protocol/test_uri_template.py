import re
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import DefinitionError, bounds
from hubbub.protocol.uri_template import UriTemplate

# -- matching ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("note://all", "note://all", {}),
        ("note://{id}", "note://7", {"id": "7"}),
        ("note://{id}/text", "note://a%20b/text", {"id": "a b"}),
        ("note://{id}", "note://gr%C3%BC%c3%9fe", {"id": "grüße"}),
        ("note://{id}", "note://grüße", {"id": "grüße"}),
        ("note://grüße/{id}", "note://gr%c3%bc%C3%9Fe/1", {"id": "1"}),
        ("note://{id}", "note://100%25", {"id": "100%"}),
        ("note://{id}", "note://a:b@c!d,e", {"id": "a:b@c!d,e"}),
        ("{scheme}://{host}/x", "http://a.b/x", {"scheme": "http", "host": "a.b"}),
        ("f:///{name}.md", "f:///v1.2.md", {"name": "v1.2"}),
        ("f:///{name}.md", "f:///x.md.md", {"name": "x.md"}),
        ("f:///{name}.{kind}", "f:///a.tar.gz", {"name": "a.tar", "kind": "gz"}),
        ("f:///{a}-{b}", "f:///1-2-3", {"a": "1-2", "b": "3"}),
        ("f:///{a,b}", "f:///1,2", {"a": "1", "b": "2"}),
        ("f://{+path}", "f://a/b/c.txt", {"path": "a/b/c.txt"}),
        ("f://{+path}", "f://a?b=c#d", {"path": "a?b=c#d"}),
        ("f://{+path}/end", "f://a/b/end", {"path": "a/b"}),
        ("f://x{#part}", "f://x#a/b?c", {"part": "a/b?c"}),
        ("f://x{/a}", "f://x/1", {"a": "1"}),
        ("f://x{/a,b}", "f://x/1/2", {"a": "1", "b": "2"}),
        ("f://x{/path*}", "f://x/1/2/3", {"path": "1/2/3"}),
        ("f://x/{path*}", "f://x/1/2/3", {"path": "1/2/3"}),
        ("f://x/{path*}/{last}", "f://x/1/2/3", {"path": "1/2", "last": "3"}),
        ("f://x{.kind}", "f://x.txt", {"kind": "txt"}),
        ("f://{name}{.kind}", "f://a.b.txt", {"name": "a.b", "kind": "txt"}),
        ("f://x{.a,b}", "f://x.1.2", {"a": "1", "b": "2"}),
        ("f://x{;a,b}", "f://x;a=1;b=2", {"a": "1", "b": "2"}),
        ("f://x{?a,b}", "f://x?a=1&b=2", {"a": "1", "b": "2"}),
        ("f://x{?a,b}", "f://x?b=2&a=1", {"a": "1", "b": "2"}),
        ("f://x{?a,b}", "f://x?b=2", {"b": "2"}),
        ("f://x{?a,b}", "f://x", {}),
        ("f://x{?a}", "f://x?a=", {"a": ""}),
        ("f://x{?a}", "f://x?a=1=2%26%3d", {"a": "1=2&="}),
        ("f://x{?a}", "f://x?a=1+2", {"a": "1+2"}),
        ("f://x{?a}{&b}", "f://x?b=2&a=1", {"a": "1", "b": "2"}),
        ("f://x?fixed=1{&a}", "f://x?a=2&fixed=1", {"a": "2"}),
        ("f://{+path}{?q}", "f://a/b?q=1", {"path": "a/b", "q": "1"}),
        ("f://{+path}{?q}{#part}", "f://a/b?q=1#z", {"path": "a/b", "q": "1", "part": "z"}),
        ("f://x{?q}{#part}", "f://x#z", {"part": "z"}),
        ("f://x?q={q}", "f://x?q=1", {"q": "1"}),
        ("f://{a.b}", "f://1", {"a.b": "1"}),
    ],
)
def test_a_matching_uri_gives_the_values_of_the_variables(template: str, uri: str, values: dict[str, str]) -> None:
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("note://all", "note://al"),
        ("note://all", "note://all2"),
        ("note://{id}", "note://"),
        ("note://{id}", "note://a/b"),
        ("note://{id}", "note://a?b"),
        ("note://{id}", "note://a#b"),
        ("note://{id}", "NOTE://a"),
        ("note://{id}", "xnote://a"),
        ("note://{id}", "note://a%2"),
        ("note://{id}", "note://%zz"),
        ("note://{id}", "note://%ff"),
        ("note://{id}", "note://\ud800"),
        ("note://{id}/x", "note://a/y"),
        ("f:///{name}.md", "f:///.md"),
        ("f:///{a,b}", "f:///1"),
        ("f://{+path}", "f://"),
        ("f://x{/path*}", "f://x/"),
        ("f://x{/path*}", "f://x/a//b"),
        ("f://x{/path*}", "f://x//a"),
        ("f://x{/path*}", "f://x/a/"),
        ("f://x{;a}", "f://x;b=1"),
        ("f://x{?a}", "f://x?b=1"),
        ("f://x{?a}", "f://x?a=1&b=1"),
        ("f://x{?a}", "f://x?a=1&a=2"),
        ("f://x{?a}", "f://x?a=%ff"),
        ("f://x{?a}", "f://x?a=1#b"),
        ("f://x?fixed=1{&a}", "f://x?a=2"),
        ("f://x", "f://x?a=1"),
    ],
)
def test_other_uris_do_not_match(template: str, uri: str) -> None:
    assert UriTemplate(template).match(uri) is None


def test_the_variables_are_in_the_order_of_the_template() -> None:
    template = UriTemplate("f://{b}/{a}{?d,c}{#e}")
    assert template.variables == ("b", "a", "d", "c", "e")
    assert list(template.match("f://1/2?c=4&d=3#5") or ()) == ["b", "a", "d", "c", "e"]
    assert repr(template) == "UriTemplate('f://{b}/{a}{?d,c}{#e}')"


# -- traversal -----------------------------------------------------------------

TRAVERSALS = [
    "..",
    ".",
    "%2e%2e",
    "%2E.",
    "%252e%252e",
    "%25252e%25252e",
    "%2e",
    "..%2fetc",
    "..%2Fetc",
    "..%5cetc",
    "a%2f..%2fb",
    "a%252f..%252fb",
    "a%5c..%5cb",
    "..%00",
    "a%00b",
    "a%0ab",
    "a%7fb",
    "a%c2%85b",
    "%20..",
    "..%20",
    "a\\b",
    "a%5Cb",
    "a%255cb",
    "%2fetc%2fpasswd",
    "%252fetc",
    "%c0%ae%c0%ae",
    "%25c0%25ae",
    "%ed%a0%80",
    "%2525252525252e",
]


@pytest.mark.parametrize("value", TRAVERSALS)
@pytest.mark.parametrize(
    "template",
    ["f://{v}", "f://{+v}", "f://{v*}", "f://{/v*}", "f://x{/v}", "f://x{;v}", "f://x{?v}", "f://x{#v}", "f://{v}/x"],
)
def test_a_value_with_path_traversal_does_not_match(template: str, value: str) -> None:
    names = {"f://x{;v}": f"f://x;v={value}", "f://x{?v}": f"f://x?v={value}", "f://x{#v}": f"f://x#{value}"}
    uri = names.get(template) or re.sub(r"\{(/?)\+?v\*?\}", lambda found: found[1] + value, template)
    assert UriTemplate(template).match(uri) is None


@pytest.mark.parametrize(
    "value", ["../x", "a/../b", "a/..", "/etc", "//etc", "C:/x", "c:x", "a/%2e%2e/b", "a%2f%2e./b"]
)
def test_a_path_value_cannot_leave_its_root(value: str) -> None:
    assert UriTemplate("f://{+path}").match(f"f://{value}") is None
    assert UriTemplate("f://{path*}").match(f"f://{value}") is None
    assert UriTemplate("f://x{?path}").match(f"f://x?path={value}") is None


@pytest.mark.parametrize("value", ["...", "..a", "a..", "a..b", ".hidden", "a.b", "~", "%41", "100%", "a b"])
def test_harmless_dots_and_percent_signs_match(value: str) -> None:
    for template in (
        UriTemplate("f://{v}"),
        UriTemplate("f://{+v}"),
        UriTemplate("f://{v*}"),
        UriTemplate("f://x{?v}"),
    ):
        assert template.match(expand(template.template, v=value)) == {"v": value}


def test_an_encoded_slash_matches_only_path_variables() -> None:
    assert UriTemplate("f://{v}").match("f://a%2fb") is None
    assert UriTemplate("f://{+v}").match("f://a%2fb") == {"v": "a/b"}


# -- templates that cannot be matched ------------------------------------------


@pytest.mark.parametrize(
    "template",
    [
        "",
        "f://{",
        "f://}",
        "f://{a",
        "f://a}",
        "f://{a{b}}",
        "f://{}",
        "f://{+}",
        "f://{a b}",
        "f://{a,}",
        "f://{,a}",
        "f://{a:3}",
        "f://{=a}",
        "f://{!a}",
        "f://{|a}",
        "f://{++a}",
        "f://{a**}",
        "f://{a-b}",
        "f://{é}",
        "f://{a}/{a}",
        "f://{a}{?a}",
        "f://{a}{b}",
        "f://{+a}{b}",
        "f://{a}{+b}",
        "f://x{?a*}",
        "f://x{;a*}",
        "f://x{.a*}",
        "f://x{+a*}",
        "f://x{#a*}",
        "f://x{a*,b}",
        "f://x{?a}/y",
        "f://x{?a}{b}",
        "f://x{?a}{?b}",
        "f://x{&a}",
        "f://x?b=1{?a}",
        "f://x y",
        "f://x\n",
        "f://x<",
        "f://x\\y",
        "f://%zz",
        "f://\ud800",
        "f://" + "x" * bounds.URI_CHARACTERS,
    ],
)
def test_a_template_that_cannot_be_matched_is_refused(template: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        UriTemplate(template)
    assert len(caught.value.message) < 9000


# -- expansion -----------------------------------------


def expand(template: str, **values: str) -> str:
    """RFC 6570, but `{+name}` and `{#name}` encode percent signs too: otherwise values would not match unchanged."""

    def write(found: re.Match[str]) -> str:
        operator, written = found[1], found[2].replace("*", "").split(",")
        names = [name for name in written if name in values]
        kept = "/" if operator in ("+", "#") or "*" in found[2] else ""
        encoded = [quote(values[name], safe=kept) for name in names]
        if operator == ".":
            encoded = [value.replace(".", "%2E") for value in encoded]
        if operator in (";", "?", "&"):
            encoded = [f"{name}={value}" for name, value in zip(names, encoded, strict=True)]
        first, between = {"": ("", ","), "+": ("", ","), "?": ("?", "&")}.get(operator, (operator, operator))
        return first + between.join(encoded) if encoded else ""

    return re.sub(r"{([+#./;?&]?)([^}]*)}", write, template)


@pytest.mark.parametrize(
    ("template", "values", "uri"),
    [
        ("f://{v}", {"v": "a b"}, "f://a%20b"),
        ("f://{v}", {"v": "ü?#%"}, "f://%C3%BC%3F%23%25"),
        ("f://{+v}", {"v": "a/b?c#d"}, "f://a/b?c#d"),
        ("f://{+v}{?q}", {"v": "a/b?c", "q": "1"}, "f://a/b%3Fc?q=1"),
        ("f://{+v}{?q}", {"v": "a#b", "q": "1"}, "f://a%23b?q=1"),
        ("f://x{?a,b}", {"b": "1&2"}, "f://x?b=1%262"),
        ("f://x{?a}{#c}", {"a": "1", "c": "z"}, "f://x?a=1#z"),
        ("f://x?k=1{&a}", {}, "f://x?k=1"),
        ("f://x{.a}", {"a": "tar.gz"}, "f://x.tar%2Egz"),
        ("f://x{;a}", {"a": "1;2"}, "f://x;a=1%3B2"),
        ("f://x{/a*}", {"a": "1/2 3"}, "f://x/1/2%203"),
        ("f://{a,b}", {"a": "1,2", "b": "3"}, "f://1%2C2,3"),
        ("f://{self}", {"self": "1"}, "f://1"),
    ],
)
def test_an_expanded_uri_gives_the_values_of_the_expansion(template: str, values: dict[str, str], uri: str) -> None:
    assert UriTemplate(template).match(uri) == values
    assert UriTemplate(template).match(expand(template, **values)) == values


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("f://{a}", {"a": ""}),
        ("f://{a}", {"a": "b/c"}),
        ("f://{a}", {"a": ".."}),
        ("f://{+a}", {"a": "x/../y"}),
        ("f://{+a}", {"a": "/x"}),
        ("f://x{/a*}", {"a": "x//y"}),
        ("f://x{?a}", {"a": "\0"}),
    ],
)
def test_any_value_with_path_traversal_does_not_match(template: str, values: dict[str, str]) -> None:
    assert UriTemplate(template).match(expand(template, **values)) is None


ROUND_TRIPS = [
    "f://{a}",
    "f://x/{a}/{b}",
    "f://{+a}",
    "f://{a*}",
    "f://x{/a,b}",
    "f://x{/a*}",
    "f://x{.a,b}",
    "f://x{;a,b}",
    "f://x{?a,b}",
    "f://x?k=v{&a,b}",
    "f://{+a}{?b}",
    "f://{a,b}",
    "f://{+a,b}",
    "f://x{#a}",
    "f://{+a}{#b}",
    "f://{a}{?b}{#c}",
    "f://{a}.md",
]
texts = st.text(max_size=12) | st.text(st.sampled_from("./%2eE5cC\\ aü?#&=,;+"), max_size=12)


@given(st.sampled_from(ROUND_TRIPS), st.lists(texts, min_size=3, max_size=3))
def test_what_is_expanded_matches_with_the_same_values_or_not_at_all(template: str, some: list[str]) -> None:
    parsed = UriTemplate(template)
    values = dict(zip(parsed.variables, some, strict=False))
    assert parsed.match(expand(template, **values)) in (values, None)


def layers(value: str) -> list[str]:
    """The value unchanged, and decoded repeatedly as careless code would."""
    found = [value]
    while unquote(found[-1]) != found[-1]:
        found.append(unquote(found[-1]))
    return found


hostile = st.lists(
    st.sampled_from(["..", ".", "/", "\\", "%2e", "%2E", "%2f", "%5c", "%25", "%00", "2e", "a", "%", " ", "%0a"]),
    max_size=8,
).map("".join)


@given(st.sampled_from(ROUND_TRIPS), st.lists(hostile, min_size=3, max_size=3))
def test_no_uri_gives_a_value_with_path_traversal(template: str, some: list[str]) -> None:
    parsed = UriTemplate(template)
    raw = iter(some)
    # Insert the values into the URI without encoding, as an attacker would.
    skeleton = expand(template, **{name: f"VALUE{name}" for name in parsed.variables})
    values = parsed.match(re.sub(r"VALUE\w", lambda _: next(raw), skeleton))
    for name, value in (values or {}).items():
        for text in layers(value):
            assert ".." not in [segment.strip() for segment in re.split(r"[/\\]", text)]
            assert text.strip() != "."
            assert not re.search(r"[\x00-\x1f\\]", text)
            assert not text.startswith("/")
            if f"{{{name}}}" in template:
                assert "/" not in text


@given(st.text(max_size=40))
def test_any_template_parses_or_is_refused(text: str) -> None:
    try:
        template = UriTemplate(text)
    except DefinitionError:
        return
    assert set(template.match(text) or ()) <= set(template.variables)


# -- cost ----------------------------------------------------------------------


def test_a_uri_over_the_limit_does_not_match() -> None:
    template = UriTemplate("f://{a}")
    room = bounds.URI_CHARACTERS - len("f://")
    assert template.match("f://" + "x" * room) == {"a": "x" * room}
    assert template.match("f://" + "x" * (room + 1)) is None
    assert template.match("f://" + "ü" * (room // 2)) is None


@pytest.mark.parametrize("end", ["", "!"])
def test_many_variables_do_not_backtrack(end: str) -> None:
    # No clock is needed: a backtracking matcher takes (8192 over 12) steps here and would never return.
    template = UriTemplate("f://" + "-".join(f"{{v{index}}}" for index in range(12)) + "/end")
    assert template.match("f://" + "-" * (bounds.URI_CHARACTERS - 10) + end) is None
