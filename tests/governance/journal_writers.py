"""Kills a process that records at random moments: `python journal_writers.py FOLDER KILLS SEED SYNC`.

Imports everything once and forks, because a new interpreter would spend more time on imports than on writing. Each
child has several callers and small segments, and reports each acknowledged record. Prints the acknowledged numbers.
"""

import asyncio
import os
import random
import select
import signal
import sys
import time
from itertools import count
from pathlib import Path

from tests.governance.journals import call_event, open_journal

from hubbub.governance.journal_verification import verify

CALLERS = 8
MAX_WRITES = 40
"""Maximum number of acknowledged records before the writer is killed."""
MAX_WAIT_S = 0.01
"""Maximum time after the last of them: long enough for a few groups, so that the kill hits any step."""
HANG_TIMEOUT_S = 60


async def write(folder: Path, pipe: int, first: int, sync: str) -> None:
    numbers = count(first)

    async def call() -> None:
        while True:
            number = next(numbers)
            await journal.record(call_event(number))
            os.write(pipe, f"{number}\n".encode())
            journal.record_later(call_event(number, event="call.end"))

    async with open_journal(folder, sync=sync, segment_bytes=16384, head_interval_s=0.01) as journal:
        await asyncio.gather(*(call() for _ in range(CALLERS)))


def kill_one(folder: Path, first: int, sync: str, rng: random.Random) -> list[str]:
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        try:
            asyncio.run(write(folder, sink, first, sync))
        finally:
            os._exit(1)
    os.close(sink)
    output = b""
    writes = rng.randint(0, MAX_WRITES)
    while output.count(b"\n") < writes:
        assert select.select([source], [], [], HANG_TIMEOUT_S)[0], "the writer hangs"
        output += os.read(source, 65536)
    time.sleep(rng.uniform(0, MAX_WAIT_S))
    os.kill(child, signal.SIGKILL)
    while chunk := os.read(source, 65536):
        output += chunk
    os.close(source)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), "the writer ended by itself"
    return output.decode().split()


def main() -> None:
    folder, kills, seed, sync = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    for kill in range(kills):
        acknowledged = kill_one(folder, kill * 1_000_000, sync, rng)
        report = verify(folder)
        assert report.holds, report.bad
        print(" ".join(acknowledged))


main()
