"""Exchange of session descriptions for programs with a channel: one JSON line each over stdin and stdout.

python -m bench.floors.raw_channel offer 20000000    sends, and prints the duration
python -m bench.floors.raw_channel answer 20000000   receives
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any


def write_json(**fields: Any) -> None:
    """Write a line to stdout."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


async def read_json() -> dict[str, Any]:
    """Read the next line from stdin."""
    line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    message: dict[str, Any] = json.loads(line)
    return message
