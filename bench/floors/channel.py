"""What two programs with a channel between them share: descriptions over stdin and stdout, one JSON line each.

python -m bench.floors.raw_channel offer 20000000    sends, and tells how long it took
python -m bench.floors.raw_channel answer 20000000   takes
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any


def write_json(**fields: Any) -> None:
    """Say something to whoever started this."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


async def read_json() -> dict[str, Any]:
    """What they say next."""
    line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    message: dict[str, Any] = json.loads(line)
    return message
