"""The tenants of a hub: which there are at present, and what each may do."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from hubbub.settings.governance import TenantSettings

logger = logging.getLogger("hubbub.governance")


class Tenants:
    """Tenants by name. A reload replaces them with `update`; a removed tenant's callers are refused from then on.

    An unknown name is never an error: its callers are refused, and it may do nothing.
    """

    def __init__(self, settings: Sequence[TenantSettings]) -> None:
        self._tenants: dict[str, TenantSettings] = {}
        self._names_by_claim: dict[str, str] = {}
        self.generation = 0
        """Increases with every change."""
        self._set(settings)

    def update(self, settings: Sequence[TenantSettings]) -> None:
        """Replace all tenants, because the settings have changed."""
        before = self._tenants
        self._set(settings)
        if before == self._tenants:
            return
        self.generation += 1
        changed = [name for name, tenant in self._tenants.items() if before.get(name, tenant) != tenant]
        fields = {
            "added": ", ".join(self._tenants.keys() - before.keys()),
            "removed": ", ".join(before.keys() - self._tenants.keys()),
            "changed": ", ".join(changed),
        }
        logger.info("tenants_changed", extra={name: text for name, text in fields.items() if text})

    def _set(self, settings: Sequence[TenantSettings]) -> None:
        self._tenants = {tenant.name: tenant for tenant in settings}
        self._names_by_claim = {value: tenant.name for tenant in settings for value in tenant.accepted_claims}

    def __contains__(self, name: object) -> bool:
        return name in self._tenants

    def __iter__(self) -> Iterator[TenantSettings]:
        return iter(self._tenants.values())

    def __len__(self) -> int:
        return len(self._tenants)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the settings."""
        return tuple(self._tenants)

    def get(self, name: str) -> TenantSettings | None:
        """Return the settings of a tenant; None if there is no such tenant."""
        return self._tenants.get(name)

    def find_by_claim(self, value: str) -> str | None:
        """Return the tenant that a claim of a token means: exactly one of its `claims`, or else its name."""
        return self._names_by_claim.get(value)

    def allows_plain(self, name: str) -> bool:
        """Whether its users may send JSON-RPC without MCP."""
        tenant = self._tenants.get(name)
        return tenant is not None and tenant.allow_plain

    def allows_stdio(self, name: str) -> bool:
        """Whether its users may use servers that the hub starts as programs."""
        tenant = self._tenants.get(name)
        return tenant is not None and tenant.allow_stdio

    def allows_server(self, name: str, server: str) -> bool:
        """Whether its users may use this server, by the setting `servers`."""
        tenant = self._tenants.get(name)
        return tenant is not None and (tenant.servers is None or server in tenant.servers)
