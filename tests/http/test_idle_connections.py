"""Ten thousand idle connections to one server process."""

import resource
import sys
from pathlib import Path

import pytest
from tests.clock import wait_until
from tests.http.connection_holder import hold_connections
from tests.http.raw_http import call
from tests.http.server_process import PLAYGROUND, ServerProcess, memory_mib

CONNECTIONS = 10_000
WARM_UP_CONNECTIONS = 300
"""Opened and closed before, so that what is allocated once does not count."""
MAX_CONNECTION_KIB = 6.0
"""Resident memory of one idle connection; measured: 3.0 KiB."""
HARD_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs other loopback addresses and /proc"),
    pytest.mark.skipif(
        HARD_LIMIT != resource.RLIM_INFINITY and HARD_LIMIT < CONNECTIONS + 300,
        reason=f"10,300 open files are needed, and the hard limit is {HARD_LIMIT} (ulimit -Hn)",
    ),
]


def count_files(process: ServerProcess) -> int:
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))


async def test_ten_thousand_idle_connections_use_little_memory_and_leave_room_for_others() -> None:
    with ServerProcess(str(PLAYGROUND), "--idle-s", "3600") as process:

        async def check_caller() -> None:
            answer = await process.site.post(call("echo", {"text": "x"}))
            assert (answer.status, b"x" in answer.body) == (200, True)

        await check_caller()
        before = count_files(process)
        with hold_connections(process.site.port, WARM_UP_CONNECTIONS):
            await check_caller()
        await wait_until(lambda: count_files(process) <= before)
        idle_mib = memory_mib(process)
        with hold_connections(process.site.port, CONNECTIONS):
            await check_caller()
            assert count_files(process) >= CONNECTIONS
            assert (memory_mib(process) - idle_mib) * 1024 / CONNECTIONS <= MAX_CONNECTION_KIB
        await wait_until(lambda: count_files(process) <= before)
        await check_caller()
    assert "Traceback" not in "".join(process.stderr_lines)
