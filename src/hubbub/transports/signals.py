"""Handling of SIGINT and SIGTERM (stop) and SIGHUP (reload) in the event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def observe_stop_signals(callback: Callable[[], object]) -> Iterator[None]:
    """Call `callback` in this loop when SIGINT or SIGTERM arrives, in addition to the existing handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(callback)
        handlers[number](number, frame)

    for number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(number)
        if callable(handler):
            handlers[number] = handler
            signal.signal(number, handle)
    try:
        yield
    finally:
        for known, handler in handlers.items():
            if signal.getsignal(known) is handle:
                signal.signal(known, handler)


@contextmanager
def stop_signals(
    stop: Callable[[], object], numbers: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)
) -> Iterator[None]:
    """Call `stop` at each signal while the block runs. If one came, later ones are ignored: the process ends anyway."""
    loop = asyncio.get_running_loop()
    received: list[int] = []
    handled: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        received.append(number)
        stop()

    for number in numbers:
        try:
            loop.add_signal_handler(number, on_signal, number)
        except (NotImplementedError, RuntimeError):  # Windows, or not the main thread
            break
        handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
            if received:
                # Closing the loop restores the default, and a second signal would kill the process.
                signal.signal(number, signal.SIG_IGN)


@contextmanager
def hang_up_signal(reload: Callable[[], object]) -> Iterator[None]:
    """Call `reload` at each SIGHUP while the block runs; if the terminal was closed, SIGHUP ends the process."""
    loop = asyncio.get_running_loop()
    had_terminal = _has_terminal()

    def on_signal() -> None:
        if had_terminal and not _has_terminal():
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            reload()

    try:
        loop.add_signal_handler(signal.SIGHUP, on_signal)
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
