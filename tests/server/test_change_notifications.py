"""Unrequested change notifications on connections that may use any era."""

import asyncio
import json
from typing import Any

import pytest
from tests.server.raw_transport import RawTransport

from hubbub import Server

INITIALIZE = {"method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}}}
MODERN = {
    "method": "tools/list",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
PLAIN = {"method": "ping"}


@pytest.mark.parametrize(
    ("spoken", "is_notified"),
    [
        ([], True),
        ([PLAIN], True),
        ([INITIALIZE], True),
        ([MODERN], False),
        ([PLAIN, MODERN], False),
        ([MODERN, PLAIN], False),
        ([INITIALIZE, MODERN], True),
        ([MODERN, INITIALIZE], True),
    ],
)
def test_a_modern_only_client_gets_no_unrequested_notifications(
    spoken: list[dict[str, Any]], is_notified: bool
) -> None:
    async def scenario() -> None:
        server = Server("changing")
        async with server.running(), RawTransport(server) as link:
            for identifier, message in enumerate(spoken):
                link.send(json.dumps({"jsonrpc": "2.0", "id": identifier, **message}).encode())
                await link.receive()
            server.tool(name="late", description="Registered late.")(lambda: "late")
            assert link.pending_count() == int(is_notified)

    asyncio.run(scenario())
