"""The sessions of each tenant with all upstreams of one hub: how many it may have, and how long they last.

Every `SessionPool` of a hub registers its sessions in the same table. A tenant that has too many loses the one that was
idle for longest, at any upstream, before a call of it is refused; sessions of other tenants are never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from hubbub.errors import Overloaded
from hubbub.settings.governance import TenantSettings

if TYPE_CHECKING:
    from hubbub.hub.forwarding.upstream_session import UpstreamSession

NO_LIMIT: Final = float("inf")


class Lifetimes(msgspec.Struct, frozen=True):
    """How long a session lasts."""

    idle_s: float
    """Seconds without a call until it ends."""
    max_s: float = NO_LIMIT
    """Seconds until no call gets it any more; calls in flight may finish."""


class _Entry(msgspec.Struct, frozen=True):
    is_process: bool
    drop: Callable[[UpstreamSession], None]


class TenantSessions:
    """The table of one hub. Callers without a tenant are not counted."""

    def __init__(self, tenants: Iterable[TenantSettings] = ()) -> None:
        self._settings: dict[str, TenantSettings] = {}
        self.lifetimes: dict[str, Lifetimes] = {}
        """The session lifetimes of each tenant. Others have those of the upstream."""
        self._sessions: dict[str, dict[UpstreamSession, _Entry]] = {}
        self.configure(tenants)

    def configure(self, tenants: Iterable[TenantSettings]) -> None:
        """Replace the limits; sessions above a lower limit stay until they end."""
        self._settings = {tenant.name: tenant for tenant in tenants}
        self.lifetimes = {
            tenant.name: Lifetimes(tenant.session_idle_s, tenant.session_max_s) for tenant in self._settings.values()
        }

    def names(self) -> list[str]:
        """The tenants that have settings."""
        return list(self._settings)

    def settings(self, tenant: str) -> TenantSettings | None:
        """The settings of a tenant; None if there is no tenant of this name."""
        return self._settings.get(tenant)

    def count(self, tenant: str) -> int:
        """Number of sessions that a tenant has."""
        return len(self._sessions.get(tenant, ()))

    def make_room(self, tenant: str, *, is_process: bool) -> None:
        """Let a tenant open one more session, in place of an idle one if it has too many.

        Raises:
            Overloaded: it has too many, and all of them carry calls.
        """
        settings = self._settings.get(tenant)
        if settings is None:
            return
        held = self._sessions.get(tenant, {})
        processes = {session: entry for session, entry in held.items() if entry.is_process}
        if is_process and len(processes) >= settings.max_processes and not _drop_idle(processes):
            raise _make_overloaded("processes", settings.max_processes, "max_processes", tenant)
        if len(held) >= settings.max_sessions and not _drop_idle(held):
            raise _make_overloaded("sessions", settings.max_sessions, "max_sessions", tenant)

    def add(
        self, tenant: str, session: UpstreamSession, drop: Callable[[UpstreamSession], None], *, is_process: bool
    ) -> None:
        """Count a session; `drop` ends it, and calls `remove`."""
        if tenant:
            self._sessions.setdefault(tenant, {})[session] = _Entry(is_process, drop)

    def remove(self, tenant: str, session: UpstreamSession) -> None:
        """Stop counting a session, because it has ended."""
        held = self._sessions.get(tenant)
        if held is not None:
            held.pop(session, None)
            if not held:
                del self._sessions[tenant]


def _drop_idle(held: dict[UpstreamSession, _Entry]) -> bool:
    """End the session that was idle for longest; return whether there was one."""
    idle = [session for session in held if not session.calls]
    if not idle:
        return False
    oldest = min(idle, key=lambda session: session.idle_since)
    held[oldest].drop(oldest)
    return True


def _make_overloaded(subject: str, limit: int, setting: str, tenant: str) -> Overloaded:
    hint = f"the operator can raise {setting} of the tenant {tenant}"
    return Overloaded(f"{subject} of the tenant {tenant} with servers", limit, hint)
