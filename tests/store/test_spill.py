"""`Spill`: access, lifetime, limits and paging of stored results."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.store.spill import Owner, Spill, cut_utf8

ME = Owner("me", "session-1")
TEXT = "text/plain"


@pytest.fixture
def make_spill() -> Iterator[Callable[..., Spill]]:
    """`Spill`, closed after the test."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(closing(Spill(**options)))


MakeSpill = Callable[..., Spill]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_stored_piece_is_read_back(make_spill: MakeSpill) -> None:
    spill = make_spill()
    stored = spill.store(ME, b"a long story", TEXT)
    assert stored is not None
    assert (stored.size, stored.media_type, stored.is_removed) == (12, TEXT, False)
    part = spill.read(ME, stored.id, 0, 100)
    assert part is not None
    assert (part.data, part.offset, part.next_offset) == (b"a long story", 0, None)


@pytest.mark.parametrize("other", [Owner("me"), Owner("me", "session-2"), Owner("you", "session-1")])
def test_only_the_owner_can_read_a_piece(make_spill: MakeSpill, other: Owner) -> None:
    spill = make_spill()
    stored = spill.store(ME, b"mine", TEXT)
    assert stored is not None
    assert spill.find(other, stored.id) is None
    assert spill.read(other, stored.id, 0, 100) is None
    assert spill.find(ME, stored.id) == stored


def test_ids_are_unpredictable(make_spill: MakeSpill) -> None:
    spill = make_spill()
    ids = {stored.id for _ in range(100) if (stored := spill.store(ME, b"x", TEXT)) is not None}
    assert len(ids) == 100
    assert min(map(len, ids)) >= 22
    assert len({identifier[:6] for identifier in ids}) == 100


def test_an_expired_piece_is_found_as_removed_but_cannot_be_read(make_spill: MakeSpill) -> None:
    clock = Clock()
    spill = make_spill(lifetime_s=60, clock=clock)
    stored = spill.store(ME, b"soon gone", TEXT)
    assert stored is not None
    assert stored.expires_at == 1060
    clock.now = 1059.9
    assert spill.read(ME, stored.id, 0, 100) is not None
    clock.now = 1060
    assert spill.read(ME, stored.id, 0, 100) is None
    found = spill.find(ME, stored.id)
    assert found is not None
    assert found.is_removed
    assert spill.find(Owner("you"), stored.id) is None
    assert len(spill) == 0


def test_a_shorter_lifetime_applies_to_pieces_stored_afterwards(make_spill: MakeSpill) -> None:
    clock = Clock()
    spill = make_spill(lifetime_s=60, clock=clock)
    first = spill.store(ME, b"first", TEXT)
    spill.lifetime_s = 10
    second = spill.store(ME, b"second", TEXT)
    assert first is not None
    assert second is not None
    clock.now = 1020
    assert spill.read(ME, first.id, 0, 10) is not None
    assert spill.read(ME, second.id, 0, 10) is None


def test_the_oldest_pieces_are_evicted_first(make_spill: MakeSpill) -> None:
    spill = make_spill(total_bytes=100)
    stored = [spill.store(ME, bytes(40), TEXT) for _ in range(4)]
    readable = [spill.read(ME, piece.id, 0, 100) is not None for piece in stored if piece is not None]
    assert readable == [False, False, True, True]
    assert len(spill) == 2


@pytest.mark.parametrize("limits", [{"total_bytes": 1000}, {"max_pieces": 5}])
def test_the_owner_of_most_pieces_cannot_evict_those_of_others(make_spill: MakeSpill, limits: dict[str, int]) -> None:
    spill = make_spill(**limits)
    mine = spill.store(Owner("bob", "s", is_authenticated=True), b"mine", TEXT)
    for number in range(20):
        spill.store(Owner("ada", f"session {number}", is_authenticated=True), bytes(300), TEXT)
    assert mine is not None
    assert spill.read(Owner("bob", "s", is_authenticated=True), mine.id, 0, 10) is not None


def member(name: str) -> Owner:
    return Owner(name, is_authenticated=True)


@pytest.mark.parametrize("limits", [{"total_bytes": 1000}, {"max_pieces": 5}])
def test_many_users_of_a_tenant_cannot_evict_a_piece_of_another(make_spill: MakeSpill, limits: dict[str, int]) -> None:
    spill = make_spill(**limits)
    beta = spill.store(member("beta/ann#key"), bytes(300), TEXT)
    acme = [spill.store(member(f"acme/user{number}#key"), bytes(100), TEXT) for number in range(9)]
    assert beta is not None
    assert spill.read(member("beta/ann#key"), beta.id, 0, 10) is not None
    kept = [spill.read(member(f"acme/user{number}#key"), piece.id, 0, 10) for number, piece in enumerate(acme) if piece]
    assert [part is None for part in kept] == [True] * (len(acme) - len(spill) + 1) + [False] * (len(spill) - 1)


def test_the_user_with_the_most_bytes_of_a_tenant_loses_first(make_spill: MakeSpill) -> None:
    spill = make_spill(total_bytes=1000)
    small = spill.store(member("acme/ann#key"), bytes(100), TEXT)
    for _ in range(10):
        spill.store(member("acme/bob#key"), bytes(300), TEXT)
    assert small is not None
    assert spill.read(member("acme/ann#key"), small.id, 0, 10) is not None


def test_a_large_piece_is_not_evicted_because_another_caller_stores_many(make_spill: MakeSpill) -> None:
    spill = make_spill(max_pieces=5)
    large = spill.store(member("bob"), bytes(1000), TEXT)
    for _ in range(10):
        spill.store(member("ada"), b"x", TEXT)
    assert large is not None
    assert spill.read(member("bob"), large.id, 0, 10) is not None


def test_pieces_never_overlap_in_the_file(make_spill: MakeSpill) -> None:
    spill = make_spill(total_bytes=5_000)
    random = Random(5)
    stored: list[tuple[str, bytes]] = []
    for number in range(300):
        data = f"{number:04d}|".encode() * random.randrange(1, 300)
        piece = spill.store(ME, data, TEXT)
        assert piece is not None
        stored.append((piece.id, data))
        for identifier, expected in stored[-10:]:
            found = spill.read(ME, identifier, 0, 10_000)
            assert found is None or found.data == expected
    assert spill.read(ME, stored[-1][0], 0, 10_000) is not None


def test_all_pieces_share_one_file_descriptor(make_spill: MakeSpill) -> None:
    descriptors = Path("/proc/self/fd") if Path("/proc/self/fd").exists() else Path("/dev/fd")
    spill = make_spill()
    before = len(list(descriptors.iterdir()))
    for _ in range(100):
        spill.store(ME, b"x" * 1000, TEXT)
    assert len(spill) == 100
    assert len(list(descriptors.iterdir())) == before + 1


def test_the_numbers_of_pieces_and_of_remembered_expired_ids_are_bounded(make_spill: MakeSpill) -> None:
    spill = make_spill(max_pieces=3)
    stored = [spill.store(ME, b"x", TEXT) for _ in range(10)]
    known = [spill.find(ME, piece.id) for piece in stored if piece is not None]
    assert [piece is None for piece in known] == [True] * 4 + [False] * 6
    assert [piece.is_removed for piece in known if piece is not None] == [True] * 3 + [False] * 3


def test_a_piece_larger_than_the_whole_limit_is_not_stored_and_evicts_nothing(make_spill: MakeSpill) -> None:
    spill = make_spill(total_bytes=100)
    small = spill.store(ME, b"small", TEXT)
    assert spill.store(ME, bytes(101), TEXT) is None
    assert small is not None
    assert spill.read(ME, small.id, 0, 10) is not None


def test_a_full_disk_stores_nothing_and_raises_nothing(make_spill: MakeSpill, caplog: pytest.LogCaptureFixture) -> None:
    spill = make_spill()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3, limits[1]))
    try:
        stored = spill.store(ME, b"no room", TEXT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert stored is None
    assert caplog.messages == ["result_not_stored"]
    assert len(spill) == 0


def test_closing_closes_every_file(make_spill: MakeSpill) -> None:
    spill = make_spill()
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else None
    stored = [spill.store(ME, b"x", TEXT) for _ in range(5)]
    spill.close()
    spill.close()
    assert stored[0] is not None
    assert spill.find(ME, stored[0].id) is None
    if before is not None:
        assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_file_has_no_name_so_nothing_is_left_after_a_kill(tmp_path: Path) -> None:
    program = (
        "import os, signal\n"
        "from hubbub.store.spill import Owner, Spill\n"
        "spill = Spill()\n"
        "assert spill.store(Owner('me'), bytes(100_000), 'text/plain')\n"
        "print(os.listdir(os.environ['TMPDIR']), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, timeout=60
    )
    assert done.stdout.strip() == b"[]", done.stderr
    assert list(tmp_path.iterdir()) == []


@given(text=st.text(), limit=st.integers(1, 40), start=st.integers(0, 50))
def test_pages_end_between_characters_and_together_give_the_whole_text(text: str, limit: int, start: int) -> None:
    data = text.encode(errors="replace")
    wanted = data[start:].decode(errors="ignore").encode()
    read: list[bytes] = []
    with closing(Spill()) as spill:
        stored = spill.store(ME, data, TEXT)
        assert stored is not None
        offset: int | None = start
        while offset is not None:
            part = spill.read(ME, stored.id, offset, limit)
            assert part is not None
            assert part.offset == len(data) - len(wanted) + sum(map(len, read)) or not part.data
            assert 0 < len(part.data) <= max(limit, 4) or not wanted
            part.data.decode()
            read.append(part.data)
            offset = part.next_offset
    assert b"".join(read) == wanted


@given(text=st.text(), limit=st.integers(0, 40))
def test_a_prefix_is_the_longest_that_fits(text: str, limit: int) -> None:
    data = text.encode(errors="replace")
    cut = cut_utf8(data, limit)
    assert data.startswith(cut)
    cut.decode()
    rest = data[len(cut) :].decode()
    assert len(cut) <= limit
    assert not rest or len(cut) + len(rest[0].encode()) > limit
