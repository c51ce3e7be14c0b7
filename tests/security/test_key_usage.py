"""The last use of API keys: noted in memory, saved once a minute, shared by processes."""

from pathlib import Path

import pytest

from hubbub.security import key_usage
from hubbub.security.key_usage import KeyUsage, read_last_uses


class Clock:
    now = 1_900_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def make(path: Path, clock: Clock) -> KeyUsage:
    return KeyUsage(path, clock=clock, monotonic=clock)


async def test_uses_are_saved_at_most_once_a_minute(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "state" / "uses.json"
    usage = make(path, clock)
    usage.note("a" * 8)
    await usage.save_if_due()
    assert not path.exists()
    clock.now += 60
    usage.note("a" * 8)
    await usage.save_if_due()
    assert read_last_uses(path) == {"a" * 8: 1_900_000_060}
    clock.now += 59
    usage.note("a" * 8)
    await usage.save_if_due()
    assert read_last_uses(path) == {"a" * 8: 1_900_000_060}
    clock.now += 1
    await usage.save_if_due()
    assert read_last_uses(path) == {"a" * 8: 1_900_000_119}


async def test_nothing_is_written_if_nothing_was_used(tmp_path: Path, clock: Clock) -> None:
    usage = make(tmp_path / "uses.json", clock)
    clock.now += 3600
    await usage.save_if_due()
    usage.save()
    assert list(tmp_path.iterdir()) == []


def test_two_processes_keep_each_others_uses_and_the_later_one_wins(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "uses.json"
    one, two = make(path, clock), make(path, clock)
    one.note("a" * 8)
    clock.now += 5
    two.note("a" * 8)
    two.note("b" * 8)
    two.save()
    one.save()
    assert read_last_uses(path) == {"a" * 8: 1_900_000_005, "b" * 8: 1_900_000_005}


def test_the_file_is_bounded_and_drops_the_oldest(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_usage, "MAX_KEYS", 3)
    path = tmp_path / "uses.json"
    for _ in range(2):
        usage = make(path, clock)
        for number in range(5):
            clock.now += 1
            usage.note(f"{number:08x}")
        usage.save()
    assert sorted(read_last_uses(path)) == ["00000002", "00000003", "00000004"]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a": "b"}', b"\xff", b"{" * 100])
def test_a_damaged_file_counts_as_empty_and_is_replaced(tmp_path: Path, clock: Clock, content: bytes) -> None:
    path = tmp_path / "uses.json"
    path.write_bytes(content)
    assert read_last_uses(path) == {}
    usage = make(path, clock)
    usage.note("a" * 8)
    usage.save()
    assert list(read_last_uses(path)) == ["a" * 8]
    assert [file.name for file in tmp_path.iterdir()] == ["uses.json"]


def test_a_folder_that_cannot_be_written_is_logged_only(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    usage = make(tmp_path / "file" / "uses.json", clock)
    usage.note("a" * 8)
    usage.save()
    assert [record.message for record in caplog.records] == ["key_usage_not_saved"]
