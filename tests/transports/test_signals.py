"""SIGHUP reloads, unless the terminal was closed."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios

PROGRAM = """
import asyncio
from hubbub.transports.signals import hang_up_signal, stop_signals

async def main():
    stopped = asyncio.Event()
    with stop_signals(stopped.set), hang_up_signal(lambda: print("reload", flush=True)):
        print("ready", flush=True)
        await asyncio.wait_for(stopped.wait(), 60)
    print("stopped", flush=True)

asyncio.run(main())
"""


def test_sighup_calls_the_reload_callback() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, encoding="utf-8", start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(2):
            process.send_signal(signal.SIGHUP)
            assert process.stdout.readline() == "reload\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "stopped\n"


def test_sighup_reloads_while_the_terminal_exists_and_stops_after_its_end() -> None:
    master, slave = pty.openpty()

    def take_terminal() -> None:
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=slave, stdout=subprocess.PIPE, encoding="utf-8", start_new_session=True,
        preexec_fn=take_terminal,  # noqa: PLW1509 - it only makes one system call
    ) as process:  # fmt: skip
        os.close(slave)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == "reload\n"
        os.close(master)
        assert process.stdout.read() == "stopped\n"
        assert process.wait() == 0
