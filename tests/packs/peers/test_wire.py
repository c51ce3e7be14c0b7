"""Frames and envelopes: round trips, and arbitrary input."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs.peers.payload_strategies import KINDS, json_values, payloads

from hubbub.packs.peers import limits, wire
from hubbub.packs.peers.errors import WireError
from hubbub.packs.peers.js_json import JsonError, stringify


def envelope(**changes: Any) -> dict[str, Any]:
    plain = {
        "__vdo_mcp": wire.ENVELOPE_MARK,
        "kind": "sync.heartbeat",
        "ts": 1700000000000,
        "nonce": "p_00000000",
        "room": "r",
        "from_stream_id": "a",
        "payload": {"room": "r", "stream_id": "a"},
    }
    return plain | changes


def test_an_envelope_round_trips_through_a_frame() -> None:
    text = (
        '{"kind":"file.ack","ts":1,"nonce":"n","room":"r","from_stream_id":"é",'
        '"payload":{"transfer_id":"t","seq":1,"next_seq":2}}'
    )
    frame = wire.read_frame(wire.envelope_frame(text, "00ff"))
    assert isinstance(frame, wire.Pipe)
    read = wire.read_envelope(frame.data)
    assert read is not None
    assert (read.mac, read.signed_text) == ("00ff", text)
    assert read.read_payload() == wire.FileAck(transfer_id="t", seq=1, next_seq=2)


@given(data=json_values)
def test_data_round_trips_through_a_frame(data: Any) -> None:
    frame = wire.read_frame(wire.pipe_frame(data))
    assert isinstance(frame, wire.Pipe)
    assert stringify(frame.data) == stringify(data)


@pytest.mark.parametrize("struct", wire.Payload.__subclasses__(), ids=lambda struct: struct.kind)
def test_null_fields_count_as_missing(struct: type[wire.Payload]) -> None:
    """A VDO.Ninja bridge writes `null` for a missing text."""
    fields = msgspec.structs.fields(struct)
    needed = {field.name: 1 if "int" in str(field.type) else "t" for field in fields if field.required}
    nulls = dict.fromkeys(field.name for field in fields if not field.required)
    short = wire.read_envelope(envelope(kind=struct.kind, payload=needed))
    full = wire.read_envelope(envelope(kind=struct.kind, payload={**needed, **nulls}))
    assert short is not None
    assert full is not None
    assert full.read_payload() == short.read_payload()


@settings(max_examples=300)
@given(kind=st.sampled_from(KINDS), payload=payloads)
def test_a_payload_of_any_kind_is_read_or_refused(kind: str, payload: dict[str, Any]) -> None:
    read = wire.read_envelope(envelope(kind=kind, payload=payload))
    assert read is not None
    try:
        struct = read.read_payload()
    except WireError:
        return
    assert struct.kind == kind
    msgspec.json.encode(struct)


@given(changes=st.dictionaries(st.sampled_from([*envelope(), "mac", "more"]), json_values, max_size=4))
def test_a_damaged_envelope_is_read_refused_or_treated_as_data(changes: dict[str, Any]) -> None:
    data = envelope() | changes
    try:
        read = wire.read_envelope(data)
    except WireError:
        assert data["__vdo_mcp"] == wire.ENVELOPE_MARK
        return
    assert (read is None) == (data["__vdo_mcp"] != wire.ENVELOPE_MARK)
    if read is not None:
        assert read.signed_text


@given(text=st.text(max_size=40) | json_values.map(json.dumps))
def test_arbitrary_text_is_a_frame_or_refused(text: str) -> None:
    try:
        wire.read_frame(text)
    except WireError:
        pass


@pytest.mark.parametrize("text", ["", "x", "[]", "1", "null", '"pipe"', '{"pipe":', "{" * 9999, '{"pipe":NaN}'])
def test_invalid_frames_are_refused(text: str) -> None:
    with pytest.raises(WireError):
        wire.read_frame(text)


def test_a_frame_too_large_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(WireError, match="large"):
        wire.read_frame('{"pipe":"' + "x" * limits.PEER_FRAME_BYTES + '"}')


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"description": 1, "pipe": 1}, "description"),
        ({"candidates": []}, "candidates"),
        ({"audio": False, "video": False, "info": {}}, "media"),
        ({"info": {}}, "info"),
        ({"ping": 1}, "ping"),
        ({"pong": 1}, "pong"),
        ({"bye": True}, "bye"),
        ({"iceRestartRequest": True}, "restart"),
        ({"whatever": 1}, "other"),
    ],
)
def test_control_messages_are_classified(fields: dict[str, Any], kind: str) -> None:
    frame = wire.read_frame(json.dumps(fields))
    assert isinstance(frame, wire.Control)
    assert frame.kind == kind


@pytest.mark.parametrize("data", [0, "", False, None, 0.0, {"type": "subscribe"}, {"type": "response", "x": 1}])
def test_data_that_a_vdo_bridge_drops_is_recognised(data: Any) -> None:
    assert wire.vdo_bridge_drops(data)


@pytest.mark.parametrize("data", [1, "0", True, [], {}, {"type": "chat"}, [0], {"type": ["subscribe"]}])
def test_data_that_a_vdo_bridge_delivers_is_recognised(data: Any) -> None:
    assert not wire.vdo_bridge_drops(data)


def test_an_unknown_kind_of_envelope_is_marked() -> None:
    read = wire.read_envelope(envelope(kind="file.explode"))
    assert read is not None
    assert not read.is_known
    with pytest.raises(WireError, match="unknown kind"):
        read.read_payload()


def test_values_outside_json_cannot_be_sent() -> None:
    with pytest.raises(JsonError):
        wire.pipe_frame({"x": b"bytes"})
