"""Arguments of `vdo_connect` can tighten the operator's security settings, but not loosen them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.packs.peers.callers import connected_caller

from hubbub import ArgumentsInvalid, Secret, ToolFailure
from hubbub.packs.peers.arguments import Arguments
from hubbub.packs.peers.session_options import CONNECT_FIELDS
from hubbub.packs.peers.session_security import SessionSecurity, read_security
from hubbub.packs.peers.settings import PeersSettings

NAMES = st.sampled_from(["ann", "bob", "carol", "b-o-b", "é"])
ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.lists(st.text(max_size=3)))
FLAGS = st.one_of(ANYTHING, st.sampled_from(["yes", "off", "1", "FALSE", " on "]))
GIVEN = st.fixed_dictionaries(
    {},
    optional={
        "enforce_join_token": FLAGS,
        "require_session_mac": FLAGS,
        "allow_peer_stream_ids": st.one_of(ANYTHING, st.lists(NAMES), st.just("ann,bob")),
        "join_token_secret": st.one_of(st.none(), st.sampled_from(["", " ", "sek", "old", "mine"])),
    },
)


def read(settings: PeersSettings, secrets: tuple[str, ...] = ("sek", "old"), **given: Any) -> SessionSecurity:
    return read_security(Arguments("vdo_connect", given, CONNECT_FIELDS), settings, secrets)


@given(st.booleans(), st.booleans(), st.lists(st.sampled_from(["ann", "bob"])), GIVEN)
def test_arguments_never_loosen_the_security_settings(
    is_enforcing: bool, needs_mac: bool, allowed: list[str], given: dict[str, Any]
) -> None:
    settings = PeersSettings(
        join_token_secret=Secret("sek"),
        join_token_old_secrets=(Secret("old"),),
        enforce_join_token=is_enforcing,
        require_session_mac=needs_mac,
        allow_peer_stream_ids=tuple(allowed),
    )
    try:
        found = read(settings, **given)
    except ToolFailure:
        return
    assert found.enforce_join_token >= is_enforcing
    assert found.require_session_mac >= needs_mac
    if allowed:
        assert found.allow_peer_stream_ids
        assert set(found.allow_peer_stream_ids) <= set(allowed)
    if is_enforcing:
        assert set(found.secrets) <= {"sek", "old"}
        assert found.secrets


STRICT = PeersSettings(
    join_token_secret=Secret("sek"),
    enforce_join_token=True,
    require_session_mac=True,
    allow_peer_stream_ids=("ann", "b-ob"),
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"enforce_join_token": False}, "invalid enforce_join_token: the operator of this server has turned it on"),
        ({"require_session_mac": "off"}, "invalid require_session_mac: the operator of this server has turned it on"),
        ({"allow_peer_stream_ids": []}, "invalid allow_peer_stream_ids: an empty list allows every peer"),
        ({"allow_peer_stream_ids": ["ann", "eve"]}, "invalid allow_peer_stream_ids: the operator of this server does "),
        ({"join_token_secret": "mine"}, "invalid join_token_secret: the operator of this server requires"),
        ({"enforce_join_token": "perhaps"}, "invalid enforce_join_token: it must be true or false"),
    ],
)  # fmt: skip
def test_an_argument_that_loosens_security_is_refused_with_advice(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentsInvalid) as refusal:
        read(STRICT, **given)
    assert refusal.value.message.startswith(message)


def test_an_argument_that_keeps_or_tightens_security_is_accepted() -> None:
    same = read(STRICT, enforce_join_token=True, require_session_mac=True, join_token_secret="sek")
    assert same == read(STRICT) == read(STRICT, allow_peer_stream_ids=None, join_token_secret="")
    assert read(STRICT, allow_peer_stream_ids=["ann"]).allow_peer_stream_ids == ("ann",)
    open_to_all = PeersSettings()
    found = read(open_to_all, (), enforce_join_token="yes", join_token_secret="mine", allow_peer_stream_ids=["x"])
    assert found == SessionSecurity(secrets=("mine",), enforce_join_token=True, allow_peer_stream_ids=("x",))
    assert read(open_to_all, (), enforce_join_token=False, allow_peer_stream_ids=[]) == SessionSecurity()


async def test_the_schema_defaults_are_the_security_settings() -> None:
    settings: dict[str, Any] = {name: getattr(STRICT, name) for name in STRICT.__struct_fields__}
    async with connected_caller(**settings) as ann:
        (tool,) = [tool for tool in ann.server.tools if tool.name == "vdo_connect"]
        fields = tool.input_schema["properties"]
        assert fields["enforce_join_token"]["default"] is fields["require_session_mac"]["default"] is True
        assert fields["allow_peer_stream_ids"]["default"] == ["ann", "b_ob"]
        error = await ann.failure("vdo_connect", room="hall", enforce_join_token=False)
        assert error["type"] == "validation_error"
