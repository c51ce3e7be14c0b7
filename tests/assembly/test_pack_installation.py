"""Several packs on one server: tools, lifespans, health and profiles."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hubbub import DefinitionError, Health, Pack, Server, SettingsError, View
from hubbub.assembly.pack_discovery import PackEntry, choose_packs
from hubbub.assembly.pack_installation import InstalledPart, install_pack, lenient_profile, use_profile
from hubbub.errors import PackUnavailable
from hubbub.settings import Sources

PROFILES = {"core": View(include=("*_read",)), "full": View()}


def make_pack(name: str, *tools: str, **options: Any) -> Pack:
    def install(server: Server, settings: Any) -> dict[str, Any]:
        for tool in tools:
            server.tool(_nothing, name=tool)  # type: ignore[call-overload]
        return {"settings": settings}

    return Pack(name=name, summary="", install=install, **options)


async def _nothing() -> None:
    """Do nothing."""


def shown_tools(server: Server) -> list[str]:
    return [tool.name for tool in server.tools.all() if server.view.shows(tool)]


def make_entry(pack: Pack) -> PackEntry:
    found = PackEntry(pack.name, "nowhere:pack", "somebody", "1")
    found.__dict__["pack"] = pack
    return found


def test_a_pack_with_an_existing_tool_name_is_refused() -> None:
    server = Server("s")
    install_pack(server, make_pack("one", "read"), None)
    with pytest.raises(DefinitionError, match="'two' defines the tool 'read'"):
        install_pack(server, make_pack("two", "write", "read"), None)


def test_a_pack_gets_its_state_in_lifespan_and_health() -> None:
    @asynccontextmanager
    async def lifespan(state: dict[str, Any]) -> AsyncIterator[None]:
        state["open"] = True
        yield
        state["open"] = False

    async def health(state: dict[str, Any]) -> Health:
        return Health(state.get("open", False), state["settings"])

    async def main() -> None:
        server = Server("s", lifespan=own)
        installed = install_pack(server, make_pack("p", lifespan=lifespan, health=health), "set")
        async with server.running():
            assert await installed.health() == Health(True, "set")
            assert server.state == "own"
        assert await installed.health() == Health(False, "set")

    @asynccontextmanager
    async def own(server: Server) -> AsyncIterator[str]:
        yield "own"

    asyncio.run(main())


def test_a_profile_does_not_apply_to_packs_without_it() -> None:
    server = Server("s")
    parts = [
        install_pack(server, make_pack("one", "a_read", "a_write", profiles=PROFILES), None),
        install_pack(server, make_pack("two", "b_write"), None),
    ]
    use_profile(server, "core", parts)
    assert shown_tools(server) == ["a_read", "b_write"]


def test_the_profile_of_a_single_pack_applies_to_tools_added_later() -> None:
    server = Server("s")
    use_profile(server, "core", [install_pack(server, make_pack("one", "a_read", profiles=PROFILES), None)])
    server.tool(_nothing, name="b_write")  # type: ignore[call-overload]
    server.tool(_nothing, name="b_read")  # type: ignore[call-overload]
    assert shown_tools(server) == ["a_read", "b_read"]


def test_an_unknown_profile_is_refused_with_the_known_ones() -> None:
    parts = [InstalledPart("one", (), PROFILES), InstalledPart("two", (), {})]
    with pytest.raises(SettingsError, match="unknown profile 'brief'; known: core, full"):
        use_profile(Server("s"), "brief", parts)


def test_without_names_every_pack_that_can_run_is_installed() -> None:
    packs = {
        name: make_entry(make_pack(name, requires=needs))
        for name, needs in {"a": (), "b": ("no_such",), "c": ()}.items()
    }
    assert [pack.name for pack in choose_packs((), packs)] == ["a", "c"]


def test_a_named_pack_must_exist_and_be_able_to_run() -> None:
    packs = {"peers": make_entry(make_pack("peers", requires=("no_such",), extra="peers"))}
    with pytest.raises(PackUnavailable, match=r"needs no_such: install Hubbub with its extra 'peers'"):
        choose_packs(("peers",), packs)
    with pytest.raises(SettingsError, match="unknown pack 'pears'; did you mean 'peers'"):
        choose_packs(("pears",), packs)


@pytest.mark.parametrize(
    ("sources", "is_refused"),
    [
        (Sources(flags={"--tool-profile": "x"}), True),
        (Sources(flags={"--tool-profile": "x"}, environ={"HUBBUB_TOOL_PROFILE": "x"}), True),
        (Sources(environ={"TIDES": "x"}, aliases={"TIDES": "HUBBUB_TOOL_PROFILE"}), False),
        (Sources(environ={"HUBBUB_TOOL_PROFILE": "x"}), False),
    ],
)
def test_an_unknown_profile_is_refused_unless_the_environment_names_it(sources: Sources, is_refused: bool) -> None:
    server, warned = Server("s"), list[str]()
    part = install_pack(server, make_pack("p", "a_read", "write", profiles=PROFILES), None)
    try:
        with lenient_profile(sources, warned.append):
            use_profile(server, "x", [part])
    except SettingsError:
        assert is_refused
        return
    assert not is_refused
    assert "unknown profile 'x'" in warned[0]
    assert shown_tools(server) == ["a_read", "write"]
