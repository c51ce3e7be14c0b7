"""A backend behind gRPC returns the same as the store backend, for every method and generated arguments."""

import asyncio
import secrets
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from inspect import signature
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs.tabletop.backends import open_grpc_backend, open_store_backend

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.backend import Backend, iterate_all
from hubbub.packs.tabletop.campaign_document import CampaignDocument
from hubbub.packs.tabletop.failures import Failure, InvalidArgument
from hubbub.packs.tabletop.grpc_backend import REMOTE_METHODS
from hubbub.packs.tabletop.model import ActorKind, GmMode, PageRequest, Role, Scene
from hubbub.packs.tabletop.randomness import RngRequest

METHODS = sorted((call.method for call in REMOTE_METHODS.values()), key=lambda name: name.startswith(("delete", "end")))
"""Methods that delete or end something come last."""
EXAMPLES = 40
ODD_TEXTS = ["", " ", "GM", " gm", "a\0b", "é🎲", "x" * (limits.MAX_NAME_CHARACTERS + 1), "9" * 30]
NUMBERS = st.integers(-3, 30) | st.sampled_from([-(2**31), 2**31 - 1, 2**31, 2**40, -(2**70)])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**54), 2**54) | st.floats(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


class BackendPair:
    """A store backend and a gRPC backend with the same campaigns, clock, ids and seeds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runner = asyncio.Runner()
        self.backends: list[Backend] = []
        self._stack = AsyncExitStack()
        self._clock, self._draw_count = time.time, 0
        self._now = self._clock()
        monkeypatch.setattr(time, "time", lambda: self._now)
        monkeypatch.setattr(secrets, "token_bytes", self._draw)
        monkeypatch.setattr(secrets, "randbelow", lambda most: self._draw_count % most)

    def _draw(self, size: int = 32) -> bytes:
        self._draw_count += 1
        return self._draw_count.to_bytes(size, "big")

    async def open(self, folder: Path) -> None:
        self.backends = [
            await self._stack.enter_async_context(open_store_backend(f"sqlite:///{folder / 'here.db'}")),
            await self._stack.enter_async_context(open_grpc_backend(f"sqlite:///{folder / 'there.db'}")),
        ]

    async def call_both(self, method: str, *given: Any, **keywords: Any) -> Any:
        """Call a method of both; return the common result, or the class of the failure.

        If a call has two errors, the gRPC client may report another one: values that do not fit into a message first.
        """
        self._now, draw_count = self._clock(), self._draw_count
        found: list[Any] = []
        for instance in self.backends:
            self._draw_count = draw_count
            try:
                found.append(await getattr(instance, method)(*given, **keywords))
            except Failure as failure:
                found.append(type(failure))
        here, there = found
        assert here == there or (there is InvalidArgument and isinstance(here, type)), method
        return here

    def close(self) -> None:
        self.runner.run(self._stack.aclose())
        self.runner.close()


@contextmanager
def open_backend_pair(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BackendPair]:
    pair = BackendPair(monkeypatch)
    pair.runner.run(pair.open(folder))
    try:
        yield pair
    finally:
        pair.close()


async def _create_records(pair: BackendPair) -> dict[str, list[Any]]:
    """Create records, and return valid values by parameter name."""
    names = ("ours", "theirs", "new")
    ours, theirs, new = [await pair.call_both("create_campaign", name, GmMode.AI, "a theme") for name in names]
    people = [await pair.call_both("create_participant", ours.id, name, Role.PLAYER) for name in ("Ann", "Bea")]
    actors = [await pair.call_both("create_actor", ours.id, name, ActorKind.PC) for name in ("Cy", "Dot", "Eve")]
    sessions = [await pair.call_both("start_session", campaign.id, "one") for campaign in (ours, theirs)]
    bare = await pair.call_both("export_campaign", theirs.id, without_events=True)
    documents = [
        msgspec.structs.replace(bare, sessions=(), campaign=msgspec.structs.replace(bare.campaign, id=name))
        for name in (theirs.id, "camp_one", "camp_two", "not an id")
    ]
    return {
        "campaign_id": [ours.id, ours.id, new.id, theirs.id, "camp_nowhere"],
        "participant_id": [*(person.id for person in people), "part_nowhere"],
        "actor_id": [*(actor.id for actor in actors), "actor_nowhere"],
        "session_id": [*(session.id for session in sessions), "sess_nowhere"],
        "controller": [people[0].id, "gm", "part_nowhere"],
        "document": [await pair.call_both("export_campaign", ours.id), *documents],
        "request_id": ["req_1", None],
        "notation": ["4d6kh3+2", "d%", "2d10ro<3", "3d6!-1", "1d"],
        "type": ["note.added", "roll.action", "note"],
        "token": ["", "1", "2"],
        "hope": [1, 7, 12],
        "fear": [1, 7, 11],
        "modifier": [-1, 0, 2],
        "difficulty": [0, 15],
        "advantage": [-1, 0, 1],
        "sides": [6, 20],
        "count": [1, 3],
    }


def _arguments(method: str, known: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    types = get_type_hints(getattr(Backend, method))
    parameters = list(signature(getattr(Backend, method)).parameters)[1:]
    return st.fixed_dictionaries({name: _values(name, types[name], known) for name in parameters})


def _values(name: str, kind: Any, known: dict[str, list[Any]]) -> st.SearchStrategy[Any]:
    """Return a strategy for a parameter: mostly valid values, sometimes odd ones."""
    known_values = st.sampled_from(known.get(name, ["A name"]))
    if name in ("request_id", "document"):
        return known_values
    if kind is str:
        return _mostly(known_values, st.sampled_from(ODD_TEXTS) | st.text(max_size=8))
    if kind is bool:
        return st.booleans()
    if kind is int:
        return _mostly(known_values, NUMBERS) if name in known else NUMBERS
    if kind is PageRequest:
        return st.builds(PageRequest, NUMBERS, _values("token", str, known))
    if kind is Scene or kind == Scene | None:
        fields = {key: _values(key, str, known) for key in ("campaign_id", "session_id", "actor_id")}
        scenes = st.builds(
            Scene,
            campaign_id=fields["campaign_id"],
            session_id=st.none() | fields["session_id"],
            actor_id=st.none() | fields["actor_id"],
        )
        return scenes if kind is Scene else st.none() | scenes
    if kind is RngRequest:
        return st.builds(RngRequest, seed=st.none() | st.integers(0, 9) | NUMBERS)
    if kind == dict[str, Any]:
        return st.dictionaries(st.text(max_size=4), JSON, max_size=3)
    options = [option for option in getattr(kind, "__args__", ()) if option is not type(None)]
    if len(options) == 1 and kind != CampaignDocument:
        single = _values(name, options[0], known)
        return st.lists(single, max_size=3) if getattr(kind, "__origin__", None) is not None else st.none() | single
    if issubclass(kind, msgspec.Struct):
        return st.builds(kind, **{key: _values(key, hint, known) for key, hint in get_type_hints(kind).items()})
    return st.sampled_from(list(kind))


def _mostly(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw from `usual` three times out of four; `usual | usual | odd` would not, because duplicates are removed."""
    return st.integers(0, 3).flatmap(lambda number: usual if number else odd)


def test_the_store_and_grpc_backends_return_the_same_for_every_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_backend_pair(tmp_path, monkeypatch) as pair:
        known = pair.runner.run(_create_records(pair))
        done = {method: _check(pair, method, known) for method in METHODS}
        assert [method for method in METHODS if not done[method]] == [], "all calls failed"
        pair.runner.run(_compare_all(pair))


def _check(pair: BackendPair, method: str, known: dict[str, list[Any]]) -> int:
    """Call a method of both with generated arguments; return how often it succeeded."""
    done = 0

    @given(_arguments(method, known))
    @settings(max_examples=EXAMPLES, deadline=None)
    def check(arguments: dict[str, Any]) -> None:
        nonlocal done
        found = pair.runner.run(pair.call_both(method, **arguments))
        done += not (isinstance(found, type) and issubclass(found, Failure))

    check()
    return done


async def _compare_all(pair: BackendPair) -> None:
    """Compare all campaigns at the end."""
    here, there = pair.backends
    campaigns = [campaign async for campaign in iterate_all(here.list_campaigns, limits.MAX_PAGE_SIZE)]
    assert campaigns == [campaign async for campaign in iterate_all(there.list_campaigns, limits.MAX_PAGE_SIZE)]
    for campaign in campaigns:
        document = await pair.call_both("export_campaign", campaign.id)
        assert document.campaign == campaign
        assert await pair.call_both("verify_events", campaign.id) is None


def test_every_backend_method_has_an_rpc() -> None:
    public = {name for name in dir(Backend) if not name.startswith("_")}
    assert set(METHODS) == public - {"check", "close", "status"}
