"""A server that hubs start in tests: returns its process id, and works until a file appears.

python worker.py NAME
"""

import asyncio
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from hubbub import Context, Server, run

NAME = sys.argv[1] if len(sys.argv) > 1 else "worker"
server = Server(NAME)


@server.tool(name=f"{NAME}_who")
async def who() -> str:
    """Tell which process this is, and what it was given."""
    return f"{NAME} {os.getpid()} {os.environ.get('GREETING', '')}"


@server.tool(name=f"{NAME}_story")
async def story(length: int) -> str:
    """Tell a story of so many letters."""
    return "".join(f"{word} " for word in range(length))[:length]


@dataclass
class Name:
    name: str


@server.tool(name=f"{NAME}_greet")
async def greet(context: Context) -> str:
    """Ask for a name, and say hello from this process."""
    answer = await context.elicit("Who are you?", Name)
    return f"hello {answer.content.name if answer.content else 'nobody'} from {os.getpid()}"


@server.tool(name=f"{NAME}_work")
async def work(started: str, until: str) -> str:
    """Make one file, wait for another."""
    Path(started).touch()
    while not Path(until).exists():
        await asyncio.sleep(0.01)
    return f"{NAME} {os.getpid()} is done"


if __name__ == "__main__":
    time.sleep(float(os.environ.get("SLOW_START_S", "0")))
    run(server)
