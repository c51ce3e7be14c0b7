"""`hubbub key`: keys that `hubbub serve --key-file` then accepts."""

import asyncio
from pathlib import Path

import pytest

from hubbub.cli.main import main
from hubbub.protocol.http_headers import Headers
from hubbub.security.api_keys import ApiKeys, read_records


def test_an_added_key_is_accepted_and_its_file_has_only_the_hash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = tmp_path / "keys.toml"
    assert main(["key", "add", "alice", "--key-file", str(keys), "--scope", "read", "--days", "3"]) == 0
    key = capsys.readouterr().out.strip()
    assert key.startswith("hb_")
    assert key not in keys.read_text()
    principal = asyncio.run(ApiKeys(keys)(Headers([(b"x-api-key", key.encode())])))
    assert getattr(principal, "name", None) == "key:alice"
    (record,) = read_records(keys)
    assert record.scopes == ("read",)
    assert record.expires is not None


def test_the_list_of_keys_shows_owners_and_not_the_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = tmp_path / "keys.toml"
    main(["key", "add", "alice", "--key-file", str(keys)])
    key = capsys.readouterr().out.strip()
    assert main(["key", "list", "--key-file", str(keys)]) == 0
    listed = capsys.readouterr().out
    assert listed.split() == ["alice", f"{key[:11]}_…", "no", "expiry"]


def test_a_name_has_one_key_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = tmp_path / "keys.toml"
    main(["key", "add", "alice", "--key-file", str(keys)])
    before = keys.read_text()
    assert main(["key", "add", "alice", "--key-file", str(keys)]) == 2
    assert "already has a key named 'alice'" in capsys.readouterr().err
    assert keys.read_text() == before


def test_keys_are_stored_in_the_file_that_the_settings_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_KEY_FILE", str(tmp_path / "elsewhere.toml"))
    assert main(["key", "add", "bob"]) == 0
    assert [record.name for record in read_records(tmp_path / "elsewhere.toml")] == ["bob"]


def test_a_key_file_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HUBBUB_KEY_FILE", raising=False)
    assert main(["key", "list"]) == 2
    assert "--key-file" in capsys.readouterr().err


def test_a_key_file_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "missing" / "keys.toml"
    assert main(["key", "add", "bob", "--key-file", str(place)]) == 2
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", f"hubbub: {place}: cannot be written: No such file or directory\n")
    assert main(["key", "list", "--key-file", str(place)]) == 2
    assert capsys.readouterr().err == f"hubbub: {place}: cannot be read: No such file or directory\n"
