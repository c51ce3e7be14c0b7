"""Hash chains: verification and detection of changes."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import InvalidParams
from hubbub.pack.store import GENESIS, Chain, link
from hubbub.store.hash_chain import check_line, link_line

values = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(codec="utf-8"))
records = st.lists(st.dictionaries(st.sampled_from(["a", "b", "type"]), values), min_size=1, max_size=6)


def make_chain(given_records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    entries, head = [], GENESIS
    for record in given_records:
        entries.append(link(record, head))
        head = entries[-1]["hash"]
    return entries


@given(records)
def test_an_unchanged_chain_is_valid(given_records: list[dict[str, Any]]) -> None:
    chain = Chain()
    assert all(chain.holds(entry) for entry in make_chain(given_records))


@given(records, st.data())
def test_any_change_breaks_the_chain_at_its_position(given_records: list[dict[str, Any]], data: st.DataObject) -> None:
    entries = make_chain(given_records)
    at = data.draw(st.integers(0, len(entries) - 1))
    changed = {**entries[at], data.draw(st.sampled_from([*entries[at], "new"])): "changed"}
    chain = Chain()
    assert all(chain.holds(entry) for entry in entries[:at])
    assert not chain.holds(changed)


def test_the_hash_is_reproducible_with_hashlib_alone() -> None:
    entry = link({"b": 1, "a": "é"}, GENESIS)
    text = f'{{"a":"é","b":1,"previous_hash":"{GENESIS}"}}'
    assert entry["hash"] == hashlib.sha256(text.encode()).hexdigest()


def test_a_missing_entry_breaks_the_chain() -> None:
    first, second, third = make_chain([{"n": 1}, {"n": 2}, {"n": 3}])
    chain = Chain()
    assert chain.holds(first)
    assert not chain.holds(third)
    assert chain.holds(second)


def test_a_record_without_a_canonical_form_is_refused() -> None:
    with pytest.raises(InvalidParams):
        link({"n": float("nan")}, GENESIS)


def test_a_line_has_the_hash_of_its_own_bytes() -> None:
    line, digest = link_line(b'"a":1', GENESIS)
    start = f'{{"a":1,"previous_hash":"{GENESIS}"'
    assert line.decode() == f'{start},"hash":"{digest}"}}\n'
    assert digest == hashlib.sha256(f"{start}}}".encode()).hexdigest()
    assert check_line(line) == digest


@given(st.data())
def test_a_changed_byte_of_a_line_is_found(data: st.DataObject) -> None:
    line, digest = link_line(b'"a":"text"', GENESIS)
    at = data.draw(st.integers(0, len(line) - 1))
    changed = line[:at] + bytes([data.draw(st.integers(0, 255))]) + line[at + 1 :]
    assert (check_line(changed) == digest) == (changed == line)
    assert check_line(line[:at]) is None
