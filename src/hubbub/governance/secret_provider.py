"""Reads secrets from their sources, for the tenants that may use them.

A secret is read when it is first needed, and again after `refresh_s` or when its file has changed, so that a rotated
value is used without a restart. Every value that was read is masked in logs and errors from then on, also after it was
replaced. Errors name the secret and its source, never its value.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from hubbub.errors import SecretDenied, SecretUnavailable
from hubbub.governance.secret_sources import SourceFailed, file_stamp, read_source
from hubbub.security.known_values import KNOWN_VALUES
from hubbub.settings.governance import SecretSettings, SecretSource
from hubbub.settings.secret import Secret

OnSecretEvent: TypeAlias = Callable[[str, Mapping[str, str]], None]
"""Gets `secret.read`, `secret.failed` or `secret.denied`, with the secret's name, its source and the tenant."""

FAILURE_RETRY_S: Final = 5.0
"""How long a failure is reported again before the source is read again, so that calls start no flood of programs."""


class _Reading(msgspec.Struct, frozen=True):
    """The outcome of the last attempt to read one source."""

    read_at: float
    stamp: tuple[int, ...]
    """Identifies the version of a file; empty for other sources."""
    value: Secret | None = None
    problem: str = ""


class SecretProvider:
    """The secrets that one server of the hub refers to. Providers with the same settings are equal."""

    def __init__(
        self,
        settings: Mapping[str, SecretSettings],
        on_event: OnSecretEvent | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._settings = dict(settings)
        self.on_event = on_event
        self._clock = clock
        self._environ = environ
        self._readings: dict[tuple[str, str | None], _Reading] = {}
        """By the name, and the tenant if it has a source of its own."""
        self._locks: dict[tuple[str, str | None], asyncio.Lock] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretProvider) and self._settings == other._settings

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<SecretProvider: {', '.join(self._settings)}>"

    async def resolve(self, name: str, tenant: str | None) -> Secret:
        """Return the value of a secret for a tenant; None is the hub itself.

        Raises:
            SecretDenied: it may not be used for this tenant.
            SecretUnavailable: it cannot be read.
        """
        settings = self._settings.get(name)
        if settings is None:
            raise SecretUnavailable(f"The secret {name!r} is not configured; add [secrets.{name}]", name)
        source = settings.source_for(tenant)
        if source is None or not settings.allows(tenant):
            self._report("secret.denied", name, "" if source is None else source.source_kind, tenant)
            raise _denied(name, tenant)
        key = (name, tenant if source is not settings else None)
        reading = self._readings.get(key)
        if reading is None or not self._is_fresh(reading, source, settings.refresh_s):
            async with self._locks.setdefault(key, asyncio.Lock()):
                reading = self._readings.get(key)
                if reading is None or not self._is_fresh(reading, source, settings.refresh_s):
                    reading = await self._read(key, source, tenant)
        if reading.value is None:
            raise SecretUnavailable(
                f"The secret {name!r} ({source.source_kind}) cannot be read: {reading.problem}", name
            )
        return reading.value

    def _is_fresh(self, reading: _Reading, source: SecretSource, refresh_s: float) -> bool:
        lifetime_s = FAILURE_RETRY_S if reading.value is None else refresh_s
        return self._clock() - reading.read_at < lifetime_s and reading.stamp == file_stamp(source)

    async def _read(self, key: tuple[str, str | None], source: SecretSource, tenant: str | None) -> _Reading:
        name, previous = key[0], self._readings.get(key)
        stamp = file_stamp(source)  # Before it is read: if it changes meanwhile, it is read once more.
        try:
            value = Secret(await read_source(source, self._environ))
        except SourceFailed as error:
            reading = _Reading(self._clock(), stamp, problem=error.message)
            self._report("secret.failed", name, source.source_kind, tenant)
        else:
            KNOWN_VALUES.add(value.reveal())
            reading = _Reading(self._clock(), stamp, value)
            if previous is None or previous.value != value:
                self._report("secret.read", name, source.source_kind, tenant)
        self._readings[key] = reading
        return reading

    def _report(self, event: str, name: str, source: str, tenant: str | None) -> None:
        if self.on_event is not None:
            self.on_event(event, {"secret": name, "source": source, "tenant": tenant or ""})


def _denied(name: str, tenant: str | None) -> SecretDenied:
    if tenant is None:
        return SecretDenied(
            f"The secret {name!r} may not be used by the hub itself, which needs it to read lists; "
            f"set `hub = true` in [secrets.{name}], with a source",
            name,
        )
    return SecretDenied(
        f"The secret {name!r} may not be used for the tenant {tenant!r}; "
        f"add the tenant to `tenants` of [secrets.{name}], or add [secrets.{name}.tenant.{tenant}]",
        name,
    )
