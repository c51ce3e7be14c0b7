"""Concurrent clients of one hub: client requests, progress and logs of a server reach only the client of that call."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.interop.grid import expected
from tests.interop.grid.feature_checks import LEGACY, LOG_LEVEL, MODERN, ClientRun, ServerTarget, accept, connect_client
from tests.interop.grid.workshops import QUICK, Workshop
from tests.interop.python_client import DEPRECATED, block_text

pytestmark = pytest.mark.filterwarnings(DEPRECATED)
NAMES = {"Ada": LEGACY, "Bob": LEGACY, "Cid": MODERN, "Dot": MODERN}
ROUNDS = 2


@pytest.fixture(params=[pytest.param(workshop, id=workshop.name) for workshop in QUICK])
def target(request: pytest.FixtureRequest, hub: Callable[[Workshop], ServerTarget]) -> ServerTarget:
    return hub(request.param)


def test_concurrent_clients_receive_only_their_own_messages(
    target: ServerTarget, run_async: Callable[..., Any]
) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            runs = {name: await stack.enter_async_context(connect_client(target, era)) for name, era in NAMES.items()}
            for _ in range(ROUNDS):
                async with asyncio.TaskGroup() as group:
                    for number, (name, run) in enumerate(runs.items()):
                        group.create_task(answer_interview(run, name))
                        group.create_task(check_progress(run, 3 + number))

    run_async(scenario(), 120)


async def answer_interview(run: ClientRun, name: str) -> None:
    run.answers = [accept(name=name, age=1), accept(sure=True)]
    run.events.clear()
    result = await run.call("interview")
    assert block_text(result.content[0]) == f"{name} is sure"
    asked = [event[1] for event in run.events if event[0] == "elicitation"]
    assert asked == ["Who are you?", f"Are you sure, {name}?"]
    assert run.answers == []


async def check_progress(run: ClientRun, steps: int) -> None:
    collected: list[Any] = []

    async def collect_progress(progress: float, total: float | None, message: str | None) -> None:
        collected.append((progress, total))

    # Every client names its first call, its second and so on alike: tokens are the same for all.
    await run.client.call_tool(f"{run.target.prefix}slow", {"steps": steps}, progress_callback=collect_progress)
    assert collected == [(step, steps) for step in range(1, steps + 1)]


def test_log_messages_go_only_to_clients_that_requested_them(
    target: ServerTarget, run_async: Callable[..., Any]
) -> None:
    async def scenario() -> None:
        async with (
            connect_client(target, MODERN) as loud,
            connect_client(target, MODERN) as quiet,
            connect_client(target, LEGACY) as old,
        ):
            await old.client.set_logging_level("error")
            for _ in range(ROUNDS):
                collected = await loud.call_and_record("chatty", meta={LOG_LEVEL: "warning"})
                assert collected == expected.logs()["warning"]
                assert not [event for event in await quiet.call_and_record("chatty") if event[0] == "log"]
                logged = [event[1] for event in await old.call_and_record("chatty") if event[0] == "log"]
                assert logged == ["error"]

    run_async(scenario(), 120)
