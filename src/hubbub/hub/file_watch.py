"""Detects when the contents of files change, whichever way they are written.

Editors write in place, or write another file and rename it; mounted configuration swaps a link in the same folder. So
the folders are watched, and after any event there the files are compared. If the system cannot watch more folders, the
files are compared every few seconds. The only module that imports watchfiles.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

from hubbub import bounds

logger = logging.getLogger("hubbub.hub")
FileDigests = tuple[bytes | None, ...]


class FileWatch:
    """Files, and the digests of their contents at the last look.

    The first look always reports a change, because earlier changes cannot be known.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self.files = tuple(files)
        self._last_digests: FileDigests | None = None

    def poll(self) -> bool:
        """Whether the files have changed since the last look; a file that can no longer be read has changed."""
        now = tuple(map(_digest, self.files))
        is_changed = now != self._last_digests
        self._last_digests = now
        return is_changed

    async def changes(self) -> AsyncIterator[None]:
        """Yield after each change, once the files have settled."""
        if not self.files:
            return
        async for _ in self._wait_for_events():
            if await asyncio.to_thread(self.poll):
                yield

    async def _wait_for_events(self) -> AsyncIterator[None]:
        """Yield after each event in the folders, and periodically in case an event was missed."""
        try:
            awatch = await asyncio.to_thread(_import_awatch)
            async for _ in awatch(
                *self._folders(),
                recursive=False,
                watch_filter=None,
                step=int(bounds.WATCH_SETTLE_S * 1000),
                rust_timeout=int(bounds.WATCH_POLL_S * 1000),
                yield_on_timeout=True,
            ):
                yield
        except OSError as error:  # No more watches on this system, or the folder itself is gone.
            logger.warning("files_not_watched", extra={"reason": error.strerror or str(error)})
        while True:
            await asyncio.sleep(bounds.WATCH_POLL_S)
            yield

    def _folders(self) -> list[Path]:
        """The folders of the files and of the targets of links."""
        return sorted({path.parent for file in self.files for path in (file.absolute(), file.resolve())})


def _import_awatch() -> Callable[..., AsyncIterator[Any]]:
    """Import watchfiles; called in a thread, because it takes as long as some servers take to start."""
    from watchfiles import awatch

    return awatch


def _digest(file: Path) -> bytes | None:
    try:
        return hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return None
