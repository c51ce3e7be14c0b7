"""Whatever a name or message contains, a record is one safe line of JSON (CWE-117)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.governance.audit_events import MAX_FACTS, MAX_TEXT_CHARACTERS, AuditEvent, encode_event, format_time
from hubbub.governance.decision import PolicyDecision

pytestmark = pytest.mark.requirement("A3")

any_text = st.text(st.characters(codec=None, categories=None), max_size=50)  # with surrogates


def encode(event: AuditEvent) -> bytes:
    return b"{" + encode_event(event, 0) + b"}"


@pytest.mark.parametrize(
    "attack",
    [
        'pay\n{"event":"decision","tenant":"other"}',
        "pay\r\n2026-11-18 INFO all is well",
        "\x1b[2K\x1b[1A\x1b[31mpay",
        "\x9b31mpay",
        "pay\u2028pay\u2029",
        "pay\x00\x7f\x85",
        "\u202eyap\u2066\u200b\ufeff",
        "pay\U000e0041",
        "\ud800pay",
        '","hash":"0","x":"',
    ],
)
def test_no_text_can_break_a_line_or_control_a_terminal(attack: str) -> None:
    decision = PolicyDecision("deny", attack, attack, attack)
    event = AuditEvent(
        event="call.end", tool=attack, server=attack, code=attack, decision=decision, facts={attack: attack}
    )
    line = encode(event).decode()
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    decoded = json.loads(line)
    assert list(decoded) == ["ts", "event", "server", "tool", "decision", "code", "facts"]
    assert decoded["tool"] == attack.encode("utf-8", "backslashreplace").decode()


@given(st.lists(any_text, min_size=8, max_size=8))
def test_every_text_gives_one_line_of_json(texts: list[str]) -> None:
    decision = PolicyDecision("allow", texts[0], texts[1], texts[2])
    event = AuditEvent(
        event=texts[3], tool=texts[4], user=texts[5], decision=decision, facts={texts[6]: texts[7]}, outcome=texts[0]
    )
    line = encode(event).decode()
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert json.loads(line)["event"] == texts[3].encode("utf-8", "backslashreplace").decode()


def test_long_texts_are_cut_and_say_so() -> None:
    long = "x" * 100_000
    event = AuditEvent(
        event="call.end", tool=long, decision=PolicyDecision("deny", "r", long), facts={f"{i}": long for i in range(99)}
    )
    decoded = json.loads(encode(event))
    assert len(decoded["tool"]) == MAX_TEXT_CHARACTERS
    assert decoded["tool"].endswith("(100000 characters)")
    assert len(decoded["decision"]["reason"]) == MAX_TEXT_CHARACTERS
    assert len(decoded["facts"]) == MAX_FACTS


def test_times_are_utc_with_microseconds() -> None:
    assert format_time(1_800_000_000_000_001_999) == "2027-01-15T08:00:00.000001Z"
    assert format_time(1_799_999_999_999_999_999) == "2027-01-15T07:59:59.999999Z"
