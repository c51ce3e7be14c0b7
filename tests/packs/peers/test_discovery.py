"""Which peers are offered a connection, given the list of the signalling server."""

from __future__ import annotations

import pytest

from hubbub.packs.peers import limits
from hubbub.packs.peers.discovery import Discovery
from hubbub.packs.peers.names import WireNames
from hubbub.packs.peers.signalling import Listing, Member


async def test_new_members_are_recorded_and_the_oldest_dropped_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SIGNAL_CLIENTS", 10)
    names = WireNames(None)
    finder = Discovery(names, "ann", None, has_stream=lambda _: True)
    finder.handle_listing(Listing(()))
    for number in range(50):
        finder.handle_member(Member(f"u{number}", names.wire_stream_id(f"bob{number}")))
    assert finder.stream_id_at("u49") == "bob49"
    assert finder.addresses["bob49"] == "u49"
    assert finder.stream_id_at("u0") is None
    assert len(finder.addresses) == 10
    finder.close()
