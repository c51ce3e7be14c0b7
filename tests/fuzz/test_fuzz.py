"""About a minute of seeded fuzzing on one core; `python -m tests.fuzz` runs longer, with other seeds."""

import pytest
from tests.fuzz.runs import TARGETS, run

COUNTS = {
    "envelope": 20_000,
    "framing": 8_000,
    "events": 5_000,
    "headers": 20_000,
    "memory": 6_000,
    "http": 8_000,
    "websocket": 7_000,
    "sockets": 700,
    "stdio": 4_000,
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("target", TARGETS)
def test_mutated_input_causes_no_crash_and_gets_valid_responses(target: str, seed: int) -> None:
    run(target, seed, COUNTS[target])
