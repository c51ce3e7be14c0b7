"""Each cell of the grid is visited once; the hub over HTTP stands for all tests of a worker."""

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.http.processes import ServerProcess
from tests.http.wire import Site, request
from tests.interop.foreign import JUDGES
from tests.interop.grid.visiting import LEGACY, MODERN, Stand, see
from tests.interop.grid.workshops import WORKSHOPS, Workshop, Yard, hub_before, inner_on_stdio, write_config

VISIT_S = 120.0
SCRIPT = Path(__file__).with_name("visit.mjs")
Visits = Callable[[str, str, Workshop, str], dict[str, Any]]


@pytest.fixture(scope="session")
def yard(node: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    found = Yard(node, tmp_path_factory.mktemp("yard"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def hub(
    yard: Yard, tmp_path_factory: pytest.TempPathFactory, within: Callable[..., Any]
) -> Iterator[Callable[[Workshop], Stand]]:
    """Where each workshop is found behind one hub that has them all, over HTTP."""
    entries = {workshop: yard.entry(workshop) for workshop in WORKSHOPS}
    with ServerProcess(*write_config(tmp_path_factory.mktemp("hub"), entries)) as process:
        within(every_server_ready(process.site), VISIT_S)
        yield lambda workshop: Stand(f"{process.url}/mcp", workshop.name, yard.journal(workshop), f"{workshop.name}__")


async def every_server_ready(site: Site) -> None:
    """A hub cannot say that a resource does not exist while one of its servers has not started."""
    phases = {""}
    while phases != {"ready"}:
        await site.post(request("tools/list"))
        answer = await site.post(request("resources/read", {"uri": "hub://status"}))
        status = json.loads(answer.json["result"]["contents"][0]["text"])
        phases = {server["phase"] for server in status["servers"]}
        print(status["servers"])  # Shown if the deadline passes.


@pytest.fixture(scope="session")
def visits(
    node: list[str],
    yard: Yard,
    tmp_path_factory: pytest.TempPathFactory,
    within: Callable[..., Any],
    request: pytest.FixtureRequest,
) -> Visits:
    """What a client of an era sees of a workshop from a front; whoever asks again gets the same."""
    known: dict[Any, dict[str, Any]] = {}

    def visit(front: str, era: str, workshop: Workshop, judge: str) -> dict[str, Any]:
        key = (front, era, workshop, judge)
        if key not in known:
            with standing(front, workshop, tmp_path_factory.mktemp("visit")) as stand:
                seeing = see(stand, era) if judge == "python" else see_with_node(node, stand, era)
                known[key] = within(seeing, VISIT_S)
        return known[key]

    @contextlib.contextmanager
    def standing(front: str, workshop: Workshop, folder: Path) -> Iterator[Stand]:
        match front:
            case "direct":
                yield yard.stand(workshop)
            case "http":
                yield request.getfixturevalue("hub")(workshop)
            case "stdio":
                yield yard.behind_stdio(workshop, folder)
            case "chain-legacy":
                inner = request.getfixturevalue("hub")(workshop)
                with hub_before({"url": inner.place}, folder, LEGACY) as url:
                    yield replace(inner, place=url)
            case "chain-modern":
                inner = yard.behind_stdio(workshop, folder)
                with hub_before(inner_on_stdio(inner), folder, MODERN) as url:
                    yield replace(inner, place=url)

    return visit


async def see_with_node(node: list[str], stand: Stand, era: str) -> dict[str, Any]:
    """The same visit with the TypeScript SDK of that era."""
    given = ["v1" if era == LEGACY else "v2", str(stand.place), stand.room, stand.prefix, str(stand.journal)]
    process = await asyncio.create_subprocess_exec(
        *node,
        str(SCRIPT),
        *given,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"JUDGES": str(JUDGES)},
    )
    told, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    return dict(json.loads(told))
