"""One run of fuzzing: a target, a seed, a number of inputs. The same three give the same inputs."""

import asyncio
from random import Random

from tests.fuzz.endpoints import ENDPOINTS
from tests.fuzz.parsers import PARSERS
from tests.fuzz.processes import PROCESSES

TARGETS = (*PARSERS, *ENDPOINTS, *PROCESSES)


def run(target: str, seed: int, count: int) -> None:
    """Send this number of inputs; an AssertionError or any other exception is a defect."""
    rng = Random(f"{target} {seed}")
    if target not in PARSERS:
        asyncio.run({**ENDPOINTS, **PROCESSES}[target](rng, count))
        return
    for number in range(count):
        try:
            PARSERS[target](rng)
        except Exception as error:
            error.add_note(f"input {number} of target {target}, seed {seed}")
            raise
