"""Names that several servers have mean the only one that a caller sees, in views and beside pins too."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hub.governed_hubs import connect, user
from tests.hub.local_hubs import list_names, make_hub, toolbox
from tests.server.raw_client import RawClient, connect_raw_client

from hubbub import HubSettings, Server, ToolAnnotations, UpstreamConfig, ViewSettings
from hubbub.assembly.governance import add_governor
from hubbub.governance.pin_records import Selection
from hubbub.governance.pins import Pins
from hubbub.hub.catalog import build_catalog
from hubbub.hub.catalog_view import CatalogView
from hubbub.hub.config import HubConfig
from hubbub.hub.gateway import Gateway
from hubbub.hub.names import PrefixMode
from hubbub.hub.pinned_lists import use_pins
from hubbub.hub.snapshot import Entry, Snapshot
from hubbub.protocol.revisions import NEWEST_MODERN
from hubbub.settings.governance import GovernanceSettings

RED, BLUE = user("red"), user("blue")


def governed(*servers: Server | UpstreamConfig, rules: list[dict[str, Any]], **options: Any) -> Gateway:
    governance = msgspec.convert({"policy": {"rules": rules}}, GovernanceSettings)
    hub = make_hub(*servers, governance=governance, **options)
    add_governor(hub)
    return hub


def blue_rule(**conditions: Any) -> list[dict[str, Any]]:
    """A rule that denies something to blue."""
    return [{"effect": "deny", "tenants": ["blue"], **conditions}]


async def first_text(client: RawClient, tool: str) -> str:
    return str((await client.call(tool))["content"][0]["text"])


SERVERS = ("a", "b", "c")
NAMES = st.lists(st.sampled_from(("find", "open", "find_it_all_now")), unique=True)
URIS = st.lists(st.sampled_from(("text://1", "text://2")), unique=True)
PREFIXES = st.sampled_from(("collision", "always", "never"))


def make_snapshot(tools: list[str], prompts: list[str], uris: list[str]) -> Snapshot:
    def entries(names: list[str]) -> tuple[Entry, ...]:
        return tuple(Entry(name, {}) for name in names)

    return Snapshot(tools=entries(tools), prompts=entries(prompts), resources=entries(uris), revision=NEWEST_MODERN)


@given(
    st.lists(st.builds(make_snapshot, NAMES, NAMES, URIS), min_size=3, max_size=3),
    st.lists(PREFIXES, min_size=3, max_size=3),
    st.sets(st.sampled_from(SERVERS), min_size=1),
    st.sampled_from((10, 64)),
)
def test_names_are_those_of_a_hub_without_the_hidden_servers(
    snapshots: list[Snapshot], prefixes: list[PrefixMode], visible: set[str], limit: int
) -> None:
    upstreams = [
        UpstreamConfig(id=id, server=Server(id), prefix=prefix) for id, prefix in zip(SERVERS, prefixes, strict=True)
    ]
    lists = dict(zip(SERVERS, snapshots, strict=True))
    settings = HubSettings(name_limit=limit)
    everything = build_catalog(HubConfig(upstreams=tuple(upstreams), hub=settings), lists)
    part = CatalogView(everything.select(lambda item: item.server in visible, lambda target: target.server in visible))
    without = HubConfig(upstreams=tuple(each for each in upstreams if each.id in visible), hub=settings)
    alone = CatalogView(build_catalog(without, {id: lists[id] for id in visible}))
    for kind in ("tools", "prompts", "resources"):
        found, expected = [
            {name: item.qualified_name for name, item in getattr(view, kind).items()} for view in (part, alone)
        ]
        assert found == expected
    for listed, find in ((part.tools, part.find_tool), (part.prompts, part.find_prompt)):
        for name, item in listed.items():
            assert (called := find(name)) is not None
            assert called.qualified_name == item.qualified_name


@pytest.mark.parametrize("excluded", ["find", "cellar__find", "cellar/find"])
async def test_a_view_excludes_a_tool_under_each_of_its_names(excluded: str) -> None:
    views = {"small": ViewSettings(exclude=(excluded,))}
    hub = governed(toolbox("attic", "find"), toolbox("cellar", "find"), rules=blue_rule(servers=["attic"]), views=views)
    async with hub.running(), connect_raw_client(hub.fronts["small"], "2025-11-25", {}, principal=BLUE) as blue:
        assert await list_names(blue) == []
        for name in ("find", "cellar__find"):
            assert (await blue.error("tools/call", {"name": name, "arguments": {}}))["message"] == "Tool not found"


async def test_a_view_describes_a_tool_under_each_of_its_names() -> None:
    views = {"small": ViewSettings(descriptions={"cellar__find": "Finds wine."})}
    hub = governed(toolbox("attic", "find"), toolbox("cellar", "find"), rules=blue_rule(servers=["attic"]), views=views)
    async with hub.running():
        for who, name in ((BLUE, "find"), (RED, "cellar__find")):
            async with connect_raw_client(hub.fronts["small"], "2025-11-25", {}, principal=who) as client:
                listed = {tool["name"]: tool for tool in (await client.result("tools/list"))["tools"]}
                assert listed[name]["description"] == "Finds wine."


async def test_a_name_that_was_listed_for_one_caller_means_something_else_for_another() -> None:
    hub = governed(toolbox("attic", "find"), rules=blue_rule(servers=["attic"]))
    async with connect(hub, RED) as red, connect(hub, BLUE) as blue:
        assert await list_names(red) == ["find"]
        await hub.apply(
            msgspec.structs.replace(
                hub.config,
                upstreams=(*hub.config.upstreams, UpstreamConfig(id="cellar", server=toolbox("cellar", "find"))),
            )
        )
        assert await list_names(red) == ["attic__find", "cellar__find"]
        assert await first_text(red, "find") == "attic/find"
        assert await list_names(blue) == ["find"]
        assert await first_text(blue, "find") == "cellar/find"


async def test_a_tool_cannot_find_out_the_names_of_hidden_servers() -> None:
    hub = governed(
        toolbox("attic", "find"), toolbox("cellar", "attic__wine", "attic__find"), rules=blue_rule(servers=["attic"])
    )
    async with connect(hub, RED) as red, connect(hub, BLUE) as blue:
        assert await list_names(red) == ["find", "cellar__attic__wine", "cellar__attic__find"]
        assert await list_names(blue) == ["attic__wine", "attic__find"]
        assert await first_text(blue, "attic__wine") == "cellar/attic__wine"
        assert await first_text(blue, "attic__find") == "cellar/attic__find"
        assert await first_text(red, "attic__find") == "attic/find"


async def test_the_alias_of_two_servers_does_not_tell_that_there_is_another() -> None:
    servers = [
        UpstreamConfig(id=name, server=toolbox(name, "find", name), prefix_text="house") for name in ("attic", "cellar")
    ]
    hub = governed(*servers, rules=blue_rule(servers=["attic"]))
    async with connect(hub, RED) as red, connect(hub, BLUE) as blue:
        error = await red.error("tools/call", {"name": "house__find", "arguments": {}})
        assert "several servers" in str(error)
        error = await blue.error("tools/call", {"name": "house__find", "arguments": {}})
        assert "several servers" not in str(error)


@pytest.mark.parametrize("hides", [{"annotations": ["destructive"]}, {"servers": ["attic"]}])
async def test_the_name_of_a_changed_tool_stays_free_for_those_who_may_see_it(
    tmp_path: Path, hides: dict[str, Any]
) -> None:
    attic = Server("attic")
    attic.tool(name="find", annotations=ToolAnnotations(read_only_hint=True))(lambda: "attic/find")
    hub = governed(attic, toolbox("cellar", "find"), rules=blue_rule(tools=["attic/*"], **hides))
    pins = Pins(tmp_path / "hubbub.lock", "enforce", now=lambda: datetime(2026, 1, 2, tzinfo=UTC))
    use_pins(hub, pins)
    async with connect(hub, RED) as red, connect(hub, BLUE) as blue:
        await list_names(red)
        await pins.approve([Selection()], "ann")
        attic.tool(name="find", description="Changed.")(lambda: "changed")
        for client, sees_attic in ((red, True), (blue, "servers" not in hides)):
            assert await list_names(client) == (["cellar__find"] if sees_attic else ["find"])
            if sees_attic:
                error = await client.error("tools/call", {"name": "find", "arguments": {}})
                assert error["message"] == "Tool not found"
            else:
                assert await first_text(client, "find") == "cellar/find"
