"""Each cell of the grid runs once; the hub over HTTP is shared by all tests of a worker."""

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.http.raw_http import Site, request
from tests.http.server_process import ServerProcess
from tests.interop.external_servers import JUDGES
from tests.interop.grid.feature_checks import LEGACY, MODERN, ServerTarget, run_features
from tests.interop.grid.workshops import (
    WORKSHOPS,
    Workshop,
    WorkshopPool,
    make_inner_entry,
    run_outer_hub,
    write_config,
)

RUN_TIMEOUT_S = 120.0
SCRIPT = Path(__file__).with_name("client_run.mjs")
FeatureResults = Callable[[str, str, Workshop, str], dict[str, Any]]


@pytest.fixture(scope="session")
def workshop_pool(node: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkshopPool]:
    found = WorkshopPool(node, tmp_path_factory.mktemp("yard"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def hub(
    workshop_pool: WorkshopPool, tmp_path_factory: pytest.TempPathFactory, run_async: Callable[..., Any]
) -> Iterator[Callable[[Workshop], ServerTarget]]:
    """The target of each workshop behind one hub over HTTP that has all of them."""
    entries = {workshop: workshop_pool.entry(workshop) for workshop in WORKSHOPS}
    with ServerProcess(*write_config(tmp_path_factory.mktemp("hub"), entries)) as process:
        run_async(wait_for_servers(process.site), RUN_TIMEOUT_S)
        yield lambda workshop: ServerTarget(
            f"{process.url}/mcp", workshop.name, workshop_pool.journal_path(workshop), f"{workshop.name}__"
        )


async def wait_for_servers(site: Site) -> None:
    """A hub cannot say that a resource does not exist while one of its servers has not started."""
    phases = {""}
    while phases != {"ready"}:
        await site.post(request("tools/list"))
        answer = await site.post(request("resources/read", {"uri": "hub://status"}))
        status = json.loads(answer.json["result"]["contents"][0]["text"])
        phases = {server["phase"] for server in status["servers"]}
        print(status["servers"])  # Shown if the deadline passes.


@pytest.fixture(scope="session")
def feature_results(
    node: list[str],
    workshop_pool: WorkshopPool,
    tmp_path_factory: pytest.TempPathFactory,
    run_async: Callable[..., Any],
    request: pytest.FixtureRequest,
) -> FeatureResults:
    """Results of a client of an era with a workshop through a front, cached."""
    known: dict[Any, dict[str, Any]] = {}

    def run_client(front: str, era: str, workshop: Workshop, client_sdk: str) -> dict[str, Any]:
        key = (front, era, workshop, client_sdk)
        if key not in known:
            with open_target(front, workshop, tmp_path_factory.mktemp("run")) as target:
                features = (
                    run_features(target, era) if client_sdk == "python" else run_features_with_node(node, target, era)
                )
                known[key] = run_async(features, RUN_TIMEOUT_S)
        return known[key]

    @contextlib.contextmanager
    def open_target(front: str, workshop: Workshop, folder: Path) -> Iterator[ServerTarget]:
        match front:
            case "direct":
                yield workshop_pool.direct_target(workshop)
            case "http":
                yield request.getfixturevalue("hub")(workshop)
            case "stdio":
                yield workshop_pool.stdio_hub_target(workshop, folder)
            case "chain-legacy":
                inner = request.getfixturevalue("hub")(workshop)
                with run_outer_hub({"url": inner.address}, folder, LEGACY) as url:
                    yield replace(inner, address=url)
            case "chain-modern":
                inner = workshop_pool.stdio_hub_target(workshop, folder)
                with run_outer_hub(make_inner_entry(inner), folder, MODERN) as url:
                    yield replace(inner, address=url)

    return run_client


async def run_features_with_node(node: list[str], target: ServerTarget, era: str) -> dict[str, Any]:
    """Run the same features with the TypeScript SDK of that era."""
    given = ["v1" if era == LEGACY else "v2", str(target.address), target.namespace, target.prefix, str(target.journal)]
    process = await asyncio.create_subprocess_exec(
        *node,
        str(SCRIPT),
        *given,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"JUDGES": str(JUDGES)},
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return dict(json.loads(output))
