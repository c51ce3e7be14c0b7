import asyncio
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import Principal, SettingsError, bounds
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.refusal import Refusal
from hubbub.security.api_keys import ApiKeys, append_record, generate_key, hash_key, read_records
from hubbub.security.gate import EdgeSettings, Gate
from hubbub.security.key_usage import KeyUsage, read_last_uses
from hubbub.security.redact import redact


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


def authenticate(keys: ApiKeys, *pairs: tuple[bytes, bytes]) -> Principal | Refusal | None:
    return asyncio.run(keys(Headers(pairs)))


def is_refused(outcome: object) -> bool:
    return isinstance(outcome, Refusal) and outcome.status == 401 and outcome.headers[0][0] == b"www-authenticate"


def test_a_key_gives_the_caller_and_its_scopes(file: Path) -> None:
    key, record = generate_key("ops@example", scopes=["tools", "admin"])
    append_record(file, record)
    keys = ApiKeys(file)
    caller = Principal("key:ops@example", frozenset({"tools", "admin"}))
    assert authenticate(keys, (b"x-api-key", key.encode())) == caller
    assert authenticate(keys, (b"authorization", b"bearer " + key.encode())) == caller


def test_the_file_does_not_hold_the_key_and_belongs_to_its_owner(file: Path) -> None:
    key, record = generate_key("ops")
    append_record(file, record)
    text = file.read_text()
    assert key not in text
    assert key.rpartition("_")[2] not in text
    assert hash_key(key) in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_key_in_a_log_line_is_masked() -> None:
    key, _ = generate_key("ops")
    assert key not in redact(f"refused {key} today")


def test_every_key_is_different() -> None:
    assert len({generate_key("same")[0] for _ in range(100)}) == 100


def test_a_request_without_a_key_is_left_to_other_authenticators(file: Path) -> None:
    append_record(file, generate_key("ops")[1])
    keys = ApiKeys(file)
    assert authenticate(keys) is None
    assert authenticate(keys, (b"authorization", b"Bearer eyJ.x.y")) is None
    assert authenticate(keys, (b"authorization", b"Basic aGI6eA==")) is None


def test_wrong_keys_are_refused(file: Path) -> None:
    key, record = generate_key("ops")
    append_record(file, record)
    keys = ApiKeys(file)
    other, _ = generate_key("other")
    mixed = key[:12] + other[12:]
    for wrong in ["", "hb_", other, mixed, key[:-1], key + "0", key.upper(), " " + key, key + "\xff", "x" * 100_000]:
        assert is_refused(authenticate(keys, (b"x-api-key", wrong.encode("latin-1")))), wrong[:80]
    assert is_refused(authenticate(keys, (b"authorization", b"Bearer " + other.encode())))


@given(st.binary())
def test_random_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, sent: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    if not file.exists():
        append_record(file, generate_key("ops")[1])
    assert is_refused(authenticate(ApiKeys(file), (b"x-api-key", sent)))


def test_an_expired_key_is_refused(file: Path) -> None:
    end = datetime(2030, 1, 1, tzinfo=UTC)
    key, record = generate_key("ops", expires=end)
    append_record(file, record)
    now = end.timestamp() - 1
    keys = ApiKeys(file, clock=lambda: now)
    assert authenticate(keys, (b"x-api-key", key.encode())) == Principal("key:ops")
    now = end.timestamp()
    assert is_refused(authenticate(keys, (b"x-api-key", key.encode())))


def test_a_time_without_a_zone_is_utc(file: Path) -> None:
    _, record = generate_key("ops", expires=datetime(2030, 1, 1))
    append_record(file, record)
    assert read_records(file)[0].expires_at == datetime(2030, 1, 1, tzinfo=UTC).timestamp()


def test_records_are_written_and_read_unchanged(file: Path) -> None:
    records = [
        generate_key("a")[1],
        generate_key("b", scopes=["x:y", "https://z/"])[1],
        generate_key("c", expires=datetime.now(UTC) + timedelta(days=1))[1],
    ]
    for record in records:
        append_record(file, record)
    assert read_records(file) == records


def test_a_duplicate_name_is_refused(file: Path) -> None:
    append_record(file, generate_key("ops")[1])
    with pytest.raises(SettingsError, match="already has a key named 'ops'"):
        append_record(file, generate_key("ops")[1])


@pytest.mark.parametrize("name", ["", 'a"b', "a b", "a\nb", "-a", "ü", "a" * 65])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="name"):
        generate_key(name)


@pytest.mark.parametrize("scope", ["", "a b", 'a"', "a\\", "a\n"])
def test_an_invalid_scope_is_refused(scope: str) -> None:
    with pytest.raises(SettingsError, match="scope"):
        generate_key("ops", scopes=[scope])


@pytest.mark.parametrize(
    "text",
    [
        "[[key]]\n",
        "key = 1",
        "not toml",
        "[[keys]]\n",
        '[[key]]\nid = "00000000"\nname = "a"\nhash = "secret"',
        '[[key]]\nid = "0"\nname = "a"\nhash = "sha256:' + "0" * 64 + '"',
        '[[key]]\nid = "00000000"\nname = "a"\nhash = "sha256:' + "0" * 64 + '"\nextra = 1',
        2 * ('[[key]]\nid = "00000000"\nname = "a"\nhash = "sha256:' + "0" * 64 + '"\n'),
        "# " + "x" * bounds.KEY_FILE_BYTES,
        "\udcff",
    ],
)
def test_the_error_for_a_damaged_file_names_it(file: Path, text: str) -> None:
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(SettingsError, match=r"keys\.toml"):
        ApiKeys(file)


def test_a_missing_file_is_refused(file: Path) -> None:
    with pytest.raises(SettingsError, match=r"keys\.toml"):
        ApiKeys(file)


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX file modes")
def test_a_world_writable_file_is_refused(file: Path) -> None:
    append_record(file, generate_key("ops")[1])
    file.chmod(0o602)
    with pytest.raises(SettingsError, match="chmod"):
        ApiKeys(file)


def test_added_and_removed_keys_take_effect_after_the_check_interval(file: Path) -> None:
    now = 0.0
    key, record = generate_key("ops")
    append_record(file, record)
    keys = ApiKeys(file, monotonic=lambda: now)
    later, record = generate_key("later")
    append_record(file, record)
    assert is_refused(authenticate(keys, (b"x-api-key", later.encode())))
    now += bounds.KEY_FILE_CHECK_INTERVAL_S
    assert authenticate(keys, (b"x-api-key", later.encode())) == Principal("key:later")
    file.write_text(file.read_text().partition("\n\n")[2])
    now += bounds.KEY_FILE_CHECK_INTERVAL_S
    assert is_refused(authenticate(keys, (b"x-api-key", key.encode())))
    assert authenticate(keys, (b"x-api-key", later.encode())) == Principal("key:later")


def test_an_invalid_edit_keeps_the_last_keys_but_a_deleted_file_refuses_all(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    key, record = generate_key("ops")
    append_record(file, record)
    keys = ApiKeys(file, monotonic=lambda: now)
    file.write_text("[[key]")
    now += bounds.KEY_FILE_CHECK_INTERVAL_S
    assert authenticate(keys, (b"x-api-key", key.encode())) == Principal("key:ops")
    assert "keys_not_read" in caplog.text
    file.unlink()
    file.symlink_to(file)  # it cannot be examined
    now += bounds.KEY_FILE_CHECK_INTERVAL_S
    assert authenticate(keys, (b"x-api-key", key.encode())) == Principal("key:ops")
    file.unlink()
    now += bounds.KEY_FILE_CHECK_INTERVAL_S
    assert is_refused(authenticate(keys, (b"x-api-key", key.encode())))
    assert "key_file_missing" in caplog.text


def test_the_uses_of_a_key_are_noted_while_its_caller_is_known(file: Path) -> None:
    key, record = generate_key("ops")
    append_record(file, record)
    now = datetime.now(UTC).timestamp()
    usage = KeyUsage(file.with_name("uses.json"), clock=lambda: now)
    gate = Gate(EdgeSettings(), [ApiKeys(file, usage=usage, clock=lambda: now)])
    headers = Headers([(b"host", b"localhost"), (b"x-api-key", key.encode())])
    for _ in range(3):
        assert isinstance(gate.admit_nowait(headers), Principal)
        now += 1
    usage.save()
    assert read_last_uses(file.with_name("uses.json")) == {record.id: int(now - 1)}
