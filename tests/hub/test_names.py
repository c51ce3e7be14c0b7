"""Names of the tools of many servers: unique, within the length limit, independent of the order of connecting."""

from hypothesis import given
from hypothesis import strategies as st

from hubbub.hub.names import Names, NameStyle, NamingRule, Offer, assign_names, shorten, uri_scheme

PLAIN = NameStyle(51)
SERVERS = ("github", "files", "my server", "files__x")
TOOLS = st.sampled_from(("search", "read", "x__read", "files__read", "aw.get", "a" * 60, "a" * 50 + "b", "ü ö"))
RULES = st.builds(
    NamingRule,
    prefix=st.sampled_from(("collision", "always", "never")),
    prefix_text=st.sampled_from((None, "gh", "files")),
    renamed=st.dictionaries(TOOLS, st.sampled_from(("search", "mine", "github__read")), max_size=2),
)
STYLES = st.builds(NameStyle, limit=st.integers(16, 64), safe=st.booleans())


def names(*offers: str, style: NameStyle = PLAIN, **rules: NamingRule) -> Names:
    """Assign names to `server/tool` pairs."""
    found = [Offer(*offer.split("/")) for offer in offers]
    return assign_names(found, {offer.server: rules.get(offer.server, NamingRule()) for offer in found}, style)


def listed(found: Names) -> list[str]:
    return list(found.listed.values())


def test_a_unique_name_gets_no_prefix() -> None:
    found = names("a/read", "b/write")
    assert listed(found) == ["read", "write"]
    assert found.callable["b__write"] == Offer("b", "write")
    assert found.collisions == ()


def test_a_duplicate_name_gets_the_server_as_prefix_for_both() -> None:
    found = names("a/read", "b/read", "b/write")
    assert listed(found) == ["a__read", "b__read", "write"]
    assert "read" not in found.callable
    assert found.ambiguous["read"] == ("a__read", "b__read")
    (collision,) = found.collisions
    assert (collision.name, collision.servers, collision.listed) == ("read", ("a", "b"), ("a__read", "b__read"))


def test_a_server_can_be_prefixed_always() -> None:
    found = names("a/read", "b/write", a=NamingRule("always", prefix_text="aa"))
    assert listed(found) == ["aa__read", "write"]
    assert found.callable["a__read"] == Offer("a", "read")
    assert "read" not in found.callable


def test_of_duplicate_names_without_prefix_the_first_is_listed_and_a_collision_reported() -> None:
    found = names("a/read", "b/read", "c/read", a=NamingRule("never"), b=NamingRule("never"))
    assert found.listed == {Offer("a", "read"): "read", Offer("c", "read"): "c__read"}
    assert found.callable["b__read"] == Offer("b", "read")
    assert found.collisions[0].listed == ("read", "", "c__read")


def test_a_configured_name_is_used_unchanged() -> None:
    found = names("a/create_issue", "b/new", a=NamingRule("always", renamed={"create_issue": "new_issue"}))
    assert listed(found) == ["new_issue", "new"]
    assert found.callable["a__new_issue"] == Offer("a", "create_issue")


def test_a_long_name_is_shortened_and_the_full_one_can_still_be_called() -> None:
    long = "read_" + "x" * 80
    found = names(f"a/{long}")
    (name,) = listed(found)
    assert len(name) == 51
    assert name.startswith("read_xxx")
    assert found.callable[long] == found.callable[name] == found.callable[f"a__{long}"] == Offer("a", long)


def test_safe_names_replace_other_characters_and_both_forms_can_be_called() -> None:
    found = names("a/aw.get_state", style=NameStyle(51, safe=True))
    assert listed(found) == ["aw_get_state"]
    assert found.callable["aw.get_state"] == Offer("a", "aw.get_state")


def test_a_prefixed_name_that_is_already_used_gets_a_suffix() -> None:
    found = names("x/gh__read", "gh/read", "y/read", x=NamingRule("never"))
    first, second, third = listed(found)
    assert (first, third) == ("gh__read", "y__read")
    assert second.startswith("gh__read_")
    assert found.callable[second] == Offer("gh", "read")


def test_no_server_gets_a_name_with_the_prefix_of_another_server() -> None:
    found = names("false/gh__read", "false/gh__write", "gh/read")
    assert listed(found) == ["false__gh__read", "false__gh__write", "read"]
    assert found.callable["gh__read"] == Offer("gh", "read")
    assert found.callable["false__gh__write"] == Offer("false", "gh__write")


def test_names_that_already_have_the_server_as_prefix_stay() -> None:
    found = names("gh/gh__read", "hub/write")
    assert listed(found) == ["gh__read", "write"]


def test_a_server_id_is_converted_to_a_valid_uri_scheme() -> None:
    assert uri_scheme("My_server 1") == "my-server-1"
    assert uri_scheme("1st") == "s1st"


@given(st.lists(st.tuples(st.sampled_from(SERVERS), TOOLS), unique=True), st.data(), STYLES)
def test_names_are_unique_within_the_limit_and_resolve_to_the_listed_server(
    pairs: list[tuple[str, str]], data: st.DataObject, style: NameStyle
) -> None:
    offers = [Offer(*pair) for pair in pairs]
    rules = {server: data.draw(RULES) for server in SERVERS}
    found = assign_names(offers, rules, style)
    assert len(set(listed(found))) == len(found.listed)
    for offer, name in found.listed.items():
        assert len(name) <= style.limit
        assert found.callable[name] == offer
    assert set(found.callable.values()) <= set(offers)
    assert not set(found.callable) & set(found.ambiguous)
    lost = {offer for offer in offers if offer not in found.listed}
    assert all(rules[offer.server].prefix == "never" or offer.name in rules[offer.server].renamed for offer in lost)


@given(st.lists(st.tuples(st.sampled_from(SERVERS), TOOLS), unique=True), st.data(), STYLES)
def test_names_do_not_depend_on_the_order_of_servers(
    pairs: list[tuple[str, str]], data: st.DataObject, style: NameStyle
) -> None:
    offers = [Offer(*pair) for pair in pairs]
    rules = {server: NamingRule() for server in SERVERS}
    shuffled = data.draw(st.permutations(offers))
    first, second = assign_names(offers, rules, style), assign_names(shuffled, rules, style)
    assert first.listed == second.listed
    assert first.callable == second.callable
    assert {name: set(found) for name, found in first.ambiguous.items()} == {
        name: set(found) for name, found in second.ambiguous.items()
    }


@given(st.text(min_size=1), st.integers(16, 64))
def test_a_shortened_name_is_within_the_limit_and_deterministic(name: str, limit: int) -> None:
    assert len(shorten(name, limit)) <= limit
    assert shorten(name, limit) == shorten(name, limit)
    assert shorten(name, limit) == name or len(name) > limit
