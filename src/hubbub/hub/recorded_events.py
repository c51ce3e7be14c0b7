"""What a hub records in its audit journal besides calls: sessions with servers, their lists, secrets and refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any

from hubbub.governance.audit_events import AuditEvent, Fact
from hubbub.governance.definitions import definition_digest, parse_definition
from hubbub.hub.snapshot import Snapshot
from hubbub.hub.upstream import Upstream
from hubbub.protocol.calls import ANONYMOUS, Principal

LISTS = ("tools", "prompts", "templates")
"""Lists of definitions; resources are data."""


class RecordedEvents:
    """Turns the events of upstreams into records."""

    def __init__(self, record_event: Callable[[AuditEvent], None]) -> None:
        self._record_event = record_event
        self._snapshots: dict[str, Snapshot] = {}
        self._digests: dict[str, str] = {}
        """By server, of the lists that were recorded last."""

    def close(self) -> None:
        """Record nothing from now on."""
        self._record_event = lambda event: None

    def watch(self, upstream: Upstream) -> None:
        """Record the events of an upstream."""
        upstream.on_event = partial(self.record, upstream.id)

    def record(self, server: str, event: str, principal: Principal, facts: Mapping[str, Any]) -> None:
        """Record an event of a user; `server` is empty if it is about the hub itself."""
        self._record_event(
            AuditEvent(
                event=event,
                tenant=principal.tenant,
                user="" if principal is ANONYMOUS else principal.user,
                client=principal.client,
                credential=principal.credential,
                server=server,
                facts=dict(facts),
            )
        )

    def record_lists(self, snapshots: Mapping[str, Snapshot]) -> None:
        """Record the lists of servers that have changed since they were recorded, with a digest of the definitions."""
        for server, snapshot in snapshots.items():
            if snapshot.revision is None or self._snapshots.get(server) is snapshot:
                continue
            self._snapshots[server] = snapshot
            digest = _digest(snapshot)
            if self._digests.get(server) != digest:
                self._digests[server] = digest
                facts: dict[str, Fact] = {name: len(getattr(snapshot, name)) for name in LISTS}
                self._record_event(AuditEvent(event="tools.listed", server=server, facts=facts | {"sha256": digest}))
        for server in self._snapshots.keys() - snapshots.keys():
            del self._snapshots[server]
            self._digests.pop(server, None)


def _digest(snapshot: Snapshot) -> str:
    """Return a digest of the digests of all definitions, which are those that pins use."""
    lines = []
    for name in LISTS:
        for entry in getattr(snapshot, name):
            definition = parse_definition(entry.members)
            digest = "" if definition is None else definition_digest(definition)
            lines.append(f"{name} {digest} {entry.name}")
    return sha256("\n".join(sorted(lines)).encode("utf-8", "backslashreplace")).hexdigest()
