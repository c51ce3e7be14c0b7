"""Builds the governor of a hub from the settings, and applies changed settings to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hubbub import bounds
from hubbub.assembly.fixed_sections import needs_governor, refuse_fixed_changes
from hubbub.governance.approvals import ApprovalEvent, Approvals
from hubbub.governance.call_quotas import CallQuotas, TenantCalls
from hubbub.governance.governor import Governor
from hubbub.governance.policy_loader import load_policy
from hubbub.hub.config import HubConfig, UpstreamConfig
from hubbub.hub.recorded_events import RecordedEvents
from hubbub.settings.folders import data_folder
from hubbub.settings.governance import (
    AuditSettings,
    GovernanceSettings,
    TenantSettings,
)
from hubbub.settings.secret import SecretTemplate

if TYPE_CHECKING:
    from hubbub.governance.journal import Journal
    from hubbub.hub.gateway import Gateway

_AUDIT_FOLDER = "audit"


def add_governor(hub: Gateway) -> GovernorSetup | None:
    """Give a hub its governor, if its settings need one.

    Raises: SettingsError.
    """
    return GovernorSetup(hub) if needs_governor(hub.config.governance) else None


class GovernorSetup:
    """The parts of one governor, and how changed settings reach them."""

    def __init__(self, hub: Gateway) -> None:
        settings = hub.config.governance
        self._hub = hub
        self._quotas = CallQuotas(settings.quotas)
        self._tenant_calls = TenantCalls(settings.tenants)
        self.approvals = Approvals(settings.approvals, on_event=self._record_approval)
        self._retiring: set[asyncio.Future[int]] = set()
        self.journal = _make_journal(settings)
        self.policy = load_policy(replace(settings, tenants=effective_tenants(hub.config)))
        """The policy in effect."""
        self.governor = Governor(
            self.policy,
            quotas=self._quotas,
            tenant_calls=self._tenant_calls if settings.tenants else None,
            approvals=self.approvals,
            journal=self.journal,
        )
        self.governor.has_output_schema = lambda target: (
            target.server in hub.upstreams and hub.upstreams[target.server].snapshot.has_output_schema(target.name)
        )
        hub.governor = self.governor
        hub.prepare_governance = self.prepare
        hub.lifespans.insert(0, self._running)

    def prepare(self, config: HubConfig) -> Callable[[], None]:
        """Check changed settings; return a function that applies them.

        Raises: SettingsError, and then nothing has changed.
        """
        settings = config.governance
        refuse_fixed_changes(self._hub.config.governance, settings)
        CallQuotas(settings.quotas)  # refuses invalid limits before anything changes
        engine = load_policy(replace(settings, tenants=effective_tenants(config)))

        def apply() -> None:
            self._quotas.configure(settings.quotas)
            self._tenant_calls.configure(settings.tenants)
            self.approvals.configure(settings.approvals)
            self._hub.tenant_sessions.configure(settings.tenants)
            if engine.version != self.governor.engine.version:
                self.policy = engine
                self.governor.use_policy(engine)
                self._apply_policy()

        return apply

    def _apply_policy(self) -> None:
        """Show callers what the new policy allows, and let new calls open new sessions; running calls may finish."""
        for front in self._hub.fronts.values():
            front.invalidate()
            front.broadcaster.end_subscriptions()  # clients subscribe again, to what they may see now
        for upstream in self._hub.upstreams.values():
            task = asyncio.ensure_future(upstream.retire_sessions(bounds.UPSTREAM_DRAIN_TIMEOUT_S))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    def _record_approval(self, event: ApprovalEvent) -> None:
        self.governor.record_approval(event)

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        settings, journal = self._hub.config.governance, self.journal
        async with self.governor.running(), self._recorded(), self._retired():
            if journal is None or settings.audit.database is None:
                yield
                return
            from hubbub.governance.journal_database import JournalCopy

            folder = audit_folder(settings)
            copy = JournalCopy(settings.audit.database, folder, lambda: journal.node, lambda: journal.durable_seq)
            copy.start()
            try:
                yield
            finally:
                await asyncio.shield(copy.close())

    @asynccontextmanager
    async def _recorded(self) -> AsyncIterator[None]:
        """Record sessions, lists and secrets while the journal is open."""
        if self.journal is None:
            yield
            return
        hub = self._hub
        hub.events = events = RecordedEvents(self.governor.record_event)
        for upstream in hub.upstreams.values():
            events.watch(upstream)
        hub.invalidate_catalog()  # lists that were read before are recorded with the next use
        try:
            yield
        finally:
            # Now, so that their ends are recorded.
            ending = (upstream.retire_sessions(0) for upstream in hub.upstreams.values())
            await asyncio.gather(*ending, return_exceptions=True)
            hub.events = None
            events.close()

    @asynccontextmanager
    async def _retired(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            for task in self._retiring:
                task.cancel()


def effective_tenants(config: HubConfig) -> tuple[TenantSettings, ...]:
    """Return the tenants, each with the servers that it may use.

    These are no programs if it has no `allow_stdio`, and no servers that need a secret which it may not use.
    """
    return tuple(_restrict_servers(tenant, config) for tenant in config.governance.tenants)


def _restrict_servers(tenant: TenantSettings, config: HubConfig) -> TenantSettings:
    unusable = {upstream.id for upstream in config.upstreams if not _is_usable(upstream, tenant, config)}
    if not unusable:
        return tenant
    servers = tuple(upstream.id for upstream in config.upstreams) if tenant.servers is None else tenant.servers
    return replace(tenant, servers=tuple(id for id in servers if id not in unusable))


def _is_usable(upstream: UpstreamConfig, tenant: TenantSettings, config: HubConfig) -> bool:
    remote, secrets = upstream.remote, config.governance.secrets
    if remote is None:
        return True
    if remote.transport == "stdio" and not tenant.allow_stdio:
        return False
    values = (*remote.headers.values(), *remote.env.values())
    names = {name for value in values if isinstance(value, SecretTemplate) for name in value.names}
    return all(secrets[name].allows(tenant.name) for name in names if name in secrets)


def _make_journal(settings: GovernanceSettings) -> Journal | None:
    if not settings.tenants and settings.audit == AuditSettings():
        return None
    from hubbub.governance.journal import Journal

    return Journal(audit_folder(settings), settings.audit)


def audit_folder(settings: GovernanceSettings) -> Path:
    """The folder of the audit journal."""
    folder = settings.audit.folder
    return data_folder() / _AUDIT_FOLDER if folder is None else Path(folder).expanduser()
