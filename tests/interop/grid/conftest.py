"""Each cell of the grid is visited once; the hub over HTTP stands for all tests of a worker."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.interop.grid.visiting import LEGACY, MODERN, Stand, see
from tests.interop.grid.workshops import WORKSHOPS, Workshop, hub_before, hub_on_stdio, hub_with, inner_on_stdio

VISIT_S = 120.0


@pytest.fixture(scope="session")
def hub(node: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Workshop], Stand]]:
    """Where each workshop is found behind one hub that has them all, over HTTP."""
    folder = tmp_path_factory.mktemp("hub")
    with hub_with(node, folder, WORKSHOPS) as (process, _):
        yield lambda workshop: Stand(
            f"{process.url}/mcp", workshop.name, workshop.journal(folder), f"{workshop.name}__"
        )


@pytest.fixture(scope="session")
def visits(
    node: list[str],
    tmp_path_factory: pytest.TempPathFactory,
    within: Callable[..., Any],
    request: pytest.FixtureRequest,
) -> Callable[[str, str, Workshop], dict[str, Any]]:
    """What a client of an era sees of a workshop from a front; whoever asks again gets the same."""
    known: dict[Any, Any] = {}

    def visit(front: str, era: str, workshop: Workshop) -> dict[str, Any]:
        if (front, era, workshop) not in known:
            folder = tmp_path_factory.mktemp("visit")
            known[front, era, workshop] = within(_visit(front, era, workshop, folder), VISIT_S)
        return dict(known[front, era, workshop])

    async def _visit(front: str, era: str, workshop: Workshop, folder: Path) -> dict[str, Any]:
        if front == "http":
            return await see(request.getfixturevalue("hub")(workshop), era)
        if front == "chain-modern":
            inner = request.getfixturevalue("hub")(workshop)
            with hub_before({"url": inner.place}, folder, MODERN) as url:
                return await see(replace(inner, place=url), era)
        found = workshop.stand(node, folder) if front == "direct" else hub_on_stdio(node, folder, workshop)
        with found as stand:
            if front != "chain-legacy":
                return await see(stand, era)
            with hub_before(inner_on_stdio(stand), folder, LEGACY) as url:
                return await see(replace(stand, place=url), era)

    return visit
