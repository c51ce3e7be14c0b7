"""Hypothesis strategies for payloads of envelopes: known field names with arbitrary JSON values."""

from __future__ import annotations

from hypothesis import strategies as st

from hubbub.packs.peers import wire

KINDS = sorted(wire.PAYLOAD_TYPES)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({name for struct in wire.PAYLOAD_TYPES.values() for name in struct.__struct_fields__})
payloads = st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=6)
