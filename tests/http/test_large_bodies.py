"""Large requests on a connection that is used again."""

import json

from tests.http.in_process_server import run_server
from tests.http.raw_http import JSON, call

BODY_BYTES = 100_000
"""More than is read before the endpoint asks for a body, and less than arrives at once."""


async def test_a_connection_serves_further_requests_after_large_ones() -> None:
    body = json.dumps(call("echo", {"text": "x" * BODY_BYTES})).encode()
    async with run_server() as running, running.site.connect() as link:
        for _ in range(20):
            await link.send_request("POST", "/mcp", JSON, body)
            assert (await link.read_response()).status == 200
