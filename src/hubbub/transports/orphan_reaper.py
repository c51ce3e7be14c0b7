"""Ends the child servers if our own process is killed and cannot do it.

One small shell for the whole process, in a session of its own, holds the read end of a pipe. Process groups are
written to the pipe when they start and end. When the pipe closes, however our process ended, the shell sends
TERM to the remaining groups, and KILL to those that ignore it. The stdio transport starts the shell with the
first server; it ends with the last one.
"""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import threading
from typing import Final

from hubbub import bounds

logger = logging.getLogger("hubbub.transports")

_FAILED_MESSAGE: Final = "orphan reaper failed: stdio servers keep running if this process is killed: %s"
_SHELL: Final = "/bin/sh"
_SCRIPT: Final = """
trap '' HUP INT TERM
groups=
while read -r change group; do
    case $change in
    +) groups="$groups $group" ;;
    -) rest=
       for known in $groups; do [ "$known" = "$group" ] || rest="$rest $known"; done
       groups=$rest ;;
    esac
done
left=
for group in $groups; do kill -TERM "-$group" 2>/dev/null && left="$left $group"; done
[ -n "$left" ] || exit 0
for _ in $(seq "$1"); do
    alive=
    for group in $left; do kill -0 "-$group" 2>/dev/null && alive=yes; done
    [ -n "$alive" ] || exit 0
    sleep 0.1
done
for group in $left; do kill -KILL "-$group" 2>/dev/null; done
"""

# One reaper per process, not per client or event loop: it acts after the process has ended, so a second one would
# be of no use. Event loops in several threads share it, so changes are made under a lock.
_reapers: list[OrphanReaper] = []
"""The reaper of this process, if it is running; at most one."""
_lock = threading.Lock()


class OrphanReaper:
    """The reaper's shell and the write end of its pipe."""

    def __init__(self) -> None:
        self.owner_pid = os.getpid()
        self.groups: set[int] = set()
        self._process = subprocess.Popen(
            (_SHELL, "-c", _SCRIPT, "hubbub-reaper", str(bounds.ORPHAN_EXIT_TIMEOUT_S * 10)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": "/bin:/usr/bin"},
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the shell runs and was started by this process, not by one that we were forked from."""
        return self.owner_pid == os.getpid() and self._process.poll() is None

    def report_change(self, change: str, group: int) -> None:
        """Report that a group started (`+`) or ended (`-`). A line is short enough for one atomic write to a pipe."""
        try:
            self._pipe.write(f"{change} {group}\n".encode())
        except OSError as error:
            logger.warning(_FAILED_MESSAGE, error)

    def stop(self) -> None:
        """Let the shell end the remaining groups and itself; wait a short time for it."""
        self._pipe.close()
        try:
            self._process.wait(bounds.ORPHAN_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.returncode = 0  # still ending groups; it does that without us


def register_group(group: int) -> None:
    """End this process group if our process ends first."""
    if os.name == "nt":
        return
    with _lock:
        if not _reapers or not _reapers[0].is_running:
            try:
                _reapers[:] = [OrphanReaper()]
            except OSError as error:
                logger.warning(_FAILED_MESSAGE, error)
                return
            atexit.unregister(_stop_at_exit)
            atexit.register(_stop_at_exit)
        _reapers[0].groups.add(group)
        _reapers[0].report_change("+", group)


def unregister_group(group: int) -> None:
    """Forget a group that has ended, because its number may be reused."""
    with _lock:
        if not _reapers or group not in _reapers[0].groups or not _reapers[0].is_running:
            return
        reaper = _reapers[0]
        reaper.groups.discard(group)
        reaper.report_change("-", group)
        is_last = not reaper.groups
        if is_last:
            _reapers.clear()
    if is_last:
        # In a thread, because a shell takes a moment to end, and is a zombie until it is waited for.
        threading.Thread(target=reaper.stop, name="hubbub-reaper", daemon=True).start()


def _stop_at_exit() -> None:
    for reaper in _reapers:
        if reaper.owner_pid == os.getpid():
            reaper.stop()
