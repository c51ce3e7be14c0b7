"""Shared state converges despite loss, reordering and partitions."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clock import measure_cpu_s

from hubbub import ArgumentsInvalid
from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import StateFull
from hubbub.packs.peers.shared_state import Entry, SharedState

keys = st.sampled_from(["a", "b", "c"])
json_values = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3) | st.lists(st.integers(0, 2), max_size=2)
)
STATES = 4
"""Number of states; two of them have the same actor, as after a restart without saved state."""
NAMES = ("ann", "bob", "bob", "zoë")

steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, STATES - 1), keys, json_values),
        st.tuples(st.just("delete"), st.integers(0, STATES - 1), keys),
        # Delivers the n-th sent entry, possibly again; entries that are never picked are lost.
        st.tuples(st.just("deliver"), st.integers(0, STATES - 1), st.integers(0, 50)),
        st.tuples(st.just("snapshot"), st.integers(0, STATES - 1), st.integers(0, STATES - 1)),
    ),
    max_size=40,
)


def make_states() -> list[SharedState]:
    return [SharedState(name, now=lambda: "now") for name in NAMES]


def run(states: list[SharedState], script: list[Any]) -> None:
    sent: list[Entry] = []
    for step in script:
        match step:
            case ("set", end, key, value):
                sent.append(states[end].set(key, value))
            case ("delete", end, key):
                deletion = states[end].delete(key)
                sent += [] if deletion is None else [deletion]
                assert states[end].get(key) is None
            case ("deliver", end, number) if sent:
                states[end].apply(sent[number % len(sent)])
            case ("snapshot", giver, taker):
                states[taker].merge(states[giver].entries_and_deletions, states[giver].actor_clock)


@given(script=steps)
def test_states_converge_after_reordering_loss_and_partition(script: list[Any]) -> None:
    states = make_states()
    run(states, script)
    # Snapshots along a line and back reach all states, although the first and last never exchange any.
    for left, right in [(0, 1), (1, 2), (2, 3), (3, 2), (2, 1), (1, 0)]:
        states[right].merge(states[left].entries_and_deletions)
    assert len({state.digest for state in states}) == 1
    assert all(state.entries == states[0].entries for state in states)
    assert all(state.entries_and_deletions == states[0].entries_and_deletions for state in states)


@given(script=steps, end=st.integers(0, STATES - 1), key=keys, value=json_values)
def test_a_write_wins_over_every_entry_its_writer_has_seen(script: list[Any], end: int, key: str, value: Any) -> None:
    states = make_states()
    run(states, script)
    written = states[end].set(key, value)
    seen = [state.get(key) for state in states if state.digest == states[end].digest]
    assert all(entry is None or not entry.is_later(written) for entry in seen)
    assert states[end].get(key) == written


@given(script=steps)
def test_digests_are_equal_exactly_if_the_entries_are(script: list[Any]) -> None:
    states = make_states()
    run(states, script)
    contents = [[(e.key, e.clock, e.actor, repr(e.value)) for e in state.entries] for state in states]
    for left in range(STATES):
        for right in range(STATES):
            assert (contents[left] == contents[right]) == (states[left].digest == states[right].digest)


def test_a_later_write_wins_where_the_vdo_bridge_diverges() -> None:
    ann, bob = SharedState("ann"), SharedState("bob")
    for number in range(6):
        bob.apply(ann.set("k", number))
    later = bob.set("k", "later")
    assert later.clock == 7
    assert ann.apply(later) == later
    assert ann.get("k") == bob.get("k") == later


def test_with_equal_clocks_the_greater_actor_by_utf16_code_units_wins() -> None:
    state = SharedState("me")
    # U+FF41 is the smaller code point but the greater first code unit.
    assert state.apply({"key": "k", "value": 1, "actor": "\uff41", "clock": 1})
    assert state.apply({"key": "k", "value": 2, "actor": "\U0001f600", "clock": 1}) is None
    assert state.apply({"key": "k", "value": 3, "actor": "\uff42", "clock": 1})


def test_a_refused_entry_still_advances_the_clock() -> None:
    state = SharedState("me", max_keys=1)
    state.set("k", 1)
    assert state.apply({"key": "third", "value": 1, "actor": "a", "clock": 1})
    assert state.apply({"key": "other", "value": 1, "actor": "a", "clock": 9}) is None
    assert state.set("k", 2).clock == 10


def test_a_snapshot_advances_the_clock_by_its_actor_clock() -> None:
    state = SharedState("me")
    state.merge([], {"a": 41, "b": "many", "c": True, "d": -1, "e": 2**60})
    assert state.set("k", 1).clock == 42


def test_a_full_state_refuses_new_keys_and_accepts_changes() -> None:
    state = SharedState("me", max_keys=2)
    state.set("a", 1)
    state.set("b", 1)
    with pytest.raises(StateFull, match="2 keys"):
        state.set("c", 1)
    assert state.apply({"key": "c", "value": 1, "actor": "x", "clock": 5}, "x")
    assert state.apply({"key": "d", "value": 1, "actor": "x", "clock": 5}, "x") is None
    assert state.ignored == 1
    assert state.apply({"key": "a", "value": 2, "actor": "x", "clock": 6}, "x")
    assert len(state) == 3


@pytest.mark.parametrize("key", ["", "  ", "k" * (limits.STATE_KEY_CHARACTERS + 1)])
def test_blank_and_long_keys_are_refused(key: str) -> None:
    state = SharedState("me")
    with pytest.raises(ArgumentsInvalid, match="invalid key"):
        state.set(key, 1)
    assert state.apply({"key": key, "value": 1, "actor": "a", "clock": 1}) is None


@given(
    fields=st.dictionaries(
        st.sampled_from(["key", "value", "actor", "clock", "updated_at", "deleted"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.none(), max_size=2),
    )
)
def test_arbitrary_fields_are_an_entry_or_ignored(fields: dict[str, Any]) -> None:
    state = SharedState("me")
    taken = state.apply(fields)
    assert len(state) == (taken is not None)
    assert state.merge([fields, None, 3, "x", [fields]]) == []
    assert 0 < state.set("k", 1).clock <= limits.STATE_CLOCK_MAX + 1


# -- malicious peers -------------------------------------------------------------------------


def test_clocks_too_far_ahead_are_ignored() -> None:
    now = 1_800_000_000.0
    state = SharedState("me", unix_time=lambda: now)
    ceiling = int(now * 1000) + limits.STATE_CLOCK_AHEAD_MS
    for clock in (ceiling + 1, limits.STATE_CLOCK_MAX, 2**60):
        assert state.apply({"key": "k", "value": 1, "actor": "eve", "clock": clock}) is None
        state.merge([], {"eve": clock})
    assert state.set("k", 1).clock == 1
    assert state.apply({"key": "k", "value": 2, "actor": "eve", "clock": ceiling})
    assert state.set("k", 3).clock == ceiling + 1


def test_states_converge_after_a_peer_advanced_the_clock_to_the_limit() -> None:
    moments = {"ann": 1_800_000_000.0, "bob": 1_799_999_990.0}  # Bob's clock is ten seconds behind.
    ann, bob = (SharedState(name, unix_time=partial(moments.__getitem__, name)) for name in ("ann", "bob"))
    pushed = {"key": "k", "value": "eve", "actor": "eve", "clock": 1_800_000_000_000 + limits.STATE_CLOCK_AHEAD_MS}
    assert ann.apply(pushed)
    assert bob.apply(pushed) is None  # Still too far ahead for Bob.
    written = ann.set("k", "ann")
    bob.merge([{"key": "k", "value": "ann", "actor": "ann", "clock": written.clock, "updated_at": ""}])
    moments["bob"] += 11
    bob.merge([{"key": "k", "value": "ann", "actor": "ann", "clock": written.clock, "updated_at": ""}])
    assert ann.digest == bob.digest
    assert bob.set("k", "bob").clock == written.clock + 1


def test_entries_of_peers_are_limited_in_bytes() -> None:
    state = SharedState("me", max_keys=50_000, max_bytes=100_000)
    for number in range(1000):
        entry = {"key": f"k{number}", "value": "x" * 1000, "actor": "eve", "clock": 1, "updated_at": "y" * 10_000}
        state.apply(entry, "eve")
    assert 90 <= len(state) <= 100
    assert state.ignored == 1000 - len(state)
    assert all(len(entry.updated_at) <= 40 for entry in state.entries)
    for number in range(12):
        assert state.set(f"mine{number}", "x" * 1000).value == "x" * 1000
    with pytest.raises(StateFull, match="bytes"):
        state.set("too large", "x" * 4000)
    assert state.set("k1", "small").value == "small"


def fill(state: SharedState, source: str, count: int = 3000) -> int:
    offered = [{"key": f"{source} {n}", "value": n, "actor": source, "clock": 1} for n in range(count)]
    return len(state.merge(offered, None, source))


def test_a_peer_that_uses_its_key_limit_leaves_room_for_others() -> None:
    state = SharedState("me")
    assert fill(state, "eve") == limits.STATE_KEYS
    assert fill(state, "bob", 100) == 100
    for number in range(100):
        state.set(f"mine {number}", number)
    assert fill(state, "eve") == 0


def test_entries_of_other_actors_count_for_the_peer_that_sends_them() -> None:
    state = SharedState("me")
    offered = [{"key": str(n), "value": n, "actor": f"actor {n}", "clock": 1} for n in range(3000)]
    assert len(state.merge(offered, None, "eve")) == limits.STATE_KEYS
    assert fill(state, "bob", 100) == 100


def test_bytes_of_a_grown_value_count_for_the_peer_that_changed_it() -> None:
    state = SharedState("me", max_bytes=100_000)
    assert fill(state, "bob", 500) == 500
    larger = [{"key": f"bob {n}", "value": "x" * 1000, "actor": "eve", "clock": 2} for n in range(500)]
    assert 90 <= len(state.merge(larger, None, "eve")) < 100
    assert state.apply({"key": "bob 499", "value": "y" * 1000, "actor": "bob", "clock": 3}, "bob")


def test_a_key_counts_for_its_creator_after_another_peer_changes_it() -> None:
    state = SharedState("me")
    assert fill(state, "eve") == limits.STATE_KEYS
    assert state.apply({"key": "eve 0", "value": "x", "actor": "zoe", "clock": 2}, "bob")
    assert state.apply({"key": "one more", "value": 1, "actor": "eve", "clock": 3}, "eve") is None
    assert fill(state, "bob", 100) == 100


def test_a_deleted_key_frees_its_place_and_stays_deleted() -> None:
    state, other = SharedState("me", max_keys=2), SharedState("you")
    for key in "ab":
        other.apply(state.set(key, key))
    deletion = state.delete("a")
    assert deletion is not None
    assert (deletion.value, deletion.deleted, state.delete("a"), state.get("a")) == (None, True, None, None)
    assert state.set("c", 1).value == 1
    assert (
        state.merge(other.entries, other.actor_clock) == []
    )  # A peer that missed the deletion does not restore the key.
    assert other.apply(deletion) == deletion
    assert other.apply(deletion) is None
    assert [entry.key for entry in other.entries] == ["b"]
    written = other.set("a", "again")
    assert state.delete("c")
    assert state.apply(written) == written


def test_a_deletion_relayed_as_null_by_an_old_peer_stays_a_deletion() -> None:
    ann, old, bob = SharedState("ann"), SharedState("old"), SharedState("bob")
    old.apply(ann.set("k", 1))
    deletion = ann.delete("k")
    assert deletion is not None
    null = {"key": "k", "value": None, "actor": "ann", "clock": deletion.clock, "updated_at": ""}
    assert old.apply(null)
    bob.merge(old.entries)
    assert ann.merge(old.entries) == []
    assert bob.get("k") is not None
    bob.merge(ann.entries_and_deletions)
    assert (bob.get("k"), bob.digest) == (None, ann.digest)


def test_deletions_of_peers_are_limited_and_take_no_key_places() -> None:
    state = SharedState("me", max_keys=10)
    for number in range(2 * limits.STATE_DELETED_KEYS):
        gone = {"key": f"k{number}", "value": "x" * 1000, "actor": "eve", "clock": 1, "deleted": True}
        assert state.apply(gone, "eve") is None
    assert len(state) == 0
    assert len(state.entries_and_deletions) == limits.STATE_DELETED_KEYS
    assert all(entry.value is None for entry in state.entries_and_deletions)
    assert fill(state, "eve") == 10


def test_a_value_must_fit_into_a_frame() -> None:
    state = SharedState("me")
    with pytest.raises(ArgumentsInvalid, match="invalid value"):
        state.set("k", "x" * limits.STATE_ENTRY_BYTES)
    entry = {"key": "k", "value": "x" * limits.STATE_ENTRY_BYTES, "actor": "a", "clock": 1}
    assert state.apply(entry) is None


def test_the_cost_of_a_digest_does_not_grow_with_the_entries() -> None:
    def cost_s(entries: int) -> float:
        state = SharedState("me", max_keys=50_000)
        for number in range(entries):
            state.set(f"k{number}", "x" * 5000)

        def change() -> None:
            for number in range(100):
                state.set("k0", number)
                assert state.digest

        return measure_cpu_s(change)

    assert cost_s(2000) < 10 * cost_s(20)  # Hashing all entries each time would take a hundred times as long.
