"""The audit journal of one node: append-only, hash-chained, durable before a call runs.

    journal = Journal(folder, AuditSettings(sync="batch"))
    await journal.open()
    await journal.record(AuditEvent(event="decision", tenant="acme", tool="pay", decision=decision))
    journal.record_later(AuditEvent(event="call.end", tenant="acme", tool="pay", outcome="ok", ms=12.5))

Records are committed in groups: while the disk flushes one group, the next ones gather, so that 64 callers cost about
as many flushes as one. A thread writes the groups; a call costs no switch of threads of its own, only its group does.
There is no way to change or delete a record, except the retention of whole sealed segments.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Literal, TypeAlias

import msgspec

from hubbub.errors import AuditUnavailable, HubbubError
from hubbub.governance.audit_events import JOURNAL_GAP, JOURNAL_STARTED, AuditEvent, Fact, encode_event, format_time
from hubbub.governance.journal_head import Anchor, Head, write_head
from hubbub.governance.journal_retention import Retention
from hubbub.governance.segment_archive import SegmentArchive
from hubbub.governance.segment_writer import SegmentWriter
from hubbub.governance.segments import HEAD_FILE
from hubbub.security.crypto import SigningKey
from hubbub.settings.governance import AuditSettings

logger = logging.getLogger("hubbub.audit")

MAX_QUEUED_BYTES: Final = 16 * 1024 * 1024
"""Records that wait to be written; when there are more, `record` waits. `record_later` may add as many again."""
LATER_S: Final = 0.05
"""How long a record of `record_later` waits for a group to join."""
GATHER_S: Final = 0.001
"""How long a group waits for further callers if the last one had several: a flush costs 100 µs of CPU."""
RETRY_S: Final = 1.0
"""After a failure, how long records that could not be written wait for the next attempt."""

_Command: TypeAlias = Literal["open", "group", "tick", "close"]


class JournalStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the journal, for health checks and metrics."""

    seq: int
    hash: str
    queued: int
    refused: int
    """Records that were not written, whose callers were told so."""
    lost: int
    """Records that were not written although what they describe happened."""
    anchor_failures: int
    archive_failures: int
    problem: str | None
    """Why it cannot be written at the moment."""


class _Item(msgspec.Struct, gc=False):
    payload: bytes
    done: asyncio.Future[None] | None


class Journal:
    """Writes the journal in a folder. All methods belong to one event loop."""

    def __init__(
        self,
        folder: Path,
        settings: AuditSettings = AuditSettings(),  # noqa: B008 - frozen
        *,
        clock_ns: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises: SettingsError, if the signing key cannot be used."""
        self._settings = settings
        self._folder = folder
        self._clock_ns = clock_ns
        self._writer = SegmentWriter(
            folder,
            segment_bytes=settings.segment_bytes,
            is_synced=settings.sync != "off",
            node=settings.node,
            clock_ns=clock_ns,
        )
        key_file = settings.signing_key_file
        self._key = None if key_file is None else SigningKey(Path(key_file), "signing_key_file")
        self._anchor = Anchor(settings.anchor_command)
        self._archive = SegmentArchive(folder, settings.archive_command)
        self._queue: deque[_Item] = deque()
        self._queued_bytes = 0
        self._commands: SimpleQueue[tuple[_Command, asyncio.Future[None] | None]] = SimpleQueue()
        self._is_woken = False
        self._later: asyncio.TimerHandle | None = None
        self._space = asyncio.Event()
        self._housekeeping: asyncio.Task[None] | None = None
        self._is_closed = True
        self._problem: str | None = None
        self._failing_since = ""
        self._refused = self._lost = 0
        # Of the thread:
        self._retention = Retention(settings.retention_days, clock_ns, monotonic)
        self._last_group = 0
        """How many callers waited for the last group."""
        self._head_seq = -1
        self._reported = (0, 0)
        """The numbers of refused and lost records that gap records have accounted for."""

    async def open(self) -> None:
        """Take the folder, recover from a crash if necessary, and write a first record.

        Raises:
            AuditUnavailable: it cannot be written, and `on_failure` is `refuse`.
            SettingsError: another process writes it.
        """
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._archive.open()
        threading.Thread(target=self._run, name="hubbub-audit", daemon=True).start()
        try:
            try:
                await self._command("open")
            except HubbubError:
                raise
            except Exception as error:
                self._note_failure(error)
                if self._settings.on_failure == "refuse":
                    raise AuditUnavailable(str(self._problem)) from error
            await self.record(AuditEvent(event=JOURNAL_STARTED, facts={"sync": self._settings.sync}))
        except BaseException:
            await self.close()
            raise
        self._housekeeping = asyncio.create_task(self._housekeep())

    async def close(self) -> None:
        """Write what is queued and the head, then release the folder."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._housekeeping is not None:
            self._housekeeping.cancel()
            await asyncio.wait([self._housekeeping])
        await self._archive.close()
        if self._later is not None:
            self._later.cancel()
        await self._command("group")
        await self._command("tick")
        await self._command("close")
        await self._anchor.close()
        if (self._refused, self._lost) != self._reported:
            extra = {"refused": self._refused, "lost": self._lost, "folder": str(self._folder)}
            logger.error("audit_records_lost", extra=extra)

    @property
    def node(self) -> str:
        """The name of this node in its records."""
        return self._writer.node

    @property
    def durable_seq(self) -> int:
        """The number of the last record that cannot disappear any more."""
        return self._writer.seq

    @property
    def status(self) -> JournalStatus:
        seq, digest = self._writer.head
        return JournalStatus(
            seq=seq,
            hash=digest,
            queued=len(self._queue),
            refused=self._refused,
            lost=self._lost,
            anchor_failures=self._anchor.failures,
            archive_failures=self._archive.failures,
            problem=self._problem,
        )

    def record(self, event: AuditEvent) -> Awaitable[None]:
        """Write a record; await the result, which returns when the record is as durable as the setting `sync` says.

        If that is cancelled, the record is written anyway.

        Raises:
            AuditUnavailable: it cannot be written, and `on_failure` is `refuse`.
        """
        is_skipped = self._problem is not None and self._settings.on_failure == "continue"
        if is_skipped or self._queued_bytes > MAX_QUEUED_BYTES or self._is_closed:
            return self._wait_and_record(event, is_skipped=is_skipped)
        payload = encode_event(event, self._clock_ns())
        done: asyncio.Future[None] = self._loop.create_future()
        self._queue.append(_Item(payload, done))
        self._queued_bytes += len(payload)
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._commands.put, ("group", None))
        return done

    async def _wait_and_record(self, event: AuditEvent, *, is_skipped: bool) -> None:
        if is_skipped:
            self.record_later(event)
            return
        while self._queued_bytes > MAX_QUEUED_BYTES and not self._is_closed:
            if self._problem is not None:
                self._refused += 1
                raise AuditUnavailable(self._problem)
            self._space.clear()
            self._wake()
            await self._space.wait()
        if self._is_closed:
            raise AuditUnavailable("it is closed")
        await self.record(event)

    def record_later(self, event: AuditEvent) -> None:
        """Write a record soon, without waiting for it: for the end of a call whose start is durable.

        While the journal cannot be written, such records are kept, within `MAX_QUEUED_BYTES`; further ones are counted,
        and the next record that can be written says how many are missing.
        """
        payload = encode_event(event, self._clock_ns())
        if self._is_closed or self._queued_bytes > 2 * MAX_QUEUED_BYTES:
            self._lost += 1
            if self._is_closed:
                logger.error("audit_record_after_close", extra={"audit_event": event.event})
            return
        self._queue.append(_Item(payload, None))
        self._queued_bytes += len(payload)
        if self._later is None and not self._is_woken:
            self._later = self._loop.call_later(LATER_S, self._wake)

    # -- in the event loop -----------------------------------------------------------

    def _wake(self) -> None:
        self._later = None
        if not self._is_woken and self._queue:
            self._is_woken = True
            self._commands.put(("group", None))

    async def _command(self, command: _Command) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        self._commands.put((command, done))
        await done

    def _note_failure(self, error: Exception) -> None:
        reason = _describe(error)
        if self._problem is None:  # Once, not for each call.
            unexpected = None if isinstance(error, OSError | HubbubError) else error
            extra = {"reason": reason, "folder": str(self._folder)}
            logger.error("audit_journal_failed", extra=extra, exc_info=unexpected)
            self._failing_since = format_time(self._clock_ns())
        self._problem = reason

    def _note_success(self) -> None:
        if self._problem is not None:
            logger.warning("audit_journal_works_again", extra={"folder": str(self._folder)})
            self._problem = None
            self._failing_since = ""

    def _finish_group(self, written: list[_Item], failed: list[_Item], error: Exception | None) -> None:
        for item in written:
            self._queued_bytes -= len(item.payload)
            done = item.done
            if done is not None and not done.done():
                done.set_result(None)
        if error is not None:
            self._note_failure(error)
            self._keep_or_refuse(failed)
            if self._queue and self._later is None and not self._is_closed:
                self._later = self._loop.call_later(RETRY_S, self._wake)
        elif written and self._problem is not None:
            self._note_success()
        self._space.set()

    def _keep_or_refuse(self, failed: list[_Item]) -> None:
        """Refuse the calls that wait for their records; keep records of what happens anyway for the next attempt."""
        kept: list[_Item] = []
        refuses = self._settings.on_failure == "refuse"
        for item in failed:
            if item.done is not None and refuses:
                self._queued_bytes -= len(item.payload)
                self._refused += 1
                if not item.done.done():
                    item.done.set_exception(AuditUnavailable(str(self._problem)))
                continue
            if item.done is not None and not item.done.done():
                item.done.set_result(None)
            kept.append(_Item(item.payload, None))
        while kept and (self._is_closed or self._queued_bytes > MAX_QUEUED_BYTES):
            self._queued_bytes -= len(kept.pop().payload)
            self._lost += 1
        self._queue.extendleft(reversed(kept))

    async def _housekeep(self) -> None:
        while True:
            await asyncio.sleep(self._settings.head_interval_s)
            self._wake()
            await self._command("tick")

    # -- in the thread ---------------------------------------------------------------

    def _run(self) -> None:
        while True:
            command, done = self._commands.get()
            error: Exception | None = None
            try:
                if command == "group":
                    self._write_group()
                elif command == "open":
                    self._writer.open()
                elif command == "tick":
                    self._tick()
                else:
                    self._writer.close()
            except Exception as raised:  # It belongs to whoever waits.
                error = raised
            if done is not None:
                self._notify(_settle, done, error)
            if command == "close":
                return

    def _notify(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            pass  # The loop is closed: nothing waits any more.

    def _write_group(self) -> None:
        if self._last_group > 1 and self._settings.sync == "batch":
            time.sleep(GATHER_S)
        self._is_woken = False  # Before the queue is emptied: what is added now wakes us again.
        items = [self._queue.popleft() for _ in range(len(self._queue))]
        self._last_group = sum(item.done is not None for item in items)
        size = 1 if self._settings.sync == "each" else len(items) or 1
        for start in range(0, len(items), size):
            self._write_items(items[start : start + size])

    def _write_items(self, items: list[_Item]) -> None:
        error: Exception | None = None
        written = 0
        seals = self._writer.seals
        try:
            self._write_gap()
        except Exception as raised:
            error = raised
        else:
            try:
                self._writer.append([item.payload for item in items])
                written = len(items)
            except Exception as raised:  # of any kind: the callers wait for an answer
                error = raised
                written = self._writer.written
        self._notify(self._finish_group, items[:written], items[written:], error)
        if self._writer.seals != seals:
            self._publish_head()
            self._archive_segments()

    def _write_gap(self) -> None:
        """Write how many records are missing here, if any."""
        counts = (self._refused, self._lost)
        if counts == self._reported:
            return
        refused, lost = counts[0] - self._reported[0], counts[1] - self._reported[1]
        facts: dict[str, Fact] = {"refused": refused, "lost": lost}
        if self._failing_since:
            facts["since"] = self._failing_since
        payload = encode_event(AuditEvent(event=JOURNAL_GAP, facts=facts), self._clock_ns())
        try:
            self._writer.append([payload])
        finally:
            if self._writer.written:  # also if the seal after it could not be written
                self._reported = counts
        self._notify(self._note_success)

    def _tick(self) -> None:
        try:
            self._write_gap()
            self._writer.seal_if_due()
            before = self._retention.find_limit()
            if before is not None:
                self._writer.expire(before, self._archive.last_seq if self._archive.is_on else None)
            self._archive_segments()
        except Exception as error:
            self._notify(self._note_failure, error)
        self._publish_head()

    def _archive_segments(self) -> None:
        if self._archive.is_on:
            try:
                sealed = self._writer.list_sealed(self._archive.last_seq)
            except Exception:
                logger.exception("audit_segments_not_listed", extra={"folder": str(self._folder)})
                return  # The next check tries again.
            self._notify(self._archive.submit, sealed)

    def _publish_head(self) -> None:
        seq, digest = self._writer.head
        if seq in (self._head_seq, 0):
            return
        head = Head(node=self._writer.node, seq=seq, hash=digest, ts=format_time(self._clock_ns()))
        try:
            if self._key is not None:
                head = head.sign(self._key)
            write_head(self._folder / HEAD_FILE, head)
        except Exception as error:
            logger.error("audit_head_not_written", extra={"reason": _describe(error)})
            return
        self._head_seq = head.seq
        self._notify(self._anchor.submit, head)


def _settle(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _describe(error: Exception) -> str:
    """Describe a failure to operators and callers."""
    if isinstance(error, HubbubError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"unexpected {type(error).__name__}"  # Its text is for the log, not for callers.
