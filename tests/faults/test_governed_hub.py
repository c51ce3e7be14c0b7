"""A hub that many people share keeps its promises when it is killed and when its disk is full.

No call runs without its record, the journal stays valid, and other services go on.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import run

import pytest
from tests.faults.governed_hub import GovernedHub, digest, error_text, governed_hub, texts
from tests.faults.hub_harness import wait_until

from hubbub.governance.journal_verification import verify

KILLS = int(os.environ.get("HUB_KILLS", "20"))
"""20 in the suite; 200 by hand."""
KILLS_PER_TEST = 10
LANES = 2
"""Hubs that are killed at the same time, each with its own journal."""
WORKERS = 8
MAX_REPLIES = 60
"""After a random number of replies up to this one, the hub is killed."""


# -- kill -9 --------------------------------------------------------------------------


async def load_until_killed(hub: GovernedHub, prefix: str, replies: int, choices: random.Random) -> set[str]:
    """Send calls until the hub was killed after so many replies; return the ids of the calls that were answered."""
    answered: set[str] = set()
    process = hub.process
    assert process is not None

    async def work(worker: int) -> None:
        number = 0
        while True:
            number += 1
            id = f"{prefix}-{worker}-{number}"
            key = (hub.ada, hub.bob)[worker % 2]
            try:
                answer = await hub.call(key, "record", id=id)
            except (OSError, EOFError, ValueError):
                return  # killed
            assert texts(answer) == id
            answered.add(id)
            if len(answered) == replies:
                asyncio.get_running_loop().call_later(choices.random() / 100, process.kill)

    await asyncio.gather(*(work(worker) for worker in range(WORKERS)))
    return answered


async def kill_repeatedly(hub: GovernedHub, lane: str, kills: int) -> set[str]:
    """Kill the hub under load, start it again, and verify the journal each time; return the ids that were answered."""
    choices = random.Random(lane)
    answered: set[str] = set()
    for number in range(kills):
        async with hub.serving_in_thread():
            answered |= await load_until_killed(hub, f"{lane}{number}", choices.randint(1, MAX_REPLIES), choices)
        report = verify(hub.audit)
        assert report.holds, report
    return answered


@pytest.mark.parametrize("part", range(KILLS // KILLS_PER_TEST))
async def test_no_call_runs_without_its_record_when_the_hub_is_killed(tmp_path: Path, part: int) -> None:
    kills = KILLS_PER_TEST // LANES
    with governed_hub(tmp_path) as first:
        lanes = [first, *(first.beside(tmp_path / f"lane{number}") for number in range(1, LANES))]
        answers = await asyncio.gather(
            *(kill_repeatedly(hub, f"part{part}-lane{number}-", kills) for number, hub in enumerate(lanes))
        )
        executed = first.executed()
        assert len(executed) == len(set(executed)), "a call was executed twice"
        assert len(executed) >= KILLS_PER_TEST
        recorded: Counter[str] = Counter()
        for hub, answered in zip(lanes, answers, strict=True):
            with hub.serving():  # recovers after the last kill
                assert texts(await hub.call(hub.ada, "record", id=f"end of {hub.folder.name}"))
            report = hub.verify()
            assert report.returncode == 0, report
            decisions = hub.records("decision")
            assert len({record["call"] for record in decisions}) == len(decisions), "a record was written twice"
            assert {record["decision"]["effect"] for record in decisions} == {"allow"}
            recorded.update(record["args_sha256"] for record in decisions)
            starts = hub.records("journal.started")
            assert len(starts) == kills + 1
            assert answered <= set(executed)
        assert set(recorded.values()) == {1}
        for id in executed:
            assert recorded[digest({"id": id})] == 1, f"{id} was executed without a record"


# -- full disk ------------------------------------------------------------------------


@contextmanager
def small_disk(path: Path, kib: int) -> Iterator[Path]:
    """Mount a small file system, which needs root."""
    path.mkdir(mode=0o700)
    if os.geteuid() != 0:
        pytest.skip("a small file system can only be mounted by root")
    mounted = run(
        ["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=0700", "tmpfs", str(path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield path
    finally:
        run(["umount", "-l", str(path)], check=True)


def fill(disk: Path) -> Path:
    """Use up the space of a file system."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast


@pytest.mark.parametrize("on_failure", ["refuse", "continue"])
async def test_a_full_disk_stops_calls_or_not_as_the_settings_say_and_is_recovered_from(
    tmp_path: Path, on_failure: str
) -> None:
    with (
        small_disk(tmp_path / "disk", 256) as disk,
        governed_hub(tmp_path, audit=f'on_failure = "{on_failure}"') as hub,
    ):
        hub.audit = disk / "audit"
        hub.write_config(audit=f'on_failure = "{on_failure}"')
        with hub.serving():
            assert texts(await hub.call(hub.ada, "record", id="before")) == "before"
            ballast = fill(disk)
            during = [await hub.call(hub.ada, "record", id=f"during-{number}" + "x" * 200) for number in range(30)]
            refused = [answer for answer in during if b"audit" in answer.body and b"during" not in answer.body]
            executed = hub.executed()
            if on_failure == "refuse":
                assert refused
                assert "audit_unavailable" in error_text(refused[-1])
                assert during[-1] is refused[-1], "it goes on refusing"
            else:
                assert not refused
            assert len(executed) == 1 + len(during) - len(refused)
            # What records nothing goes on, for everyone.
            assert "record" in await hub.tool_names(hub.bob)
            assert (await hub.request(hub.bob, "server/discover")).status == 200
            assert not (await hub.administer("hub.status")).get("isError")
            await hub.wait_for_log("audit_journal_failed")
            ballast.unlink()

            async def works_again() -> bool:
                return "result" in (answer := (await hub.call(hub.bob, "record", id="after")).json) and not answer[
                    "result"
                ].get("isError")

            while not await works_again():
                await asyncio.sleep(0.05)
            if on_failure == "continue":
                await wait_until(lambda: len(hub.records("decision")) >= len(hub.executed()))
        recorded = {record["args_sha256"] for record in hub.records("decision")}
        for id in hub.executed():
            assert digest({"id": id}) in recorded, id
        if on_failure == "refuse":
            gaps = [record["facts"] for record in hub.records("journal.gap")]
            assert sum(gap["refused"] for gap in gaps) >= len(refused)
        report = hub.verify()
        assert report.returncode == 0, report
