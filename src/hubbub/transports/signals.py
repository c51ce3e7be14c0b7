"""SIGINT and SIGTERM as a wish to stop, heard by the event loop."""

from __future__ import annotations

import asyncio
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
