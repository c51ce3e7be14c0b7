"""Whom to ask for a connection, as the signalling server tells who is there."""

from __future__ import annotations

import pytest

from hubbub.packs.peers import limits
from hubbub.packs.peers.finder import Finder
from hubbub.packs.peers.names import WireNames
from hubbub.packs.peers.signalling import Listing, Member


async def test_newcomers_are_noted_however_many_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SIGNAL_CLIENTS", 10)
    names = WireNames(None)
    finder = Finder(names, "ann", None, has=lambda _: True)
    finder.entered(Listing(()))
    for number in range(50):
        finder.came(Member(f"u{number}", names.stream(f"bob{number}")))
    assert finder.stream_of("u49") == "bob49"
    assert finder.holders["bob49"] == "u49"
    assert finder.stream_of("u0") is None
    assert len(finder.holders) == 10
    finder.close()
