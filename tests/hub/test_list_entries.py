"""The `_meta` that a hub adds to entries."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from hubbub import HubbubDeprecationWarning
from hubbub.hub.list_entries import EntryMeta, passed_through
from hubbub.hub.snapshot import Entry


def make_entry(meta: Any) -> Entry:
    return Entry("a", {"_meta": Raw(msgspec.json.encode(meta))})


def assert_key_is_read(key: str) -> None:
    assert passed_through(make_entry({key: ["one", "two"]}), "two")
    assert not passed_through(make_entry({key: ["one", "two"]}), "three")
    assert not passed_through(make_entry({key: "three"}), "three")


def test_a_hub_recognises_its_own_entries() -> None:
    assert_key_is_read("dev.hubbub/hubs")


def test_the_former_key_is_read_with_a_deprecation_warning() -> None:
    with pytest.warns(HubbubDeprecationWarning, match=r"'hubbub/hubs' is deprecated.*0\.2\.0.*'dev\.hubbub/hubs'"):
        assert_key_is_read("hubbub/hubs")


def test_the_list_of_hubs_is_merged_with_the_former_key() -> None:
    given_meta = {"dev.hubbub/hubs": ["new"], "hubbub/hubs": ["new", "old"], "example.com/x": 1}
    meta = msgspec.json.decode(EntryMeta(Raw(b'"s"'), "this").add_to(Raw(msgspec.json.encode(given_meta))))
    assert meta["dev.hubbub/hubs"] == meta["hubbub/hubs"] == ["new", "old", "this"]
    assert meta["dev.hubbub/server"] == meta["hubbub/server"] == "s"
    assert meta["example.com/x"] == 1
