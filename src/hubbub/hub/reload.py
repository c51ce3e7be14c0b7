"""Applies changed settings files to a running hub.

The files are read again when one of them changes, and on SIGHUP. Invalid files change nothing: the hub keeps its
configuration, and the log and `hub.status` report the problem. Settings that need a new process are reported too.
`hubbub.assembly.hub_reload` reads the files; `Gateway.apply` changes connections and lists.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from hubbub import bounds
from hubbub.errors import HubbubError
from hubbub.hub.config import HubConfig
from hubbub.hub.file_watch import FileWatch
from hubbub.hub.plan import Action, Field, Plan, diff, diff_settings
from hubbub.security.redact import redact
from hubbub.settings.serve import ServeSettings
from hubbub.settings.sources import GOVERNANCE, TENANTS

if TYPE_CHECKING:
    from hubbub.settings.oauth import OAuthSettings

logger = logging.getLogger("hubbub.hub")

_MARKS: Final[dict[Action, str]] = {"add": "+", "remove": "-", "change": "~"}


class LoadedConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration that was read from the files."""

    config: HubConfig
    settings: ServeSettings
    oauth: OAuthSettings | None = None
    warnings: tuple[str, ...] = ()
    """Warnings about probable mistakes. The configuration is used nevertheless."""
    files: tuple[Path, ...] = ()
    """The files that it was read from."""
    trust_records: tuple[Path, ...] = ()
    """Trust records, which decide whether the files are used."""
    policy_digest: str = ""
    """Digest of the file of Cedar policies, whose text is not part of the config."""


class ReloadState(msgspec.Struct, kw_only=True, rename="camel"):
    """The outcome of the last reload, for `hub.status`."""

    files: list[str] = []
    is_watching: bool = False
    """Whether the files are watched for changes."""
    reloads: int = 0
    """Number of reloads that changed something."""
    last_at: float | None = None
    """When the files were last read after the start, in seconds since 1970."""
    problem: str | None = None
    """Why the current files are not in effect."""
    needs_restart: list[str] = []
    """Settings that differ from those that the process started with."""


class Reloadable(Protocol):
    """A hub whose configuration can be replaced."""

    async def apply(self, config: HubConfig) -> None:
        """Apply the whole configuration or nothing.

        Raises: HubbubError, and then nothing has changed.
        """


class Reloader:
    """Reads the files again, compares, and applies the changes, one reload at a time."""

    def __init__(
        self,
        hub: Reloadable,
        loaded: LoadedConfig,
        load: Callable[[], LoadedConfig],
        *,
        report: Callable[[str], None] = lambda line: None,
        on_reload: Callable[[Reloader], None] = lambda reloader: None,
    ) -> None:
        self.loaded = loaded
        """The configuration in effect."""
        self.state = ReloadState(files=list(map(str, loaded.files)))
        self._hub = hub
        self._load = load
        self._report = report
        """Called with a line for the person who started the hub."""
        self._on_reload = on_reload
        """Called after each reload that changed something, also if only the problem is gone or another."""
        self.initial_settings = loaded.settings
        """The settings that are fixed for the life of the process."""
        self.initial_oauth = loaded.oauth
        self._requested = asyncio.Event()
        self._watch_task: asyncio.Task[None] | None = None

    def request_reload(self) -> None:
        """Request a reload, whether or not a file has changed."""
        self._requested.set()

    async def run(self) -> None:
        """Watch the files and reload until cancelled."""
        try:
            while True:
                self._watch()
                await self._requested.wait()
                self._requested.clear()
                await self.reload()
        finally:
            self._unwatch()

    async def reload(self) -> Plan | None:
        """Read the files and apply them; return what differed, or None if they are invalid."""
        self.state.last_at = time.time()
        try:
            loaded = await asyncio.to_thread(self._load)
            plan = diff(self.loaded.config, loaded.config)
            if plan or loaded.policy_digest != self.loaded.policy_digest:
                await self._hub.apply(loaded.config)
        except HubbubError as error:
            self._record_failure(redact(error.message))
            return None
        except Exception as error:  # An error in new settings must not end a hub that works.
            logger.exception("reload_failed")
            self._record_failure(redact(f"{type(error).__name__}: {error}"))
            return None
        self._record_success(loaded, plan)
        return plan

    def _record_failure(self, reason: str) -> None:
        if reason != self.state.problem:
            logger.error("settings_not_applied", extra={"reason": reason})
        self.state.problem = reason
        self._on_reload(self)

    def _record_success(self, loaded: LoadedConfig, plan: Plan) -> None:
        fixed = diff_settings(self.initial_settings, loaded.settings, self.initial_oauth, loaded.oauth)
        needs_restart = [field.key for field in fixed]
        if needs_restart and needs_restart != self.state.needs_restart:
            logger.warning("restart_needed", extra={"settings": ", ".join(needs_restart)})
        if plan:
            self.state.reloads += 1
            marks = summarize_plan(plan)
            logger.info("settings_applied", extra={"changes": ", ".join(marks)})
            self._report(f"applied {', '.join(marks)}")
        for warning in loaded.warnings:
            if warning not in self.loaded.warnings:
                self._report(f"warning: {warning}")
        is_same = loaded == self.loaded and needs_restart == self.state.needs_restart and self.state.problem is None
        self.loaded = loaded
        self.state.needs_restart, self.state.problem = needs_restart, None
        self.state.files = list(map(str, loaded.files))
        if not is_same:
            self._on_reload(self)

    def _watch(self) -> None:
        """Watch the files that are in effect, if `reload` is set."""
        files = (*self.loaded.files, *self.loaded.trust_records) if self.loaded.config.hub.reload else ()
        self.state.is_watching = bool(files)
        if self._watch_task is not None and self._watch_task.get_name() == str(files) and not self._watch_task.done():
            return
        self._unwatch()
        if files:
            self._watch_task = asyncio.create_task(self._watch_files(FileWatch(files)), name=str(files))

    async def _watch_files(self, watch: FileWatch) -> None:
        async for _ in watch.changes():
            self._requested.set()

    def _unwatch(self) -> None:
        if self._watch_task is not None:
            self._watch_task.cancel()
            self._watch_task = None


def summarize_plan(plan: Plan) -> list[str]:
    """A plan in a few words: `+files`, `~view reader`, `-tenants.acme`, `~policy`."""
    words: list[str] = []
    for step in plan.steps:
        if step.part == "hub":
            words += dict.fromkeys(map(_summarize_field, step.fields))
        else:
            words.append(f"{_MARKS[step.action]}{'' if step.part == 'server' else f'{step.part} '}{step.name}")
    more = len(words) - bounds.SHOWN_KEYS
    return words if more <= 0 else [*words[: bounds.SHOWN_KEYS], f"{more} more"]


def _summarize_field(field: Field) -> str:
    """Name the section of a setting; a tenant with its name, because it may have been removed by mistake."""
    section = re.split(r"[.\[]", field.key, maxsplit=1)[0]
    if section == TENANTS:
        action: Action = "add" if field.before is None else "remove" if field.after is None else "change"
        return f"{_MARKS[action]}{field.key}"
    return f"~{section if section in GOVERNANCE else 'hub'}"
