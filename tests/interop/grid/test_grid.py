"""The grid: clients of both eras, servers of both eras, eleven features, through a hub; official SDKs at both ends.

Each row of `ROWS` is one run: from which front (`direct` is no hub at all, which shows that what we
expect is what the SDKs do among themselves; `chain` is a hub behind a hub, over HTTP in the legacy era, on
stdio in the modern one), by a client of which era, to which workshop. What was seen is compared with
`expected.py`, payloads and order, one feature at a time.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from tests.interop.grid import expected
from tests.interop.grid.feature_checks import LEGACY, MODERN
from tests.interop.grid.workshops import WORKSHOPS, Workshop
from tests.interop.python_client import DEPRECATED

pytestmark = pytest.mark.filterwarnings(DEPRECATED)


class Row(NamedTuple):
    front: str
    client: str
    workshop: Workshop
    client_sdk: str = "python"
    """The SDK of the client."""

    @property
    def id(self) -> str:
        era = "modern" if self.client == MODERN else "legacy"
        return f"{self.front}-{self.client_sdk}-{era}-to-{self.workshop.name}"


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


class RowResults(NamedTuple):
    row: Row
    features: dict[str, Any]

    @property
    def room(self) -> str:
        return f"memo://{self.row.workshop.name}"

    def get_feature(self, feature: str) -> Any:
        found = self.features[feature]
        if isinstance(found, Exception):
            raise found
        assert "failed" not in found, found["failed"]
        return found

    def in_sdk_form(self, wanted: Any) -> Any:
        """In the form of this SDK: Node.js has no tuples, and reports progress only if it is requested."""
        if self.row.client_sdk == "python":
            return wanted
        return json.loads(json.dumps(without_progress(wanted)))


def without_progress(wanted: Any) -> Any:
    if isinstance(wanted, dict):
        return {key: without_progress(value) for key, value in wanted.items()}
    if isinstance(wanted, list):
        return [value for value in wanted if not (isinstance(value, tuple) and value[0] == "progress")]
    return wanted


@pytest.fixture(scope="module", params=[pytest.param(row, id=row.id) for row in ROWS])
def results(request: pytest.FixtureRequest, feature_results: Callable[..., dict[str, Any]]) -> RowResults:
    row: Row = request.param
    features = feature_results(*row)
    assert features["version"] == row.client
    return RowResults(row, features)


def test_tools(results: RowResults) -> None:
    found = results.get_feature("tools")
    # Entries that other runs have added follow.
    assert found | {"names": found["names"][: len(expected.NAMES)]} == expected.tools(results.room)


def test_structured_results(results: RowResults) -> None:
    eras = {results.row.client, results.row.workshop.era, LEGACY if results.row.front == "chain-legacy" else MODERN}
    wanted = expected.structured(is_bare=eras == {MODERN})
    assert results.get_feature("structured results") == results.in_sdk_form(wanted)


def test_progress(results: RowResults) -> None:
    assert [
        tuple(event) if isinstance(event, list) else event for event in results.get_feature("progress")
    ] == expected.PROGRESS


def test_cancellation(results: RowResults) -> None:
    found = results.get_feature("cancellation")
    assert [line.split()[0] for line in found["journal"]] == ["called", "started", "cancelled"]
    assert found["was_cancelled"] is True
    assert found["afterwards"] == "still there"


def test_logs(results: RowResults) -> None:
    assert results.get_feature("logs") == results.in_sdk_form(expected.logs())


def test_elicitation(results: RowResults) -> None:
    found = results.get_feature("elicitation")
    assert found["accepted"] == results.in_sdk_form(expected.ACCEPTED)
    assert found["declined"] == results.in_sdk_form(expected.DECLINED)
    assert ("rounds" in found) is (results.row.client == MODERN and results.row.client_sdk == "python")
    if "rounds" in found:
        first, second, last, forged = found["rounds"]
        assert [first[:2], second[:2], last] == expected.ROUNDS
        states = {first[2], second[2]}
        if results.row.front == "direct":
            assert states == {"who", "sure Ada"}
        else:
            assert not states & {"who", "sure Ada"}
            assert forged == -32602


def test_sampling(results: RowResults) -> None:
    assert results.get_feature("sampling") == results.in_sdk_form(expected.SAMPLING)


def test_resources_with_subscriptions(results: RowResults) -> None:
    assert results.get_feature("resources") == expected.resources(results.room, results.row.client)


def test_prompts(results: RowResults) -> None:
    assert results.get_feature("prompts") == results.in_sdk_form(expected.PROMPTS)


def test_completion(results: RowResults) -> None:
    assert results.get_feature("completion") == expected.COMPLETION


def test_list_changes(results: RowResults) -> None:
    assert results.get_feature("list changes") == expected.CHANGES
