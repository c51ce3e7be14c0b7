"""The tools of the shared state, over real connections."""

from __future__ import annotations

from typing import Any

import pytest
from tests.packs.peers.callers import Caller, callers_in_room, connected_caller
from tests.packs.peers.room_agents import signalling
from tests.packs.peers.scripted_peer import ScriptedPeer

from hubbub.packs.peers import limits


async def wait_for_value(caller: Caller, key: str, value: Any) -> None:
    while (await caller.call("vdo_state_get", key=key))["value"] != value:
        await caller.read_events(wait_ms=1000, types=["state_*"])


async def test_a_key_is_written_and_read() -> None:
    async with signalling() as host, callers_in_room(host, "ann", "bob") as (ann, bob):
        result = await ann.call("vdo_state_set", key="plan", value={"step": 1})
        entry = result.pop("entry")
        assert result == {"ok": True, "session_id": ann.session_id}
        assert entry.pop("updated_at").endswith("Z")
        assert entry == {"key": "plan", "value": {"step": 1}, "actor": "ann", "clock": 1}
        await wait_for_value(bob, "plan", {"step": 1})
        later = (await bob.call("vdo_state_set", key="plan", value="done"))["entry"]
        assert later["clock"] == 2
        await wait_for_value(ann, "plan", "done")
        whole = await ann.call("vdo_state_get")
        assert (whole["key"], whole["include_meta"], whole["value"]) == (None, False, {"plan": "done"})
        meta = await ann.call("vdo_state_get", include_meta=True)
        assert meta["value"] == {"entries": [later], "actor_clock": {"bob": 2}}
        assert (await ann.call("vdo_state_get", key="plan", include_meta=True))["value"] == later
        assert (await ann.call("vdo_state_get", key="none"))["value"] is None
        assert (await ann.call("vdo_status"))["state_keys"] == 1


async def test_a_value_can_be_omitted_or_null() -> None:
    async with signalling() as host, connected_caller(host) as ann:
        await ann.connect("ann")
        assert "value" not in (await ann.call("vdo_state_set", key="k"))["entry"]
        assert (await ann.call("vdo_state_set", key="k", value=None))["entry"]["value"] is None
        assert (await ann.call("vdo_state_get"))["value"] == {"k": None}


async def test_state_tools_refuse_invalid_arguments_and_a_full_state() -> None:
    async with signalling() as host, connected_caller(host) as ann:
        await ann.connect("ann", state_max_keys=1)
        for key in (None, "", "  ", 5):
            assert (await ann.failure("vdo_state_set", key=key, value=1))["message"] == "key is required"
        error = await ann.failure("vdo_state_set", key="k", value="x" * limits.STATE_ENTRY_BYTES)
        assert (error["type"], error["message"][:14]) == ("validation_error", "invalid value:")
        await ann.call("vdo_state_set", key="k", value=1)
        error = await ann.failure("vdo_state_set", key="more", value=1)
        advice = "delete some with vdo_state_delete, or connect with a larger state_max_keys"
        assert (error["type"], error["message"]) == ("tool_error", f"the shared state is full: it has 1 keys; {advice}")
        assert (await ann.call("vdo_state_delete", key="k"))["deleted"] is True
        await ann.call("vdo_state_set", key="more", value=1)
        assert (await ann.call("vdo_state_delete", key="k"))["deleted"] is False
        assert (await ann.failure("vdo_state_delete"))["message"] == "key is required"
        error = await ann.failure("vdo_state_sync", mode="guess")
        assert (error["type"], error["message"]) == ("tool_error", "mode must be request or send")
        assert (await ann.failure("vdo_state_get", key=5))["message"] == "key must be a string"


async def test_a_write_can_be_sent_to_one_peer_or_kept_until_sync() -> None:
    async with signalling() as host, callers_in_room(host, "ann", "bob", "carol") as (ann, bob, carol):
        await ann.call("vdo_state_set", key="a", value=1, target="bob", broadcast=False)
        await wait_for_value(bob, "a", 1)
        await ann.call("vdo_state_set", key="b", value=2, broadcast="no")
        assert (await bob.call("vdo_state_get"))["value"] == {"a": 1}
        assert (await carol.call("vdo_state_get"))["value"] == {}
        asked = await carol.call("vdo_state_sync", target="ann")
        assert asked == {
            "ok": True,
            "session_id": carol.session_id,
            "mode": "request",
            "used_target": await carol.uuid("ann"),
        }
        await wait_for_value(carol, "b", 2)
        sent = await ann.call("vdo_state_sync", mode="send")
        assert (sent["ok"], sent["mode"], sent["used_target"]) == (True, "send", None)
        await wait_for_value(bob, "b", 2)


async def test_state_sync_without_peers_is_not_ok() -> None:
    async with signalling() as host, connected_caller(host) as ann:
        await ann.connect("ann")
        for mode in ("request", "send"):
            assert (await ann.call("vdo_state_sync", mode=mode))["ok"] is False
            assert (await ann.call("vdo_state_sync", mode=mode, target="bob"))["used_target"] == "bob"
        assert (await ann.call("vdo_state_set", key="k", value=1))["ok"] is True


async def test_peers_of_a_star_converge_through_its_centre() -> None:
    async with (
        signalling() as host,
        connected_caller(host) as hub,
        connected_caller(host) as left,
        connected_caller(host) as right,
    ):
        await hub.connect("hub", heartbeat_ms=200)
        for leaf, name in ((left, "left"), (right, "right")):
            await leaf.connect(name, target_stream_id="hub", heartbeat_ms=200)
        # Leaves have a target, so only the hub connects to them.
        await left.wait_for_peers("hub")
        await right.wait_for_peers("hub")
        await left.call("vdo_state_set", key="k", value="from the left")
        await wait_for_value(right, "k", "from the left")
        await right.call("vdo_state_set", key="k", value="from the right")
        await wait_for_value(left, "k", "from the right")


async def test_a_returning_peer_gets_missed_writes_and_its_later_write_wins() -> None:
    async with signalling() as host, callers_in_room(host, "ann", "bob", heartbeat_ms=200) as (ann, bob):
        for number in range(5):
            await ann.call("vdo_state_set", key="k", value=number)
        await wait_for_value(bob, "k", 4)
        await bob.call("vdo_disconnect")
        await ann.wait_for_event("peer_disconnected")
        await ann.call("vdo_state_set", key="k", value="while bob was away")
        await bob.connect("bob", heartbeat_ms=200)
        await wait_for_value(bob, "k", "while bob was away")
        assert (await bob.call("vdo_state_set", key="k", value="later"))["entry"]["clock"] == 7
        await wait_for_value(ann, "k", "later")


async def test_a_deletion_reaches_all_peers_and_one_that_returns_later() -> None:
    async with (
        signalling() as host,
        callers_in_room(host, "ann", "bob", "carol", heartbeat_ms=200) as (ann, bob, carol),
    ):
        for key in ("a", "b"):
            await ann.call("vdo_state_set", key=key, value=key)
            await wait_for_value(bob, key, key)
            await wait_for_value(carol, key, key)
        await bob.call("vdo_state_delete", key="a")
        event = await ann.wait_for_event("state_updated", key="a", source="remote")
        assert (event["value"], event["deleted"], event["from_uuid"]) == (None, True, await ann.uuid("bob"))
        assert (await ann.call("vdo_state_get"))["value"] == {"b": "b"}
        await carol.call("vdo_disconnect")
        await ann.wait_for_event("peer_disconnected")
        await ann.call("vdo_state_delete", key="b")
        await carol.connect("carol", heartbeat_ms=200)
        await wait_for_value(carol, "b", None)
        assert (await carol.call("vdo_state_get"))["value"] == {}


async def test_a_peer_that_fills_the_state_leaves_room_for_others() -> None:
    async with (
        signalling() as host,
        callers_in_room(host, "ann", "bob", state_max_keys=50) as (ann, bob),
        ScriptedPeer(host, "eve") as eve,
    ):
        await eve.view("ann")
        eve.send_hello()
        await ann.wait_for_peers("eve")
        entries = [{"key": f"k{n}", "value": n, "actor": f"a{n}", "clock": 1} for n in range(200)]
        snapshot = {"room": "hall", "stream_id": "eve", "entries": entries, "actor_clock": {}}
        eve.send_frame(eve.trust.frame(None, "state.snapshot", snapshot))
        await ann.wait_for_event("state_snapshot_merged", applied=50, offered=200)
        await bob.call("vdo_state_set", key="bob's", value=1)
        await wait_for_value(ann, "bob's", 1)
        await ann.call("vdo_state_set", key="ann's", value=1)


@pytest.mark.parametrize("clock", [2**52, 2**53 - 1, 10**15])
async def test_a_patch_with_a_clock_too_far_ahead_is_ignored(clock: int) -> None:
    async with (
        signalling() as host,
        callers_in_room(host, "ann", "bob") as (ann, bob),
        ScriptedPeer(host, "eve") as eve,
    ):
        await eve.view("ann")
        eve.send_hello()
        await ann.wait_for_peers("eve")
        patch = {"key": "k", "value": "stuck", "actor": "eve", "clock": clock, "updated_at": ""}
        eve.send_frame(eve.trust.frame(None, "state.patch", patch))
        snapshot = {"room": "hall", "stream_id": "eve", "entries": [patch], "actor_clock": {"eve": clock}}
        eve.send_frame(eve.trust.frame(None, "state.snapshot", snapshot))
        await ann.wait_for_event("state_snapshot_merged", applied=0, offered=1)
        assert (await ann.call("vdo_state_set", key="k", value="free"))["entry"]["clock"] == 1
        await wait_for_value(bob, "k", "free")
