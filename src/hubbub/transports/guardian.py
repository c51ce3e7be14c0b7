"""Ends the child servers if our own process is killed and cannot do it.

One small shell for the whole process, in a session of its own, holds the read end of a pipe. Process groups are
written to the pipe when they start and end. When the pipe closes, however our process ended, the shell sends
TERM to the remaining groups, and KILL to those that ignore it. The stdio link starts the shell with the first
server; it ends with the last one.
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

# One guardian per process, not per client or event loop: it acts after the process has ended, so a second one would
# be of no use. Event loops in several threads share it, so changes are made under a lock.
_guardians: list[Guardian] = []
"""The guardian of this process, if it is running; at most one."""
_lock = threading.Lock()


class Guardian:
    """The guardian shell and the write end of its pipe."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.groups: set[int] = set()
        self._process = subprocess.Popen(
            (_SHELL, "-c", _SCRIPT, "guardian", str(bounds.GUARDIAN_S * 10)),
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
    def is_there(self) -> bool:
        """Whether the shell runs and was started by this process, not by one that we were forked from."""
        return self.owner == os.getpid() and self._process.poll() is None

    def tell(self, change: str, group: int) -> None:
        """Report that a group started (`+`) or ended (`-`). A line is short enough for one atomic write to a pipe."""
        try:
            self._pipe.write(f"{change} {group}\n".encode())
        except OSError as error:
            logger.warning("nobody would end the servers if this process were killed: %s", error)

    def leave(self) -> None:
        """Let the shell end the remaining groups and itself; wait a short time for it."""
        self._pipe.close()
        try:
            self._process.wait(bounds.GUARDIAN_S)
        except subprocess.TimeoutExpired:
            self._process.returncode = 0  # still ending groups; it does that without us


def guard(group: int) -> None:
    """End this process group if our process ends first."""
    if os.name == "nt":
        return
    with _lock:
        if not _guardians or not _guardians[0].is_there:
            try:
                _guardians[:] = [Guardian()]
            except OSError as error:
                logger.warning("nobody would end the servers if this process were killed: %s", error)
                return
            atexit.unregister(_leave)
            atexit.register(_leave)
        _guardians[0].groups.add(group)
        _guardians[0].tell("+", group)


def release(group: int) -> None:
    """Stop guarding a group that has ended, because its number may be reused."""
    with _lock:
        if not _guardians or group not in _guardians[0].groups or not _guardians[0].is_there:
            return
        guardian = _guardians[0]
        guardian.groups.discard(group)
        guardian.tell("-", group)
        is_last = not guardian.groups
        if is_last:
            _guardians.clear()
    if is_last:
        # In a thread, because a shell takes a moment to end, and is a zombie until it is waited for.
        threading.Thread(target=guardian.leave, name="hubbub-guardian", daemon=True).start()


def _leave() -> None:
    for guardian in _guardians:
        if guardian.owner == os.getpid():
            guardian.leave()
