"""Any change of the files is found, and the report says where and what."""

import asyncio
import base64
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import psutil
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from tests.clock import advance_and_settle, wait_until
from tests.governance.journals import call_event, events, open_journal, segments, write_journal

from hubbub.governance.journal_head import Head, read_head
from hubbub.governance.journal_verification import BadRecord, verify
from hubbub.security.crypto import VerifyingKey
from hubbub.store.hash_chain import link_line

pytestmark = pytest.mark.requirement("A4")

Lines = list[bytes]
RECORDS = 30


@cache
def written_files() -> dict[str, bytes]:
    """A journal of several segments, written once."""
    with TemporaryDirectory() as folder:
        asyncio.run(write_journal(Path(folder), range(RECORDS), segment_bytes=4096))
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def restore(folder: Path) -> None:
    for name, content in written_files().items():
        (folder / name).write_bytes(content)


def change(path: Path, edit: Callable[[Lines], Lines]) -> None:
    path.write_bytes(b"".join(edit(path.read_bytes().splitlines(keepends=True))))


def found(folder: Path) -> BadRecord:
    bad = verify(folder).bad
    assert bad is not None
    return bad


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    restore(tmp_path)
    assert verify(tmp_path).holds
    return tmp_path


@pytest.mark.parametrize("line", [0, 3, -1])
@pytest.mark.parametrize("segment", [0, 1, -2])
def test_an_edited_record_is_found_with_its_place(journal: Path, segment: int, line: int) -> None:
    path = segments(journal)[segment]
    number = range(1, 1 + len(path.read_bytes().splitlines()))[line]

    def edit(lines: Lines) -> Lines:
        lines[line] = lines[line].replace(b'"ts":"2', b'"ts":"1')
        return lines

    change(path, edit)
    assert (found(journal).why, found(journal).file, found(journal).line) == ("edited", path.name, number)


def test_an_edit_with_a_new_hash_is_found_at_the_edited_record(journal: Path) -> None:
    path = segments(journal)[0]

    def edit(lines: Lines) -> Lines:
        record = msgspec.json.decode(lines[2])
        members = msgspec.json.encode({**record, "user": "mallory"})
        start = members.index(b',"previous_hash"')
        lines[2], _ = link_line(members[1:start], record["previous_hash"])
        return lines

    change(path, edit)
    assert (found(journal).why, found(journal).line, found(journal).seq) == ("edited", 3, 3)


@pytest.mark.parametrize(
    ("why", "edit"),
    [
        ("deleted", lambda lines: [*lines[:3], *lines[5:]]),
        ("inserted", lambda lines: [*lines[:3], lines[1], *lines[3:]]),
        ("reordered", lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]]),
        ("edited", lambda lines: [*lines[:3], b"{}\n", *lines[4:]]),
        ("edited", lambda lines: [*lines[:3], lines[3].rstrip() + b" \n", *lines[4:]]),
    ],
)
def test_each_kind_of_change_is_named(journal: Path, why: str, edit: Callable[[Lines], Lines]) -> None:
    change(segments(journal)[1], edit)
    assert (found(journal).why, found(journal).file, found(journal).line) == (why, segments(journal)[1].name, 4)


def test_a_deleted_segment_is_found(journal: Path) -> None:
    segments(journal)[1].unlink()
    assert (found(journal).why, found(journal).file) == ("deleted", segments(journal)[1].name)


def test_deleted_oldest_segments_without_a_record_of_it_are_found(journal: Path) -> None:
    segments(journal)[0].unlink()
    assert found(journal).why == "deleted"
    assert found(journal).seq == 1


def test_a_cut_end_is_found_by_the_head(journal: Path) -> None:
    head = read_head(journal / "head.json")
    assert head is not None
    change(segments(journal)[-1], lambda lines: lines[:-1])
    assert found(journal).why == "truncated"
    (journal / "head.json").unlink()
    assert verify(journal).holds  # Whoever can cut the journal can delete this file too,
    for stored in (head, head.hash):  # so the head has to be stored elsewhere.
        bad = verify(journal, expected=stored).bad
        assert bad is not None
        assert bad.why == "truncated"


def test_an_older_head_is_still_in_the_journal(journal: Path) -> None:
    record = msgspec.json.decode(segments(journal)[1].read_bytes().splitlines()[0])
    assert verify(journal, expected=record["hash"]).holds


@given(data=st.data())
def test_every_change_of_lines_is_found(data: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        restore(folder)
        head = read_head(folder / "head.json")
        path = data.draw(st.sampled_from(segments(folder)))
        before = path.read_bytes()
        lines = before.splitlines(keepends=True)
        at = data.draw(st.integers(0, len(lines) - 1))
        other = data.draw(st.integers(0, len(lines) - 1))
        kind = data.draw(st.sampled_from(["edit", "delete", "insert", "move", "truncate", "byte"]))
        if kind == "edit":
            lines[at] = lines[at].replace(b"alice", b"bob") if b"alice" in lines[at] else b"{}\n"
        elif kind == "delete":
            del lines[at : at + data.draw(st.integers(1, 3))]
        elif kind == "insert":
            lines.insert(at, lines[other])
        elif kind == "move":
            lines.insert(at, lines.pop(other))
        elif kind == "truncate":
            lines = lines[:at]
        after = b"".join(lines)
        if kind == "byte":
            position = data.draw(st.integers(0, len(after) - 1))
            byte = data.draw(st.integers(0, 255))
            after = after[:position] + bytes([byte]) + after[position + 1 :]
        path.write_bytes(after)
        assert verify(folder, expected=head).holds == (after == before)


def test_an_incomplete_last_line_is_no_change(journal: Path) -> None:
    with segments(journal)[-1].open("ab") as file:
        file.write(b'{"seq":99,"no')
    report = verify(journal)
    assert (report.holds, report.torn_bytes) == (True, 13)
    with segments(journal)[0].open("ab") as file:
        file.write(b'{"seq":99,"no')
    assert found(journal).why == "edited"


def test_a_huge_line_takes_bounded_memory(journal: Path) -> None:
    with segments(journal)[-1].open("ab") as file:
        file.write(b"x" * 3_000_000 + b"\n")
    assert found(journal).why == "edited"


def test_progress_ends_with_all_bytes(journal: Path) -> None:
    seen: list[tuple[int, int]] = []
    verify(journal, progress=lambda done, total: seen.append((done, total)))
    total = sum(path.stat().st_size for path in segments(journal))
    assert seen[-1] == (total, total)


# -- signed heads ----------------------------------------------------------------------


def make_key(folder: Path, name: str = "key") -> tuple[Path, VerifyingKey]:
    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, VerifyingKey(public)


async def test_the_head_is_signed_and_a_forged_one_is_found(tmp_path: Path) -> None:
    private, public = make_key(tmp_path)
    _, other = make_key(tmp_path, "other")
    folder = tmp_path / "audit"
    await write_journal(folder, range(3), signing_key_file=str(private))
    assert verify(folder, public_key=public).head_signature == "valid"
    bad = verify(folder, public_key=other).bad
    assert bad is not None
    assert bad.why == "head"
    head = read_head(folder / "head.json")
    assert head is not None
    for forged in (
        msgspec.structs.replace(head, seq=1),
        msgspec.structs.replace(head, signature=""),
        msgspec.structs.replace(head, signature=base64.b64encode(bytes(64)).decode()),
    ):
        (folder / "head.json").write_bytes(msgspec.json.encode(forged))
        assert not verify(folder, public_key=public).holds
    (folder / "head.json").unlink()
    assert not verify(folder, public_key=public).holds


async def test_the_head_is_written_from_time_to_time_and_at_each_seal(tmp_path: Path) -> None:
    async with open_journal(tmp_path, segment_bytes=4096, head_interval_s=30) as journal:
        await journal.record(call_event(1))
        await asyncio.sleep(0)
        await advance_and_settle(31)
        await wait_until((tmp_path / "head.json").exists)
        head = read_head(tmp_path / "head.json")
        assert head is not None
        assert (head.seq, head.hash, head.node) == (2, journal.status.hash, journal.node)
        while "journal.sealed" not in events(tmp_path):
            await journal.record(call_event(2))
        await wait_until(lambda: read_head(tmp_path / "head.json") != head)


async def test_the_anchor_program_gets_each_head(tmp_path: Path) -> None:
    script = 'cat >> "$0"'
    command = ("sh", "-c", script, str(tmp_path / "anchored"))
    await write_journal(tmp_path / "audit", range(3), anchor_command=command)
    (line,) = (tmp_path / "anchored").read_bytes().splitlines()
    head = msgspec.json.decode(line, type=Head)
    assert verify(tmp_path / "audit", expected=head).holds
    assert head.seq == 4


@pytest.mark.parametrize("command", [("sh", "-c", "exit 3"), ("/does/not/exist",)])
async def test_an_anchor_program_that_fails_is_counted_and_stops_nothing(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    async with open_journal(tmp_path, anchor_command=command, head_interval_s=30) as journal:
        await advance_and_settle(31)
        await wait_until(lambda: journal.status.anchor_failures)
        await journal.record(call_event(1))
    assert verify(tmp_path).holds


async def test_an_anchor_program_that_hangs_is_ended(tmp_path: Path) -> None:
    command = ("sh", "-c", 'echo $$ > "$0"; sleep 600', str(tmp_path / "pid"))
    async with open_journal(tmp_path / "audit", anchor_command=command, head_interval_s=30) as journal:
        await advance_and_settle(31)
        await wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
        await advance_and_settle(31)
        await wait_until(lambda: journal.status.anchor_failures)
        # The head has not changed since, so the end of the journal starts no other program.
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
