"""The minimal cost of storing a campaign: `sqlite3`, one row and one commit, with our durability settings.

Started with the path of a database. For each line on stdin, a number of seconds, it inserts for
so long and prints the time that each insert took, as JSON.
"""

import json
import sqlite3
import sys
import time

ROW = ("The Lost Expedition", "HUMAN", "A dark fantasy in a cursed forest")


def main() -> None:
    """Answer until stdin ends."""
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS bare (id TEXT PRIMARY KEY, name TEXT, gm_mode TEXT, theme TEXT)")
    for line in sys.stdin:
        print(json.dumps(insert_for(connection, float(line))), flush=True)


def insert_for(connection: sqlite3.Connection, seconds: float) -> list[float]:
    """Insert repeatedly and return the duration of each insert."""
    times, end = [], time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO bare VALUES (lower(hex(randomblob(16))), ?, ?, ?)", ROW)
        connection.execute("COMMIT")
        times.append(time.perf_counter() - start)
    return times


main()
