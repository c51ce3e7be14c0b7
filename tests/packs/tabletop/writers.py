"""Kills writers of campaigns at random moments: `python writers.py URL KILLS SEED`.

Imports everything once and forks, because a new interpreter would spend more time on imports than
on writing. Each child writes campaigns as fast as it can and reports each acknowledged write.
Prints the ids of all acknowledged records; none may be missing afterwards.
"""

import asyncio
import os
import random
import select
import signal
import sys
import time

from hubbub.packs.tabletop import sql
from hubbub.packs.tabletop.model import GmMode, Role
from hubbub.packs.tabletop.store_backend import StoreBackend
from hubbub.store import migrate

MAX_WRITES = 3
"""Maximum number of acknowledged writes before a writer is killed."""
MAX_WAIT_S = 0.03
"""Maximum time after the last of them: long enough for a few more writes, so that the kill hits any step."""
HANG_TIMEOUT_S = 60


async def write(url: str, pipe: int) -> None:
    backend = StoreBackend(url)
    while True:
        campaign = await backend.create_campaign("under fire", GmMode.AI)
        os.write(pipe, f"{campaign.id}\n".encode())
        person = await backend.create_participant(campaign.id, "P", Role.PLAYER)
        os.write(pipe, f"{campaign.id}/{person.id}\n".encode())


def kill_one(url: str, writes: int, wait_s: float) -> str:
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        try:
            asyncio.run(write(url, sink))
        finally:
            os._exit(1)
    os.close(sink)
    output = b""
    while output.count(b"\n") < writes:
        assert select.select([source], [], [], HANG_TIMEOUT_S)[0], "the writer hangs"
        output += os.read(source, 65536)
    time.sleep(wait_s)
    os.kill(child, signal.SIGKILL)
    while chunk := os.read(source, 65536):
        output += chunk
    os.close(source)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), "the writer ended by itself"
    return output.decode()


def main() -> None:
    url, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    assert [getattr(sql, module) for module in sql.__all__]
    assert migrate.__all__
    if url.startswith("postgresql"):
        import asyncpg  # noqa: F401
    rng = random.Random(seed)
    for _ in range(kills):
        sys.stdout.write(kill_one(url, rng.randint(0, MAX_WRITES), rng.uniform(0, MAX_WAIT_S)))


main()
