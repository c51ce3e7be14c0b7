"""ActivityWatch for the tests, started once for each worker and kind."""

from collections.abc import Iterator

import pytest
from tests.packs.activity.judging import Judge, judging
from tests.packs.activity.watching import Watch, watching


@pytest.fixture(autouse=True)
def _no_data_of_other_tests(own_folders: None) -> None:
    """A token, a pause or a log that another test left would matter to every one."""


@pytest.fixture(scope="session")
def _testing_watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    with watching(tmp_path_factory.mktemp("aw-testing"), is_testing=True) as watch:
        yield watch


@pytest.fixture(scope="session")
def _normal_watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    with watching(tmp_path_factory.mktemp("aw-normal"), is_testing=False) as watch:
        yield watch


@pytest.fixture
def watch(request: pytest.FixtureRequest) -> Watch:
    """An empty ActivityWatch."""
    found: Watch = request.getfixturevalue("_normal_watch")
    found.clear()
    return found


@pytest.fixture(params=("normal", "testing"))
def either_watch(request: pytest.FixtureRequest) -> Watch:
    """An empty one in normal mode, and one in testing mode, which answers in other ways."""
    found: Watch = request.getfixturevalue(f"_{request.param}_watch")
    found.clear()
    return found


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """ActivityWatch's own libraries."""
    with judging(tmp_path_factory.mktemp("aw-judge")) as found:
        yield found
