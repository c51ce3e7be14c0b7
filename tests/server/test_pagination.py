"""Pagination, also of lists that change between two pages."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType
from tests.server.raw_client import DIALECTS, MODERN, connect_raw_client

from hubbub import CacheHint, InvalidParams, ProvidedResource, ResourceDetails, Server, Tool, bounds
from hubbub.security.sealer import Sealer
from hubbub.server.pagination import StableOrder, paginate

SEALER = Sealer()


class Listing:
    """A list of names that can change between pages, like a registry."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names: list[str] = []
        self.order = StableOrder()
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        if name not in self.names:
            self.names.append(name)
        self.order.add(name)

    def remove(self, name: str) -> None:
        if name in self.names:
            self.names.remove(name)
        self.order.remove(name)

    def page(self, cursor: str | UnsetType, size: int = 2) -> tuple[list[str], str | UnsetType]:
        return paginate(self.names, cursor, self.order.__getitem__, SEALER, purpose="names", size=size)


def test_pages_contain_every_item_once_and_in_order() -> None:
    listing = Listing("abcde")
    first, cursor = listing.page(UNSET)
    second, cursor = listing.page(cursor)
    third, cursor = listing.page(cursor)
    assert (first, second, third, cursor) == (["a", "b"], ["c", "d"], ["e"], UNSET)


@pytest.mark.parametrize("names", ["", "a", "ab"])
def test_a_list_that_fits_on_a_page_has_no_cursor(names: str) -> None:
    assert Listing(names).page(UNSET) == (list(names), UNSET)


def test_removing_the_items_of_the_first_page_skips_nothing() -> None:
    listing = Listing("abcdef")
    _, cursor = listing.page(UNSET)
    listing.remove("a")
    listing.remove("b")
    assert listing.page(cursor)[0] == ["c", "d"]


def test_moving_an_item_to_the_end_skips_nothing() -> None:
    listing = Listing("abcdef")
    _, cursor = listing.page(UNSET)
    listing.remove("b")
    listing.add("b")
    assert listing.page(cursor)[0] == ["c", "d"]


def test_a_cursor_beyond_the_end_of_a_shortened_list_returns_an_empty_page() -> None:
    listing = Listing("abcd")
    _, cursor = listing.page(UNSET)
    listing.remove("c")
    listing.remove("d")
    assert listing.page(cursor) == ([], UNSET)


CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "replace"]), st.sampled_from("abcdefghijklmnop")), max_size=6
)


@given(st.lists(st.sampled_from("abcdefghijklmnop"), unique=True), st.integers(1, 4), st.lists(CHANGES, max_size=20))
def test_changes_between_pages_neither_skip_nor_repeat_what_stayed(
    names: list[str], size: int, changes_by_page: list[Any]
) -> None:
    listing = Listing(names)
    touched: set[str] = set()
    seen: list[str] = []
    cursor: str | UnsetType = UNSET
    for changes in [*changes_by_page, *[[]] * 40]:
        shown, cursor = listing.page(cursor, size)
        seen += shown
        if cursor is UNSET:
            break
        for change, name in changes:
            if change in ("remove", "replace"):
                listing.remove(name)
                touched.add(name)
            if change in ("add", "replace") and name not in listing.names:
                listing.add(name)
                touched.add(name)
    assert cursor is UNSET
    assert [name for name in seen if name not in touched] == [name for name in names if name not in touched]


UNKNOWN_CURSORS = {
    "empty": "",
    "nonsense": "nonsense",
    "of another list": SEALER.seal("cursor other", [0, 1, ""]),
    "of another form": SEALER.seal("cursor names", "x"),
    "of another key": Sealer().seal("cursor names", [0, 1, ""]),
}


@pytest.mark.parametrize("cursor", UNKNOWN_CURSORS.values(), ids=UNKNOWN_CURSORS)
def test_a_cursor_of_another_list_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidParams, match="cursor"):
        Listing("abc").page(cursor)


def test_a_changed_cursor_is_refused() -> None:
    listing = Listing("abcd")
    _, cursor = listing.page(UNSET)
    assert isinstance(cursor, str)
    for changed in (cursor[:-1], cursor + "A", cursor[::-1]):
        with pytest.raises(InvalidParams, match="cursor"):
            listing.page(changed)


# -- through a server ------------------------------------------------------------


class Files:
    """A provider that lists its resources in a different order each time."""

    def __init__(self, uris: list[str]) -> None:
        self.uris = uris

    def list_resources(self) -> list[ResourceDetails]:
        self.uris = self.uris[1:] + self.uris[:1]
        return [ResourceDetails(uri, uri) for uri in [*self.uris, self.uris[0]]]

    async def get_resource(self, uri: str) -> ProvidedResource | None:
        return ProvidedResource(uri, uri, content="x") if uri in self.uris else None


async def nothing() -> None:
    """Does nothing."""


def large_server(**options: Any) -> Server:
    server = Server("large", **options)
    for number in range(5):
        server.tools.register(Tool(nothing, name=f"tool-{number}"))
        server.resource(f"own:{number}")(nothing)
        server.prompt(name=f"prompt-{number}")(nothing)

        @server.resource(f"template-{number}:{{part}}")
        async def template(part: str) -> str:
            return part

    server.add_resources(Files([f"file:{number}" for number in range(5)]))
    return server


LISTS = [
    ("tools/list", "tools", "name", [f"tool-{number}" for number in range(5)]),
    ("prompts/list", "prompts", "name", [f"prompt-{number}" for number in range(5)]),
    ("resources/templates/list", "resourceTemplates", "uriTemplate", [f"template-{n}:{{part}}" for n in range(5)]),
    ("resources/list", "resources", "uri", [f"{kind}:{number}" for kind in ("own", "file") for number in range(5)]),
]


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "PAGE_ITEMS", 2)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("method", "member", "key", "names"), LISTS)
async def test_every_list_is_paginated_in_a_fixed_order(
    dialect: str, method: str, member: str, key: str, names: list[str]
) -> None:
    async with connect_raw_client(large_server(), dialect) as client:
        for _ in range(2):
            listed: list[str] = []
            params: dict[str, Any] = {}
            while True:
                result = await client.result(method, params)
                assert len(result[member]) <= 2
                listed += [entry[key] for entry in result[member]]
                if "nextCursor" not in result:
                    break
                params = {"cursor": result["nextCursor"]}
            assert listed == names


@pytest.mark.usefixtures("small_pages")
async def test_a_cursor_is_valid_only_for_the_list_that_issued_it() -> None:
    async with connect_raw_client(large_server()) as client:
        cursor = (await client.result("tools/list"))["nextCursor"]
        for method, *_ in LISTS[1:]:
            assert (await client.error(method, {"cursor": cursor}))["code"] == -32602
    async with connect_raw_client(large_server()) as unknown_cursor:
        assert (await unknown_cursor.error("tools/list", {"cursor": cursor}))["code"] == -32602


async def test_a_page_is_as_long_as_its_limit() -> None:
    server = Server("s")
    for number in range(bounds.PAGE_ITEMS + 1):
        server.tools.register(Tool(nothing, name=f"t{number}"))
    async with connect_raw_client(server) as client:
        result = await client.result("tools/list")
        assert len(result["tools"]) == bounds.PAGE_ITEMS
        assert len((await client.result("tools/list", {"cursor": result["nextCursor"]}))["tools"]) == 1


# -- caching hints ---------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("method", "params"),
    [(method, {}) for method, *_ in LISTS] + [("resources/read", {"uri": "file:1"}), ("server/discover", {})],
)
async def test_only_modern_results_have_cache_hints(dialect: str, method: str, params: dict[str, str]) -> None:
    if method == "server/discover" and dialect != MODERN:
        return
    async with connect_raw_client(large_server(cache=CacheHint(5000, public=True)), dialect) as client:
        result = await client.result(method, params)
    hints = {key: result[key] for key in ("ttlMs", "cacheScope", "resultType") if key in result}
    expected = {"ttlMs": 5000, "cacheScope": "public", "resultType": "complete"}
    assert hints == (expected if dialect == MODERN else {})


async def test_the_default_cache_hints_forbid_caching() -> None:
    async with connect_raw_client(large_server(), MODERN) as client:
        result = await client.result("tools/list")
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
