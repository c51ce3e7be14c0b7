"""SIGINT and SIGTERM as a wish to stop, SIGHUP as a wish to look again, heard by the event loop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` at each signal meanwhile. Once one came, those that come later find a process that ends anyway."""
    loop = asyncio.get_running_loop()
    came: list[int] = []
    watched: list[signal.Signals] = []

    def note(number: signal.Signals) -> None:
        came.append(number)
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, note, number)
        except (NotImplementedError, RuntimeError):  # Windows, or not the main thread
            break
        watched.append(number)
    try:
        yield
    finally:
        for number in watched:
            loop.remove_signal_handler(number)
            if came:
                # Closing the loop would bring back the default, and a second signal would be a violent end.
                signal.signal(number, signal.SIG_IGN)


@contextmanager
def hang_up_signal(ask: Callable[[], object]) -> Iterator[None]:
    """Call `ask` at each SIGHUP meanwhile; but one that comes because our terminal is gone still ends the process."""
    loop = asyncio.get_running_loop()
    had_terminal = _has_terminal()

    def note() -> None:
        if had_terminal and not _has_terminal():
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            ask()

    try:
        loop.add_signal_handler(signal.SIGHUP, note)
    except (AttributeError, NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
