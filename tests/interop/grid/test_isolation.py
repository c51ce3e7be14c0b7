"""Clients of one hub at the same time: what a server asks, reports and logs reaches the one whose call it is."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.interop.grid import expected
from tests.interop.grid.visiting import LEGACY, LOG_LEVEL, MODERN, Stand, Visit, accept, connected
from tests.interop.grid.workshops import QUICK, Workshop
from tests.interop.python_client import DEPRECATED, text_of

pytestmark = pytest.mark.filterwarnings(DEPRECATED)
NAMES = {"Ada": LEGACY, "Bob": LEGACY, "Cid": MODERN, "Dot": MODERN}
ROUNDS = 2


@pytest.fixture(params=[pytest.param(workshop, id=workshop.name) for workshop in QUICK])
def stand(request: pytest.FixtureRequest, hub: Callable[[Workshop], Stand]) -> Stand:
    return hub(request.param)


def test_clients_at_the_same_time_hear_only_what_is_theirs(stand: Stand, within: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            visits = {name: await stack.enter_async_context(connected(stand, era)) for name, era in NAMES.items()}
            for _ in range(ROUNDS):
                async with asyncio.TaskGroup() as group:
                    for number, (name, visit) in enumerate(visits.items()):
                        group.create_task(be_asked(visit, name))
                        group.create_task(hear_progress(visit, 3 + number))

    within(scenario(), 120)


async def be_asked(visit: Visit, name: str) -> None:
    visit.answers = [accept(name=name, age=1), accept(sure=True)]
    visit.events.clear()
    result = await visit.call("interview")
    assert text_of(result.content[0]) == f"{name} is sure"
    asked = [event[1] for event in visit.events if event[0] == "elicitation"]
    assert asked == ["Who are you?", f"Are you sure, {name}?"]
    assert visit.answers == []


async def hear_progress(visit: Visit, steps: int) -> None:
    heard: list[Any] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total))

    # Every client names its first call, its second and so on alike: tokens are the same for all.
    await visit.client.call_tool(f"{visit.stand.prefix}slow", {"steps": steps}, progress_callback=hear)
    assert heard == [(step, steps) for step in range(1, steps + 1)]


def test_logs_go_to_who_wants_them(stand: Stand, within: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with connected(stand, MODERN) as loud, connected(stand, MODERN) as quiet, connected(stand, LEGACY) as old:
            await old.client.set_logging_level("error")
            for _ in range(ROUNDS):
                heard = await loud.traced("chatty", meta={LOG_LEVEL: "warning"})
                assert heard == expected.logs()["warning"]
                assert not [event for event in await quiet.traced("chatty") if event[0] == "log"]
                logged = [event[1] for event in await old.traced("chatty") if event[0] == "log"]
                assert logged == ["error"]

    within(scenario(), 120)
