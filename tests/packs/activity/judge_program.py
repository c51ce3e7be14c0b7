"""Runs in ActivityWatch's own Python: answers each line of JSON with the result of aw-core or aw-client.

Imports nothing from Hubbub, which is not installed there. Started by `judge`.
"""

import json
import logging
import sys
from datetime import datetime, timedelta
from typing import Any


def flood(asked: dict[str, Any]) -> Any:
    from aw_core import Event
    from aw_transform import flood

    events = [
        Event(timestamp=datetime.fromisoformat(start), duration=timedelta(seconds=seconds), data=data)
        for start, seconds, data in asked["events"]
    ]
    return [
        [event.timestamp.isoformat(), event.duration.total_seconds(), event.data]
        for event in flood(events, asked["pulse_s"])
    ]


def canonical_query(asked: dict[str, Any]) -> str:
    """Return the text of ActivityWatch's canonical query, which sets `events` and `not_afk`."""
    from aw_client.queries import DesktopQueryParams, canonicalEvents

    nothing = [(["None"], {"type": "none"})]  # without classes it would request them from a server
    params = DesktopQueryParams(
        bid_window=asked["window"], bid_afk=asked["afk"], bid_browsers=asked["web"], classes=nothing
    )
    return str(canonicalEvents(params))


def browser_names(_: dict[str, Any]) -> Any:
    from aw_client.queries import browser_appnames

    return browser_appnames


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps(globals()[question["ask"]](question)), flush=True)
