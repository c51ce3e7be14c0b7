"""Links that install with one click hold the entry of their client."""

import json
from base64 import b64decode
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from hubbub import SettingsError
from hubbub.install.entries import ServerEntry
from hubbub.install.links import make_cursor_badge, make_cursor_link, make_vscode_badge, make_vscode_link

LOCAL = ServerEntry(name="hub", command=("/a b/python", "-m", "hubbub"))
REMOTE = ServerEntry(name="hub", url="https://h.example/mcp?a=1&b=2", key_variable="KEY")


def read_cursor(link: str) -> tuple[str, object]:
    query = parse_qs(urlsplit(link).query, strict_parsing=True)
    return query["name"][0], json.loads(b64decode(query["config"][0]))


def test_a_link_for_cursor() -> None:
    entry = {"command": "/a b/python", "args": ["-m", "hubbub"]}
    assert read_cursor(make_cursor_link(LOCAL)) == ("hub", entry)
    assert make_cursor_link(LOCAL).startswith("cursor://anysphere.cursor-deeplink/mcp/install?")
    badge = make_cursor_badge(REMOTE)
    assert badge.startswith("[![Add to Cursor](https://")
    link = badge.rpartition("](")[2].removesuffix(")")
    headers = {"Authorization": "Bearer ${env:KEY}"}
    assert read_cursor(link) == ("hub", {"url": REMOTE.url, "headers": headers})


def test_a_link_for_vscode() -> None:
    prefix, _, config = make_vscode_link(LOCAL).partition("?")
    assert prefix == "vscode:mcp/install"
    assert json.loads(unquote(config)) == {
        "name": "hub", "type": "stdio", "command": "/a b/python", "args": ["-m", "hubbub"]
    }  # fmt: skip
    link = make_vscode_badge(REMOTE).rpartition("](")[2].removesuffix(")")
    (target,) = parse_qs(urlsplit(link).query)["url"]
    assert target == make_vscode_link(REMOTE)


def test_a_link_that_cursor_would_refuse() -> None:
    with pytest.raises(SettingsError, match="Cursor accepts at most 8000"):
        make_cursor_link(ServerEntry(name="hub", command=("x" * 8000,)))
