"""Keeps a running hub in step with the files that describe it.

Read again when a file changes, or when somebody asks (SIGHUP). Files that are wrong change
nothing: the hub goes on as it was, and the log and `hub.status` say what is wrong and
where. What could only change with a new process is named. How the files are read is
given by `hubbub.app`, what a change does to connections and lists is `Hub.apply`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from hubbub.errors import HubbubError
from hubbub.hub.config import HubConfig
from hubbub.hub.file_watch import FileWatch
from hubbub.hub.plan import Plan, diff
from hubbub.security.redact import redact
from hubbub.settings.serve import ServeSettings

logger = logging.getLogger("hubbub.hub")


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What the files say."""

    config: HubConfig
    settings: ServeSettings
    files: tuple[Path, ...] = ()
    """Those that it was read from."""


class ReloadState(msgspec.Struct, kw_only=True, rename="camel"):
    """How the last reading went, for `hub.status`."""

    files: list[str] = []
    is_watching: bool = False
    """Whether changes are noticed by themselves."""
    reloads: int = 0
    """How often something was taken over."""
    last_at: float | None = None
    """When the files were last read after the start, in seconds since 1970."""
    problem: str | None = None
    """Why the files as they are now are not in effect."""
    needs_restart: list[str] = []
    """Settings that differ from those that the process started with."""


class Reloadable(Protocol):
    """What is brought from one configuration to the next: a hub."""

    async def apply(self, config: HubConfig) -> None:
        """Take it over, all or nothing.

        Raises: HubbubError, and then nothing has changed.
        """


class Reloader:
    """Reads again, compares, and applies, one reading after another."""

    def __init__(
        self,
        hub: Reloadable,
        loaded: Loaded,
        load: Callable[[], Loaded],
        *,
        told: Callable[[str], None] = lambda line: None,
        changed: Callable[[Reloader], None] = lambda reloader: None,
    ) -> None:
        self.loaded = loaded
        """What is in effect."""
        self.state = ReloadState(files=list(map(str, loaded.files)))
        self._hub = hub
        self._load = load
        self._told = told
        """Gets a line for the person who started the hub."""
        self._changed = changed
        """Is called after each reading."""
        self.started_with = loaded.settings
        """The settings that hold for the life of the process."""
        self._asked = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """Read again soon, whether or not anything has changed."""
        self._asked.set()

    async def run(self) -> None:
        """Do so until cancelled."""
        try:
            while True:
                self._watch()
                await self._asked.wait()
                self._asked.clear()
                await self.reload()
        finally:
            self._unwatch()

    async def reload(self) -> Plan | None:
        """Read and apply; what differed, or None if the files are wrong."""
        self.state.last_at = time.time()
        try:
            loaded = await asyncio.to_thread(self._load)
            plan = diff(self.loaded.config, loaded.config)
            if plan:
                await self._hub.apply(loaded.config)
        except HubbubError as error:
            self._refused(redact(error.message))
            return None
        except Exception as error:  # Whatever is wrong with new settings must not end a hub that works.
            logger.exception("reload_failed")
            self._refused(redact(f"{type(error).__name__}: {error}"))
            return None
        self._taken_over(loaded, plan)
        return plan

    def _refused(self, reason: str) -> None:
        if reason != self.state.problem:
            logger.error("settings_not_taken_over", extra={"reason": reason})
        self.state.problem = reason
        self._changed(self)

    def _taken_over(self, loaded: Loaded, plan: Plan) -> None:
        fixed = diff(loaded.config, loaded.config, (self.started_with, loaded.settings)).restart
        needs_restart = [field.key for field in fixed]
        if needs_restart and needs_restart != self.state.needs_restart:
            logger.warning("restart_needed", extra={"settings": ", ".join(needs_restart)})
        if plan:
            self.state.reloads += 1
            marks = summary(plan)
            logger.info("settings_taken_over", extra={"changes": ", ".join(marks)})
            self._told(f"took over {', '.join(marks)}")
        self.loaded = loaded
        self.state.needs_restart, self.state.problem = needs_restart, None
        self.state.files = list(map(str, loaded.files))
        self._changed(self)

    def _watch(self) -> None:
        """Watch the files that are in effect, if they are to be watched."""
        files = self.loaded.files if self.loaded.config.hub.reload else ()
        self.state.is_watching = bool(files)
        if self._watching is not None and self._watching.get_name() == str(files) and not self._watching.done():
            return
        self._unwatch()
        if files:
            self._watching = asyncio.create_task(self._listen(FileWatch(files)), name=str(files))

    async def _listen(self, watch: FileWatch) -> None:
        async for _ in watch.changes():
            self._asked.set()

    def _unwatch(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None


def summary(plan: Plan) -> list[str]:
    """A plan in a few words: `+files`, `~view reader`."""
    marks = {"add": "+", "remove": "-", "change": "~"}
    return [
        f"{marks[step.action]}{'' if step.part in ('server', 'hub') else f'{step.part} '}{step.name}"
        for step in plan.steps
    ]
