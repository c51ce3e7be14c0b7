"""kill -9 at two hundred random moments under load: no acknowledged write is lost, and the database opens."""

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.packs.tabletop.keepers import stored

from hubbub.packs.tabletop.backend import every

WRITERS = Path(__file__).with_name("writers.py")
KILLS = 200
KILLERS = 4


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="writers are forked")
@pytest.mark.timeout(120)
def test_no_acknowledged_write_is_lost(database_url: str) -> None:
    killers = [
        subprocess.Popen(
            [sys.executable, str(WRITERS), database_url, str(KILLS // KILLERS), str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(KILLERS)
    ]
    acknowledged: set[str] = set()
    for killer in killers:
        told, problem = killer.communicate(timeout=90)
        assert killer.returncode == 0, problem
        acknowledged.update(told.split())
    assert len(acknowledged) > KILLS, "there was no load to speak of"
    asyncio.run(_check(database_url, acknowledged))


async def _check(url: str, acknowledged: set[str]) -> None:
    async with asyncio.timeout(60), stored(url) as backend:
        found = set()
        async for campaign in every(backend.list_campaigns, 500):
            found.add(campaign.id)
            people = [person.id async for person in every(partial(backend.list_participants, campaign.id))]
            assert campaign.participant_count == len(people), "a transaction was kept by half"
            found.update(f"{campaign.id}/{person}" for person in people)
            assert await backend.verify_events(campaign.id) is None
        assert not acknowledged - found
