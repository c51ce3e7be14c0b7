"""Fixtures: ActivityWatch servers, each started once per worker, and its own libraries."""

from collections.abc import Iterator

import pytest
from tests.packs.activity.activitywatch_server import ActivityWatchServer, run_activitywatch
from tests.packs.activity.judge import Judge, run_judge


@pytest.fixture(autouse=True)
def _isolate_data_folder(own_folders: None) -> None:
    """Isolate the data folder: a token, a pause or a log of another test would change results."""


@pytest.fixture(scope="session")
def _testing_watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActivityWatchServer]:
    with run_activitywatch(tmp_path_factory.mktemp("aw-testing"), is_testing=True) as watch:
        yield watch


@pytest.fixture(scope="session")
def _normal_watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActivityWatchServer]:
    with run_activitywatch(tmp_path_factory.mktemp("aw-normal"), is_testing=False) as watch:
        yield watch


@pytest.fixture
def watch(request: pytest.FixtureRequest) -> ActivityWatchServer:
    """An ActivityWatch without buckets."""
    found: ActivityWatchServer = request.getfixturevalue("_normal_watch")
    found.clear()
    return found


@pytest.fixture(params=("normal", "testing"))
def either_watch(request: pytest.FixtureRequest) -> ActivityWatchServer:
    """An ActivityWatch without buckets, in normal and in testing mode, whose responses differ."""
    found: ActivityWatchServer = request.getfixturevalue(f"_{request.param}_watch")
    found.clear()
    return found


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """ActivityWatch's own libraries."""
    with run_judge(tmp_path_factory.mktemp("aw-judge")) as found:
        yield found
