"""The lock file of approved definitions: digests, reading, writing."""

import json
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hubbub.errors import SettingsError
from hubbub.governance import definition_lock
from hubbub.governance.definition_lock import (
    DefinitionLock,
    LockEntry,
    encode_lock,
    parse_lock,
    read_lock,
    write_lock,
)
from hubbub.governance.definitions import DefinitionKey, definition_digest, parse_definition

KEY = DefinitionKey("files", "tool", "read_file")
DEFINITION = {"name": "read_file", "description": "Reads a file.", "inputSchema": {"type": "object"}}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
definitions = st.dictionaries(texts.filter(lambda name: name != "_meta"), values, max_size=5)


def make_entry(definition: dict[str, Any] = DEFINITION, key: DefinitionKey = KEY) -> LockEntry:
    return LockEntry(key, definition_digest(definition), definition, "ada", "2026-01-02T03:04:05Z")


def as_members(text: str) -> dict[str, Raw]:
    return msgspec.json.decode(text, type=dict[str, Raw])


def read_digest(text: str) -> str:
    found = parse_definition(as_members(text))
    assert found is not None
    return definition_digest(found)


def reorder(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: reorder(value[name]) for name in reversed(value)}
    return [reorder(item) for item in value] if isinstance(value, list) else value


# -- digests -------------------------------------------------------------------------


@given(definitions)
def test_the_digest_depends_neither_on_order_nor_on_spelling(definition: dict[str, Any]) -> None:
    compact = json.dumps(definition, separators=(",", ":"))
    spelled = json.dumps(reorder(definition), indent=3, ensure_ascii=False)
    assert read_digest(compact) == read_digest(spelled) == definition_digest(definition)


@given(definitions, texts.filter(lambda name: name != "_meta"), values)
def test_the_digest_changes_with_any_member(definition: dict[str, Any], name: str, value: Any) -> None:
    changed = {**definition, name: value}
    is_same = name in definition and json.dumps(definition[name], sort_keys=True) == json.dumps(value, sort_keys=True)
    is_same_number = (
        name in definition
        and not isinstance(value, bool | dict | list)
        and not isinstance(definition[name], bool)
        and definition[name] == value
    )
    if not is_same and not is_same_number and not isinstance(value, dict | list):
        assert definition_digest(changed) != definition_digest(definition)


def test_large_integers_have_digests_of_their_own() -> None:
    def digest(number: int | str) -> str:
        return read_digest(f'{{"name": "n", "inputSchema": {{"maximum": {number}}}}}')

    assert len({digest(number) for number in (2**53, 2**53 + 1, 2**64, 2**64 + 1, "1e20", 1, '"1"', "true")}) == 8
    assert digest(1) == digest("1.0")


def test_metadata_of_the_moment_is_not_pinned_but_user_interfaces_are() -> None:
    plain = read_digest('{"name": "a"}')
    assert read_digest('{"name": "a", "_meta": {"hubbub/server": "x", "listed_at": 3}}') == plain
    assert read_digest('{"name": "a", "_meta": 3}') == plain
    one = read_digest('{"name": "a", "_meta": {"ui": {"resourceUri": "ui://one"}, "n": 1}}')
    other = read_digest('{"name": "a", "_meta": {"ui": {"resourceUri": "ui://two"}, "n": 1}}')
    assert len({plain, one, other}) == 3


def test_a_definition_that_cannot_be_written_is_none() -> None:
    assert parse_definition({"name": Raw(b'"\\ud800"')}) is None
    assert parse_definition({"name": Raw(b'{"a": 1e999}')}) is None


# -- the file ------------------------------------------------------------------------


@given(st.lists(st.tuples(texts, texts, definitions), max_size=4))
def test_a_lock_is_read_as_it_was_written(rows: list[tuple[str, str, dict[str, Any]]]) -> None:
    lock = DefinitionLock(make_entry(found, DefinitionKey(server, "tool", name)) for server, name, found in rows)
    data = encode_lock(lock)
    read = parse_lock(data, "file")
    assert read.entries == lock.entries
    assert encode_lock(DefinitionLock(list(read.entries.values())[::-1])) == data, "the order is stable"


def test_hidden_characters_are_visible_in_the_file() -> None:
    definition = {"name": "a", "description": "Grüße \u202e\u200b\U000e0041\x1b"}
    text = encode_lock(DefinitionLock([make_entry(definition)])).decode()
    assert "Grüße \\u202e\\u200b\\udb40\\udc41\\u001b" in text
    assert parse_lock(text.encode(), "file").entries[KEY].definition == definition


def make_file(**changes: Any) -> bytes:
    entry = {**KEY._asdict(), "sha256": definition_digest(DEFINITION), "definition": DEFINITION} | changes
    return json.dumps({"version": 1, "definitions": [{k: v for k, v in entry.items() if v is not None}]}).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{\n  "version": 1,\n  "definitions": [oops]\n}', "line 3: invalid JSON"),
        (b'{\n"version": 1,\n"definitions": ["\xff"]}', "line 3: not UTF-8"),
        (b'{"version": 2, "definitions": []}', '"version": 1'),
        (b"[]", '"version": 1'),
        (b'{"version": 1, "definitions": {}}', "an array"),
        (b'{"version": 1, "definitions": [], "more": 1}', "no others"),
        (b'{"version": 1, "version": 1, "definitions": []}', "'version' occurs twice"),
        (b'{"version": 1, "definitions": [3]}', "definitions[0]: expected an object"),
        (b'{"version": 1, "definitions": [NaN]}', "NaN"),
        (b"[" * 100_000, "nested too deep"),
        (make_file(sha256="0" * 64), "definitions[0] (files: tool 'read_file'): 'sha256' does not match"),
        (make_file(sha256="ABC"), "64 characters"),
        (make_file(definition={"name": "other"}), "does not match the definition"),
        (make_file(definition={"name": "\ud800"}), "does not match the definition"),
        (make_file(kind="tol"), "unknown kind 'tol'"),
        (make_file(kind="instructions"), "instructions are named"),
        (make_file(name=None), "'name' is missing"),
        (make_file(server=3), "'server' must be a string"),
        (make_file(extra="x"), "unknown member 'extra'"),
        (make_file().replace(b'"kind"', b'"kind": "tool", "kind"'), "in the entry of 'files' 'read_file'"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(data: bytes, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_lock(data, "hubbub.lock")
    assert caught.value.message.startswith("hubbub.lock")
    assert message in caught.value.message


def test_a_second_entry_of_a_definition_is_refused() -> None:
    document = json.loads(make_file())
    document["definitions"] *= 2
    with pytest.raises(SettingsError, match=r"definitions\[1\].*second entry"):
        parse_lock(json.dumps(document).encode(), "hubbub.lock")


def test_a_file_of_too_many_bytes_or_entries_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "hubbub.lock"
    path.write_bytes(make_file())
    monkeypatch.setattr(definition_lock, "MAX_LOCK_ENTRIES", 0)
    with pytest.raises(SettingsError, match="1 definitions"):
        read_lock(path)
    with pytest.raises(SettingsError, match="exceed the limits"):
        write_lock(path, DefinitionLock([make_entry()]))
    monkeypatch.setattr(definition_lock, "MAX_LOCK_BYTES", 10)
    with pytest.raises(SettingsError, match="larger than 10 bytes"):
        read_lock(path)
    assert path.read_bytes() == make_file()


@given(st.binary(max_size=200))
def test_any_bytes_are_a_lock_or_a_settings_error(data: bytes) -> None:
    with suppress(SettingsError):
        parse_lock(data, "file")


def test_writing_keeps_the_mode_and_the_link_and_leaves_no_other_file(tmp_path: Path) -> None:
    real = tmp_path / "real.lock"
    real.write_text("old")
    real.chmod(0o640)
    link = tmp_path / "hubbub.lock"
    link.symlink_to(real)
    (tmp_path / ".real.lock.0123abcd.tmp").write_text("of a process that was killed")
    write_lock(link, DefinitionLock([make_entry()]))
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hubbub.lock", "real.lock"]
    found = read_lock(link)
    assert found is not None
    assert list(found.entries) == [KEY]


def test_a_folder_that_cannot_be_written_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"missing/hubbub\.lock cannot be written: No such file"):
        write_lock(tmp_path / "missing" / "hubbub.lock", DefinitionLock())


def test_a_missing_file_is_none(tmp_path: Path) -> None:
    assert read_lock(tmp_path / "hubbub.lock") is None


WRITER = """
import sys
from contextlib import suppress
from pathlib import Path
from hubbub.governance.definition_lock import DefinitionLock, LockEntry, write_lock
from hubbub.governance.definitions import DefinitionKey, definition_digest

number = 0
while True:
    number += 1
    definition = {"name": "t", "description": f"{number} " * 20_000}
    entry = LockEntry(DefinitionKey("s", "tool", "t"), definition_digest(definition), definition)
    write_lock(Path(sys.argv[1]), DefinitionLock([entry]))
    print(number, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process")
def test_a_process_that_is_killed_while_it_writes_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.lock"
    for round_number in range(5):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(round_number + 1):
                assert writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
        found = read_lock(path)
        assert found is not None
        assert len(found.entries) == 1
    write_lock(path, DefinitionLock([make_entry()]))
    assert [path.name for path in tmp_path.iterdir()] == ["hubbub.lock"], "what killed writers left is removed"
