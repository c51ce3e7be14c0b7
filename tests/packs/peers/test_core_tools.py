"""The nine tools that every profile has, over real connections."""

from __future__ import annotations

import pytest
from tests.packs.peers.callers import calling, in_the_hall
from tests.packs.peers.rooms import signalling


async def test_two_agents_exchange_a_message() -> None:
    async with signalling() as host, in_the_hall(host, "ann", "bob") as (ann, bob):
        sent = await ann.call("vdo_send", data={"n": [1, None, "é"]}, target="bob")
        assert sent == {
            "ok": True,
            "session_id": ann.session_id,
            "used_target": await ann.uuid("bob"),
            "sent_count": 1,
        }
        event = await bob.event("data_received")
        assert event.pop("ts").endswith("Z")
        assert event == {
            "type": "data_received",
            "uuid": await bob.uuid("ann"),
            "streamID": "ann",
            "fallback": False,
            "data": {"n": [1, None, "é"]},
            "binaryBase64": None,
        }
