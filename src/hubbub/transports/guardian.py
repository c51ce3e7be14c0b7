"""Ends the servers that we started when we are killed and cannot do it ourselves.

One small shell for the whole process, in a session of its own, holds the read end of a pipe. It is told which
process groups are ours as they come and go. When the pipe ends, because we did in whatever way,
it sends TERM to the groups that are left, and KILL to those that do not mind. The stdio link starts it.
"""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
from typing import Final

from hubbub import bounds

logger = logging.getLogger("hubbub.transports")

_SHELL: Final = "/bin/sh"
_SCRIPT: Final = f"""
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
for _ in $(seq {bounds.GUARDIAN_S * 10}); do
    alive=
    for group in $left; do kill -0 "-$group" 2>/dev/null && alive=yes; done
    [ -n "$alive" ] || exit 0
    sleep 0.1
done
for group in $left; do kill -KILL "-$group" 2>/dev/null; done
"""

_guardians: list[Guardian] = []
"""At most one that is there; it is started with the first server."""


class Guardian:
    """The shell and our end of its pipe."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._process = subprocess.Popen(
            (_SHELL, "-c", _SCRIPT),
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
        atexit.register(self._leave)

    @property
    def pid(self) -> int:
        """The shell's."""
        return self._process.pid

    @property
    def is_there(self) -> bool:
        """Whether it lives, and is ours rather than that of a process we were forked from."""
        return self.owner == os.getpid() and self._process.poll() is None

    def tell(self, change: str, group: int) -> None:
        """A group came (`+`) or is gone (`-`). A line is shorter than what pipes take whole."""
        try:
            self._pipe.write(f"{change} {group}\n".encode())
        except OSError as error:
            logger.warning("nobody would end the servers if this process were killed: %s", error)

    def _leave(self) -> None:
        if self.owner != os.getpid():
            return
        self._pipe.close()
        try:
            self._process.wait(bounds.GUARDIAN_S)
        except subprocess.TimeoutExpired:
            self._process.returncode = 0  # It is still ending what we left behind, and needs nobody for that.


def guard(group: int) -> None:
    """End this process group if we come to an end before it."""
    if os.name == "nt":
        return
    if not _guardians or not _guardians[0].is_there:
        try:
            _guardians[:] = [Guardian()]
        except OSError as error:
            logger.warning("nobody would end the servers if this process were killed: %s", error)
            return
    _guardians[0].tell("+", group)


def release(group: int) -> None:
    """It is gone; its number may soon be that of another."""
    if _guardians and _guardians[0].is_there:
        _guardians[0].tell("-", group)
