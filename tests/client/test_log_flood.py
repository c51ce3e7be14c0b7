"""A server that sends without end does not fill the log."""

import asyncio
from typing import Any

import pytest
from tests.client.harness import assert_no_leaks, stdio_config
from tests.clock import wait_until

from hubbub import Client, bounds

COUNT = 2000
PROGRAM = f"""
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "initialize":
        result = {{"protocolVersion": "2025-11-25", "capabilities": {{}}, "serverInfo": {{"name": "x"}}}}
        print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], "result": result}}), flush=True)
    elif request["method"] == "ping":
        for number in range({COUNT}):
            print(json.dumps({{"jsonrpc": "2.0", "id": number, "method": "roots/list"}}))
        print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], "result": {{}}}}), flush=True)
"""


async def test_dropped_server_requests_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    may_answer, received = asyncio.Event(), []

    async def roots() -> list[Any]:
        received.append(1)
        await may_answer.wait()
        return []

    async with (
        assert_no_leaks(),
        Client(stdio_config("-c", PROGRAM, protocol_version="2025-11-25"), roots=roots) as client,
    ):
        await client.ping()
        await wait_until(lambda: len(received) == bounds.PENDING_REQUESTS)
        may_answer.set()
    dropped = [record for record in caplog.records if "a request of a server was dropped" in record.message]
    assert 0 < len(dropped) <= bounds.LOG_LINES


LOGS = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    for params in (7, [], {}, {"level": 7}, {"level": "info", "data": "sound"}):
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params}), flush=True)
    if "id" in request:
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


async def test_an_invalid_log_message_is_dropped_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    log_messages: list[Any] = []
    config = stdio_config("-c", LOGS, protocol_version="2025-11-25")
    async with assert_no_leaks(), Client(config, on_log=log_messages.append) as client:
        await client.ping()
    assert {line.data for line in log_messages} == {"sound"}
    assert not [record for record in caplog.records if record.exc_info]
