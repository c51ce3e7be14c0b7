"""Keeps one server connected: reconnects after each loss, each time after a longer wait.

`Fleet` has one for each of its servers, and the hub for each of its upstreams.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from hubbub import bounds
from hubbub.client.client import Client
from hubbub.errors import ConnectionClosed, HubbubError
from hubbub.net.backoff import Backoff

logger = logging.getLogger("hubbub.client")


class ReconnectingClient:
    """Keeps the client of one server open. Starts with `start`, ends with `close`."""

    def __init__(
        self,
        name: str,
        make: Callable[[], Client],
        *,
        restart: bool = True,
        backoff: Backoff | None = None,
        on_change: Callable[[], Any] | None = None,
    ) -> None:
        self.name = name
        self.client: Client | None = None
        """The connected client."""
        self.error: HubbubError | None = None
        """Why it is not connected."""
        self.retry_at: float | None = None
        """When it is tried again, on the event loop's clock; None unless it is waiting for that."""
        self._make = make
        self._restart = restart
        self._backoff = Backoff() if backoff is None else backoff
        self._on_change = on_change
        """Called when one of the three above has changed."""
        self._task: asyncio.Task[None] | None = None
        self._attempt_finished = asyncio.Event()
        self._retry_now = asyncio.Event()
        self._is_connecting = True
        self._was_connected = False
        self._is_cancelled = False
        self._is_closed = False

    @property
    def is_started(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        """Start connecting; does nothing if already started."""
        if self._task is None and not self._is_closed:
            self._task = asyncio.create_task(self._run())

    def cancel(self) -> None:
        """Stop, without waiting until the server is disconnected."""
        self._is_closed = True
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True  # a second cancellation would interrupt the disconnecting
            self._task.cancel()

    async def close(self) -> None:
        """Disconnect from the server and stop."""
        self.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def wait_for_attempt(self) -> None:
        """Wait until the current or first attempt has succeeded or failed."""
        await self._attempt_finished.wait()

    async def get_client(self) -> Client:
        """Return the client; if it is not connected, try once at once.

        Raises:
            HubbubError: why that attempt failed.
        """
        if self.open_client is None and not self._is_closed:
            self.start()
            if not self._is_connecting:
                self._attempt_finished.clear()
                self._retry_now.set()
            await self._attempt_finished.wait()
        if self.client is None:
            raise self.error or ConnectionClosed(f"The connection to {self.name} was closed")
        return self.client

    @property
    def open_client(self) -> Client | None:
        """The client, unless it was lost and that has not been handled yet."""
        return self.client if self.client is not None and self.client.is_open else None

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while True:
                started = clock()
                await self._connect_and_wait()
                if clock() - started > bounds.STABLE_AFTER_S:
                    self._backoff.reset()
                if not self._restart:
                    return
                await self._wait_for_retry(self._backoff.next_s())
        finally:
            self._is_closed = True
            self._attempt_finished.set()

    async def _connect_and_wait(self) -> None:
        """Connect, and wait until the connection is lost; then `error` has the reason."""
        client = self._make()
        try:
            await client.start()
            self.client, self.error = client, None
            self._finish_attempt()
            if self._was_connected:
                client.assume_changed()
            self._was_connected = True
            self._record_failure(await client.wait_lost() or ConnectionClosed(f"The client of {self.name} was closed"))
            self._notify_change()
        except HubbubError as error:
            self._record_failure(error)
            self._finish_attempt()
        finally:
            self.client = None
            await client.close()

    def _record_failure(self, error: HubbubError) -> None:
        self.client, self.error = None, error
        logger.warning("%s is not connected: %s", self.name, error.message)

    def _finish_attempt(self) -> None:
        self._is_connecting = False
        self._attempt_finished.set()
        self._notify_change()

    async def _wait_for_retry(self, seconds: float) -> None:
        """Wait for the next attempt, or until `get_client` is called."""
        self.retry_at = asyncio.get_running_loop().time() + seconds
        self._notify_change()
        try:
            async with asyncio.timeout(seconds):
                await self._retry_now.wait()
        except TimeoutError:
            pass
        self._retry_now.clear()
        self._attempt_finished.clear()
        self._is_connecting, self.retry_at = True, None
        self._notify_change()

    def _notify_change(self) -> None:
        if self._on_change is not None:
            self._on_change()
