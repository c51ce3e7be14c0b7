"""A caller that obeys the protocol, beside callers that break it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.clock import wait_until
from tests.http.raw_http import RawConnection
from tests.wire.recording_server import RecordingServer, run_recording_server


@asynccontextmanager
async def run_with_caller(**limits: Any) -> AsyncIterator[tuple[RecordingServer, RawConnection]]:
    """Run a server with one caller that obeys the protocol; at the end, it must be the only one left."""
    async with run_recording_server(**limits) as server:
        async with server.site.connect() as other:
            await check_caller(other)
            tasks = len(asyncio.all_tasks())
            yield server, other
            await check_caller(other)
            await wait_until(lambda: server.connections == 1, lambda: server.connections)
            await wait_until(lambda: len(asyncio.all_tasks()) <= tasks)
        await wait_until(lambda: server.connections == 0, lambda: server.connections)


async def check_caller(other: RawConnection) -> None:
    """Check that the connection that was there first still gets its answers."""
    await other.send_request("POST", "/other", body=b"hello")
    answer = await other.read_response()
    assert (answer.status, answer.body) == (200, b"5 of /other\n")
