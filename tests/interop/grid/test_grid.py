"""The grid: clients of both eras, servers of both eras, eleven features, through a hub; official SDKs at both ends.

Each row of `ROWS` is one visit: from which front (`direct` is no hub at all, which shows that what we
expect is what the SDKs do among themselves; `chain` is a hub behind a hub, over HTTP in the legacy era, on
stdio in the modern one), by a client of which era, to which workshop. What was seen is compared with
`expected.py`, payloads and order, one feature at a time.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from tests.interop.grid import expected
from tests.interop.grid.visiting import LEGACY, MODERN
from tests.interop.grid.workshops import WORKSHOPS, Workshop
from tests.interop.python_client import DEPRECATED

pytestmark = pytest.mark.filterwarnings(DEPRECATED)


class Row(NamedTuple):
    front: str
    client: str
    workshop: Workshop
    judge: str = "python"
    """Whose SDK the client is of."""

    @property
    def id(self) -> str:
        era = "modern" if self.client == MODERN else "legacy"
        return f"{self.front}-{self.judge}-{era}-to-{self.workshop.name}"


ERAS = (LEGACY, MODERN)
ROWS = [
    *(Row("direct", workshop.era, workshop) for workshop in WORKSHOPS),
    *(Row("direct", era, Workshop("python", era, "http"), "node") for era in ERAS),
    *(Row("http", era, workshop) for workshop in WORKSHOPS for era in ERAS),
    *(
        Row("http", era, Workshop(*workshop), "node")
        for workshop in (
            ("python", LEGACY, "http"),
            ("python", MODERN, "stdio"),
            ("v1", LEGACY, "stdio"),
            ("v2", MODERN, "http"),
        )
        for era in ERAS
    ),
    *(
        Row("stdio", era, Workshop(*workshop))
        for workshop in (
            ("python", LEGACY, "http"),
            ("python", MODERN, "http"),
            ("v1", LEGACY, "stdio"),
            ("v2", MODERN, "stdio"),
        )
        for era in ERAS
    ),
    *(
        Row(front, era, Workshop(*workshop, "stdio"))
        for front in ("chain-legacy", "chain-modern")
        for workshop in (("v1", LEGACY), ("v2", MODERN))
        for era in ERAS
    ),
]


class Seen(NamedTuple):
    row: Row
    features: dict[str, Any]

    @property
    def room(self) -> str:
        return f"memo://{self.row.workshop.name}"

    def of(self, feature: str) -> Any:
        found = self.features[feature]
        if isinstance(found, Exception):
            raise found
        assert "failed" not in found, found["failed"]
        return found

    def as_told(self, wanted: Any) -> Any:
        """As this judge tells it: Node.js knows no tuples, and reports progress only where it is asked to."""
        if self.row.judge == "python":
            return wanted
        return json.loads(json.dumps(without_progress(wanted)))


def without_progress(wanted: Any) -> Any:
    if isinstance(wanted, dict):
        return {key: without_progress(value) for key, value in wanted.items()}
    if isinstance(wanted, list):
        return [value for value in wanted if not (isinstance(value, tuple) and value[0] == "progress")]
    return wanted


@pytest.fixture(scope="module", params=[pytest.param(row, id=row.id) for row in ROWS])
def seen(request: pytest.FixtureRequest, visits: Callable[..., dict[str, Any]]) -> Seen:
    row: Row = request.param
    features = visits(*row)
    assert features["version"] == row.client
    return Seen(row, features)


def test_tools(seen: Seen) -> None:
    found = seen.of("tools")
    # What other visits have added comes behind.
    assert found | {"names": found["names"][: len(expected.NAMES)]} == expected.tools(seen.room)


def test_structured_results(seen: Seen) -> None:
    eras = {seen.row.client, seen.row.workshop.era, LEGACY if seen.row.front == "chain-legacy" else MODERN}
    wanted = expected.structured(is_bare=eras == {MODERN})
    assert seen.of("structured results") == seen.as_told(wanted)


def test_progress(seen: Seen) -> None:
    assert [tuple(event) if isinstance(event, list) else event for event in seen.of("progress")] == expected.PROGRESS


def test_cancellation(seen: Seen) -> None:
    found = seen.of("cancellation")
    assert [line.split()[0] for line in found["journal"]] == ["called", "started", "cancelled"]
    assert found["was_cancelled"] is True
    assert found["afterwards"] == "still there"


def test_logs(seen: Seen) -> None:
    assert seen.of("logs") == seen.as_told(expected.logs())


def test_elicitation(seen: Seen) -> None:
    found = seen.of("elicitation")
    assert found["accepted"] == seen.as_told(expected.ACCEPTED)
    assert found["declined"] == seen.as_told(expected.DECLINED)
    assert ("rounds" in found) is (seen.row.client == MODERN and seen.row.judge == "python")
    if "rounds" in found:
        first, second, last, forged = found["rounds"]
        assert [first[:2], second[:2], last] == expected.ROUNDS
        states = {first[2], second[2]}
        if seen.row.front == "direct":
            assert states == {"who", "sure Ada"}
        else:
            assert not states & {"who", "sure Ada"}
            assert forged == -32602


def test_sampling(seen: Seen) -> None:
    assert seen.of("sampling") == seen.as_told(expected.SAMPLING)


def test_resources_with_subscriptions(seen: Seen) -> None:
    assert seen.of("resources") == expected.resources(seen.room, seen.row.client)


def test_prompts(seen: Seen) -> None:
    assert seen.of("prompts") == seen.as_told(expected.PROMPTS)


def test_completion(seen: Seen) -> None:
    assert seen.of("completion") == expected.COMPLETION


def test_list_changes(seen: Seen) -> None:
    assert seen.of("list changes") == expected.CHANGES
