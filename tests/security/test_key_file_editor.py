"""Edits of a key file: other keys and comments stay byte by byte, and the file is replaced as a whole."""

import concurrent.futures
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.errors import SettingsError
from hubbub.security.key_file_editor import append_record, revoke_records, rotate_record
from hubbub.security.key_records import KeyRecord, generate_key, read_records

NOW = datetime.now(UTC).replace(microsecond=0)
_posix = pytest.mark.skipif(os.name != "posix", reason="file modes of POSIX")


def record(name: str, version: int = 1, **fields: object) -> KeyRecord:
    return generate_key(name, version=version, **fields)[1]  # type: ignore[arg-type]


def next_version(current: KeyRecord) -> KeyRecord:
    return record(current.name, current.version + 1, tenant=current.tenant)


def rotate(path: Path, name: str, overlap_s: float = 0) -> KeyRecord:
    return rotate_record(path, name, next_version, old_expires=NOW + timedelta(seconds=overlap_s))


COMMENTED = """# keys of the team

# Ada's laptop
[[key]]  # since spring
id = "{a}"
name = "ada"
hash = "sha256:{hash}"
scopes = [
  "x",  # only this
]

# Bob left in May
[[ key ]]
name = "bob"
id = "{b}"
hash = "sha256:{hash}"
expires = 2099-01-01T00:00:00Z  # agreed
# the end
"""


@pytest.fixture
def commented(tmp_path: Path) -> Path:
    path = tmp_path / "keys.toml"
    path.touch(mode=0o600)
    path.write_text(COMMENTED.format(a="a" * 8, b="b" * 8, hash="0" * 64))
    return path


def test_revoking_removes_one_table_and_keeps_every_other_byte(commented: Path) -> None:
    before = commented.read_text()
    revoke_records(commented, "ada")
    start = before.index("[[key]]  # since")
    end = before.index("# Bob left")
    assert commented.read_text() == before[:start] + before[end:]
    assert [key.name for key in read_records(commented)] == ["bob"]


def test_revoking_the_last_key_leaves_the_comments(commented: Path) -> None:
    revoke_records(commented, "ada")
    revoke_records(commented, "bob")
    assert read_records(commented) == []
    assert "# the end" in commented.read_text()


def test_rotating_changes_only_the_expiry_and_appends(commented: Path) -> None:
    before = commented.read_text()
    new = rotate(commented, "bob", 3600)
    after = commented.read_text()
    ends = (NOW + timedelta(hours=1)).isoformat()
    assert after.startswith(before.replace("2099-01-01T00:00:00Z  # agreed", f"{ends}  # agreed"))
    assert [(key.name, key.version) for key in read_records(commented)] == [("ada", 1), ("bob", 1), ("bob", 2)]
    assert read_records(commented)[-1] == new


def test_rotating_a_key_without_expiry_adds_one_below_its_last_value(commented: Path) -> None:
    rotate(commented, "ada")
    assert f"]\nexpires = {NOW.isoformat()}\n\n# Bob left" in commented.read_text()


def test_rotating_never_extends_the_life_of_the_old_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    append_record(path, record("ada", expires=NOW + timedelta(minutes=1)))
    rotate(path, "ada", 3600)
    assert read_records(path)[0].expires == NOW + timedelta(minutes=1)


def test_rotating_again_removes_versions_that_have_expired(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    append_record(path, record("ada"))
    for _ in range(3):
        rotate(path, "ada", -1)
    assert [key.version for key in read_records(path)] == [3, 4]


def test_a_file_with_carriage_returns_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.touch(mode=0o600)
    path.write_bytes(COMMENTED.format(a="a" * 8, b="b" * 8, hash="0" * 64).replace("\n", "\r\n").encode())
    before = path.read_bytes()
    rotate(path, "ada")
    after = path.read_bytes()
    line = f"expires = {NOW.isoformat()}\r\n".encode()
    assert after.startswith(before.replace(b"]\r\n\r\n# Bob", b"]\r\n" + line + b"\r\n# Bob"))
    assert len(read_records(path)) == 3


def test_a_file_without_a_last_line_break_is_extended_correctly(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    append_record(path, record("ada"))
    path.write_text(path.read_text().rstrip("\n"))
    rotate(path, "ada")
    append_record(path, record("bob"))
    assert [key.name for key in read_records(path)] == ["ada", "ada", "bob"]


def test_keys_in_another_form_are_not_edited(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.touch(mode=0o600)
    path.write_text(f'key = [{{id = "{"a" * 8}", name = "ada", hash = "sha256:{"0" * 64}"}}]\n')
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="edit the file by hand"):
        revoke_records(path, "ada")
    with pytest.raises(SettingsError, match="edit the file by hand"):
        append_record(path, record("bob"))
    assert path.read_bytes() == before


def test_a_quoted_expiry_is_not_edited_wrongly(commented: Path) -> None:
    commented.write_text(commented.read_text().replace("expires =", '"expires" ='))
    before = commented.read_bytes()
    with pytest.raises(SettingsError, match="edit the file by hand"):
        rotate(commented, "bob")
    assert commented.read_bytes() == before


def test_an_unknown_name_is_refused_with_the_nearest_one(commented: Path) -> None:
    before = commented.read_bytes()
    for edit in (revoke_records, rotate):
        with pytest.raises(SettingsError, match="has no key named 'adda'; did you mean 'ada'"):
            edit(commented, "adda")
    assert commented.read_bytes() == before


@_posix
def test_a_new_file_belongs_to_its_owner_and_the_mode_of_an_old_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    append_record(path, record("ada"))
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    rotate(path, "ada")
    revoke_records(path, "ada")
    assert path.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in tmp_path.iterdir()] == ["keys.toml"], "no draft is left"


@_posix
def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    path = tmp_path / "keys.toml"
    path.symlink_to(tmp_path / "real" / "keys.toml")
    append_record(path, record("ada"))
    append_record(path, record("bob"))
    assert path.is_symlink()
    assert len(read_records(tmp_path / "real" / "keys.toml")) == 2


@_posix
def test_concurrent_edits_lose_no_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    names = [f"key{number}" for number in range(20)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: append_record(path, record(name)), names))
    assert sorted(key.name for key in read_records(path)) == sorted(names)


def test_files_of_earlier_versions_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.touch(mode=0o600)
    path.write_text(f'[[key]]\nid = "{"a" * 8}"\nname = "ada"\nhash = "sha256:{"0" * 64}"\n\n')
    (key,) = read_records(path)
    assert (key.tenant, key.user, key.version, key.created) == (None, None, 1, None)


_texts = st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters="/#"), min_size=1, max_size=30)
_blanks = st.lists(st.sampled_from(["\n", "# note\n", "  # [[key]]\n", "\t\n"]), max_size=3).map("".join)


@given(st.lists(st.tuples(_texts, _blanks), min_size=1, max_size=5), st.data())
def test_any_edit_keeps_the_other_tables(entries: list[tuple[str, str]], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "keys.toml"
        path.touch(mode=0o600)
        blocks = [record(f"key{index}", tenant="acme", user=user).to_toml() for index, (user, _) in enumerate(entries)]
        path.write_text("".join(blank + block for block, (_, blank) in zip(blocks, entries, strict=True)), "utf-8")
        before = read_records(path)
        assert [key.user for key in before] == [user for user, _ in entries]
        index = data.draw(st.integers(0, len(blocks) - 1))
        if data.draw(st.booleans()):
            revoke_records(path, f"key{index}")
        else:
            rotate(path, f"key{index}")
        text = path.read_text("utf-8")
        others = [block for number, block in enumerate(blocks) if number != index]
        assert all(block in text for block in others)
        assert text.count("# note") == sum(blank.count("# note") for _, blank in entries)
        kept = [key for key in read_records(path) if key.name != f"key{index}"]
        assert kept == [key for number, key in enumerate(before) if number != index]
