"""Kill writers at random moments: no acknowledged write is lost, and the database opens."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hubbub.pack.store import Connection, open_database, read_url, select
from hubbub.packs.tabletop.sql.events import find_first_break
from hubbub.packs.tabletop.sql.tables import SCHEMA, campaigns, participants

WRITERS = Path(__file__).with_name("writers.py")
KILLS = 200
KILLERS = 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forked")
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
        output, problem = killer.communicate()
        assert killer.returncode == 0, problem
        acknowledged.update(output.split())
    assert len(acknowledged) > KILLS, "too few writes to test anything"
    asyncio.run(_check(database_url, acknowledged))


async def _check(url: str, acknowledged: set[str]) -> None:
    database = await open_database(read_url(url), SCHEMA)
    found = await database.read(_read_all_ids)
    await database.close()
    assert not acknowledged - found


def _read_all_ids(connection: Connection) -> set[str]:
    people = connection.execute(select(participants.c.campaign_id, participants.c.id)).all()
    counts = Counter(person.campaign_id for person in people)
    found = {f"{person.campaign_id}/{person.id}" for person in people}
    for campaign in connection.execute(select(campaigns)).all():
        assert campaign.participant_count == counts[campaign.id], "a transaction was written partially"
        assert find_first_break(connection, campaign.id) is None
        found.add(campaign.id)
    return found
