"""`hubbub keys`: keys that `hubbub serve --key-file` then accepts."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hubbub import Principal
from hubbub.cli.main import main
from hubbub.security.api_keys import ApiKeys
from hubbub.security.key_records import read_records
from hubbub.security.key_usage import KeyUsage

TENANTS = '[[tenants]]\nname = "acme"\n[[tenants]]\nname = "beta"\n'


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key file that the settings name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUBBUB_KEY_FILE", str(tmp_path / "keys.toml"))
    return tmp_path / "keys.toml"


def create(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["keys", "create", *arguments]) == 0
    return capsys.readouterr().out.strip()


def identify(path: Path, key: str) -> Principal | None:
    return ApiKeys(path).identify(key.encode())


def test_a_created_key_is_accepted_and_its_file_has_only_the_hash(
    keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = create(capsys, "alice", "--scope", "read", "--days", "3")
    assert re.fullmatch(r"hb_[0-9a-f]{8}_[0-9a-f]{48}", key)
    assert key not in keys.read_text()
    assert key.rpartition("_")[2] not in keys.read_text()
    assert keys.stat().st_mode & 0o077 == 0
    assert identify(keys, key) == Principal("key:alice", frozenset({"read"}))
    (record,) = read_records(keys)
    assert record.scopes == ("read",)
    assert record.created is not None
    assert record.expires == record.created + timedelta(days=3)


def test_a_key_has_a_tenant_and_a_user(keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create(capsys, "laptop", "--tenant", "acme", "--user", "ada@acme.example")
    (record,) = read_records(keys)
    assert (record.tenant, record.user) == ("acme", "ada@acme.example")
    assert main(["keys", "create", "phone", "--user", "ada"]) == 2
    assert "--user needs --tenant" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["ada", "--tenant", "A/B"], "the tenant 'A/B'"),
        (["ada", "--tenant", "acme", "--user", "a#b"], "the user 'a#b'"),
        (["a b"], "the name 'a b'"),
        (["ada", "--scope", "a b"], "the scope 'a b'"),
    ],
)
def test_an_invalid_part_is_refused_and_nothing_is_written(
    keys: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    assert main(["keys", "create", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert problem in output.err
    assert not keys.exists()


def test_a_name_has_one_key_only(keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create(capsys, "alice")
    before = keys.read_text()
    assert main(["keys", "create", "alice"]) == 2
    assert "already has a key named 'alice'" in capsys.readouterr().err
    assert keys.read_text() == before


def test_a_key_file_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HUBBUB_KEY_FILE", raising=False)
    for arguments in (["list"], ["create", "a"], ["rotate", "a"], ["revoke", "a"]):
        assert main(["keys", *arguments]) == 2
        assert "--key-file" in capsys.readouterr().err


def test_a_key_file_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "missing" / "keys.toml"
    assert main(["keys", "create", "bob", "--key-file", str(place)]) == 2
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", f"hubbub: {place}: cannot be written: No such file or directory\n")
    assert main(["keys", "list", "--key-file", str(place)]) == 2
    advice = f"create one with `hubbub keys create NAME --key-file {place}`"
    assert capsys.readouterr().err == f"hubbub: {place}: cannot be read: No such file or directory; {advice}\n"


# -- tenants of the settings -----------------------------------------------------


def with_settings(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (folder / "own.toml").write_text(text)
    monkeypatch.setenv("HUBBUB_CONFIG", str(folder / "own.toml"))


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        (["--tenant", "acmee"], "warning: the settings have no tenant 'acmee'; did you mean 'acme'?"),
        ([], "this key needs one: --tenant acme or beta"),
        (["--tenant", "acme"], None),
        (["--scope", "hub:admin"], None),
        (["--scope", "other"], "this key needs one: --tenant acme or beta"),
    ],
)
def test_a_tenant_that_the_settings_do_not_have_is_named(
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    warning: str | None,
) -> None:
    with_settings(keys.parent, monkeypatch, TENANTS)
    assert main(["keys", "create", "ada", *arguments]) == 0
    err = capsys.readouterr().err
    assert warning in err if warning is not None else "warning" not in err


# -- lists -----------------------------------------------------------------------


def test_the_list_shows_everything_but_the_secret(keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = create(capsys, "laptop", "--tenant", "acme", "--user", "ada", "--scope", "a", "--scope", "b", "--days", "9")
    create(capsys, "bob")
    usage = KeyUsage()
    usage.note(key[3:11])
    usage.save()
    assert main(["keys", "list"]) == 0
    header, laptop, bob = capsys.readouterr().out.splitlines()
    assert re.split("  +", header) == [
        "NAME", "PREFIX", "TENANT", "USER", "VERSION", "CREATED", "EXPIRES", "LAST USE", "SCOPES",
    ]  # fmt: skip
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert laptop.split()[:6] == ["laptop", key[:11], "acme", "ada", "1", today]
    assert laptop.split()[7] == today
    assert laptop.endswith(" a b")
    assert bob.split()[2:5] == ["-", "-", "1"]
    assert bob.split()[6:] == ["never", "never", "-"]


def test_the_list_as_json_has_one_object_for_each_key(keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = create(capsys, "laptop", "--tenant", "acme", "--scope", "a")
    assert main(["keys", "list", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown.pop("created").startswith(f"{datetime.now(UTC):%Y-%m-%d}")
    assert shown == {
        "name": "laptop", "prefix": key[:11], "tenant": "acme", "user": "laptop", "scopes": ["a"],
        "expires": None, "version": 1, "last_use": None,
    }  # fmt: skip


# -- rotation and revocation ------------------------------------------------------


def rotate(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["keys", "rotate", *arguments]) == 0
    return capsys.readouterr().out.strip()


def test_rotation_ends_the_old_key_at_once_and_keeps_what_it_may_do(
    keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = create(capsys, "laptop", "--tenant", "acme", "--user", "ada", "--scope", "read")
    new = rotate(capsys, "laptop")
    assert identify(keys, old) is None
    assert identify(keys, new) == Principal("key:laptop", frozenset({"read"}))
    before, after = read_records(keys)
    assert (after.tenant, after.user, after.scopes, after.version) == ("acme", "ada", ("read",), 2)
    assert after.id != before.id


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("15m", 900), ("24h", 86400), ("7d", 604800)])
def test_rotation_may_overlap(keys: Path, capsys: pytest.CaptureFixture[str], text: str, seconds: int) -> None:
    old = create(capsys, "laptop")
    new = rotate(capsys, "laptop", "--overlap", text)
    assert identify(keys, old) == identify(keys, new) == Principal("key:laptop")
    before, after = read_records(keys)
    assert after.created is not None
    assert before.expires == after.created + timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["1", "-1h", "h", "1w", "", "1.5h", "9999d", "١h", "9" * 30 + "s"])
def test_an_overlap_that_is_no_time_is_refused(keys: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    create(capsys, "laptop")
    before = keys.read_bytes()
    assert main(["keys", "rotate", "laptop", f"--overlap={text}"]) == 2
    assert "--overlap" in capsys.readouterr().err
    assert keys.read_bytes() == before


def test_the_new_key_expires_with_the_old_one_unless_days_are_given(
    keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create(capsys, "laptop", "--days", "9")
    rotate(capsys, "laptop")
    rotate(capsys, "laptop", "--days", "30")
    second, third = read_records(keys)  # the first version had expired, so it was removed
    assert second.version == 2
    assert third.created is not None
    assert third.expires == third.created + timedelta(days=30)


def test_an_expired_key_is_rotated_only_with_a_new_expiry(keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create(capsys, "laptop", "--days", "1")
    keys.write_text(re.sub(r"expires = .*", "expires = 2020-01-01T00:00:00Z", keys.read_text()))
    assert main(["keys", "rotate", "laptop"]) == 2
    assert "--days N" in capsys.readouterr().err
    assert identify(keys, rotate(capsys, "laptop", "--days", "1")) is not None


def test_revocation_removes_every_version_and_nothing_else(keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ada = create(capsys, "ada")
    between = keys.read_bytes()
    old = create(capsys, "laptop")
    new = rotate(capsys, "laptop", "--overlap", "1h")
    assert main(["keys", "revoke", "laptop"]) == 0
    assert capsys.readouterr().out == ""
    assert identify(keys, ada) is not None
    assert identify(keys, old) is None
    assert identify(keys, new) is None
    assert keys.read_bytes().rstrip() == between.rstrip()
    assert main(["keys", "revoke", "laptop"]) == 2
    assert "has no key named 'laptop'" in capsys.readouterr().err


def test_every_edit_keeps_a_trusted_folder_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HUBBUB_KEY_FILE", raising=False)
    (tmp_path / "hubbub.toml").write_text('key_file = "keys.toml"\n')
    assert main(["trust", "--yes"]) == 0
    create(capsys, "ada")
    rotate(capsys, "ada")
    assert main(["keys", "revoke", "ada"]) == 0
    assert main(["keys", "list"]) == 0, "the settings of the folder are still used"


def test_without_a_key_file_a_running_hub_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["keys", "list"]) == 2
    assert "ask a running hub with --hub auto" in capsys.readouterr().err
