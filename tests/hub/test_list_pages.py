"""Pagination: complete, in order, and the same bytes until something changes."""

from tests.hub.local_hubs import make_hub, open_client, toolbox
from tests.server.raw_client import LEGACY, MODERN, PLAIN

from hubbub import bounds


async def all_names(client: object) -> list[str]:
    found: list[str] = []
    params: dict[str, str] = {}
    while True:
        page = await client.result("tools/list", params)  # type: ignore[attr-defined]
        found += [entry["name"] for entry in page["tools"]]
        if "nextCursor" not in page:
            return found
        params = {"cursor": page["nextCursor"]}


async def test_a_long_list_is_paginated_without_losses() -> None:
    tools = [f"t{number}" for number in range(bounds.PAGE_ITEMS)]
    hub = make_hub(toolbox("a", *tools), toolbox("b", *(f"u{number}" for number in range(1500))), search="off")
    for dialect in (PLAIN, LEGACY[-1], MODERN):
        async with open_client(hub, dialect) as client:
            names = await all_names(client)
        assert names[:2] == ["hub.status", "hub.read_result"]
        assert names[2:] == [*tools, *(f"u{number}" for number in range(1500))]
        hub = make_hub(toolbox("a", *tools), toolbox("b", *(f"u{number}" for number in range(1500))), search="off")


async def test_a_change_between_two_pages_neither_skips_nor_repeats_what_stayed() -> None:
    first, second = toolbox("a", "one", "two"), toolbox("b", *(f"u{number}" for number in range(1500)))
    async with open_client(make_hub(first, second, search="off")) as client:
        page = await client.result("tools/list")
        first.tools.unregister("one")
        while not client.notifications("notifications/tools/list_changed"):
            client.handle_message(await client.next_message())
        rest = await client.result("tools/list", {"cursor": page["nextCursor"]})
        names = [entry["name"] for entry in page["tools"] + rest["tools"]]
        assert names == ["hub.status", "hub.read_result", "one", "two", *(f"u{number}" for number in range(1500))]


async def test_a_cursor_of_another_list_is_refused() -> None:
    server = toolbox("b", *(f"u{number}" for number in range(1500)))
    async with open_client(make_hub(server)) as client:
        cursor = (await client.result("tools/list"))["nextCursor"]
        for method, wrong in (("prompts/list", cursor), ("tools/list", cursor[:-2]), ("tools/list", "x")):
            assert (await client.error(method, {"cursor": wrong}))["code"] == -32602
