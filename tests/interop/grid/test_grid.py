"""The grid: clients of both eras, servers of both eras, eleven features, through a hub; official SDKs at both ends.

Each row of `ROWS` is one visit: from which front (`direct` is no hub at all, which shows that what we
expect is what the SDKs do among themselves; `chain` is a hub behind a hub, on stdio in the legacy era, over
HTTP in the modern one), by a client of which era, to which workshop. What was seen is compared with
`expected.py`, payloads and order, one feature at a time.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from tests.interop.grid import expected
from tests.interop.grid.visiting import LEGACY, MODERN
from tests.interop.grid.workshops import WORKSHOPS, Workshop
from tests.interop.python_client import DEPRECATED

pytestmark = [pytest.mark.filterwarnings(DEPRECATED), pytest.mark.timeout(150)]


class Row(NamedTuple):
    front: str
    client: str
    workshop: Workshop

    @property
    def id(self) -> str:
        return f"{self.front}-{'modern' if self.client == MODERN else 'legacy'}-to-{self.workshop.name}"


ROWS = [
    *(Row("direct", workshop.era, workshop) for workshop in WORKSHOPS),
    *(Row("http", era, workshop) for workshop in WORKSHOPS for era in (LEGACY, MODERN)),
    *(
        Row("stdio", era, Workshop(*workshop))
        for workshop in (
            ("python", LEGACY, "stdio"),
            ("python", MODERN, "stdio"),
            ("v1", LEGACY, "http"),
            ("v2", MODERN, "http"),
        )
        for era in (LEGACY, MODERN)
    ),
    *(
        Row(front, era, Workshop(*workshop, "stdio"))
        for front in ("chain-legacy", "chain-modern")
        for workshop in (("v1", LEGACY), ("v2", MODERN))
        for era in (LEGACY, MODERN)
    ),
]


class Seen(NamedTuple):
    row: Row
    features: dict[str, Any]

    @property
    def room(self) -> str:
        return f"memo://{self.row.workshop.name}"

    def __getitem__(self, feature: str) -> Any:  # type: ignore[override]
        found = self.features[feature]
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture(scope="module", params=[pytest.param(row, id=row.id) for row in ROWS])
def seen(request: pytest.FixtureRequest, visits: Callable[..., dict[str, Any]]) -> Seen:
    row: Row = request.param
    features = visits(*row)
    assert features["version"] == row.client
    return Seen(row, features)


def test_tools(seen: Seen) -> None:
    found = seen["tools"]
    # What other visits have added comes behind.
    assert found | {"names": found["names"][: len(expected.NAMES)]} == expected.tools(seen.room)


def test_structured_results(seen: Seen) -> None:
    eras = {seen.row.client, seen.row.workshop.era, LEGACY if seen.row.front == "chain-legacy" else MODERN}
    assert seen["structured results"] == expected.structured(is_bare=eras == {MODERN})


def test_progress(seen: Seen) -> None:
    assert seen["progress"] == expected.PROGRESS


def test_cancellation(seen: Seen) -> None:
    found = seen["cancellation"]
    assert [line.split()[0] for line in found["journal"]] == ["called", "started", "cancelled"]
    assert found["was_cancelled"] is True
    assert found["afterwards"] == "still there"


def test_logs(seen: Seen) -> None:
    assert seen["logs"] == expected.logs()


def test_elicitation(seen: Seen) -> None:
    found = seen["elicitation"]
    assert found["accepted"] == expected.ACCEPTED
    assert found["declined"] == expected.DECLINED
    if seen.row.client == MODERN:
        first, second, last, forged = found["rounds"]
        assert [first[:2], second[:2], last] == expected.ROUNDS
        states = [first[2], second[2]]
        if seen.row.front == "direct":
            assert states == ["who", "sure Ada"]
        else:
            assert not {"who", "sure Ada"} & set(states)
            assert forged == -32602


def test_sampling(seen: Seen) -> None:
    assert seen["sampling"] == expected.SAMPLING


def test_resources_with_subscriptions(seen: Seen) -> None:
    assert seen["resources"] == expected.resources(seen.room, seen.row.client)


def test_prompts(seen: Seen) -> None:
    assert seen["prompts"] == expected.PROMPTS


def test_completion(seen: Seen) -> None:
    assert seen["completion"] == expected.COMPLETION


def test_list_changes(seen: Seen) -> None:
    assert seen["list changes"] == expected.CHANGES
