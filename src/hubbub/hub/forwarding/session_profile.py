"""Profiles of sessions with an upstream: calls with the same profile can share a session."""

from __future__ import annotations

import msgspec

from hubbub.hub.forwarding.forwarded_call import CapabilityBridge, ForwardedCall
from hubbub.hub.forwarding.upstream_session import UpstreamSession


class SessionProfile(msgspec.Struct, frozen=True):
    """Properties that all callers of one session share."""

    capabilities: bytes = b"{}"
    """The capabilities of the callers, as JSON in canonical order."""
    log_level: str | None = None
    is_exclusive: bool = False
    """Whether the server may learn something that belongs to one client only, such as its roots."""
    principal: str | None = None
    """The principal whose calls it carries; None: callers without an identity."""
    tenant: str = ""
    """The tenant of that principal, whose secrets the session uses; empty: those of the hub."""

    @property
    def owner(self) -> str:
        """Whose share of the sessions it uses; empty for callers without an identity."""
        return self.principal or ""

    @property
    def accepts_client_requests(self) -> bool:
        """Whether the server may send requests to the callers."""
        return self.capabilities != b"{}"


def select_profile(
    forwarded: ForwardedCall, default: UpstreamSession, bridge: CapabilityBridge, *, keeps_client_sessions: bool
) -> SessionProfile | None:
    """Return the profile of the session that a call needs; None: the default session."""
    caller, default_client, principal = forwarded.call.caller, default.client, forwarded.principal
    is_plain = not caller.capabilities and caller.log_level is None
    if is_plain and principal is None and default.scope is None and not keeps_client_sessions:
        return None
    tenant = caller.principal.tenant
    if principal is not None and not caller.capabilities and not keeps_client_sessions:  # most calls of a principal
        return SessionProfile(principal=principal, tenant=tenant)
    is_known = caller.scope is not None or principal is not None
    is_client_session = keeps_client_sessions and is_known and not default_client.sends_tool_headers
    if default_client.revision.stateless:
        return (
            SessionProfile(is_exclusive=is_client_session, principal=principal, tenant=tenant)
            if is_client_session or principal is not None
            else None
        )
    capabilities = bridge.capabilities(caller)
    level = caller.log_level if "logging" in default_client.server_capabilities else None
    if not capabilities and level is None and not is_client_session and principal is None and default.scope is None:
        return None
    encoded_capabilities = msgspec.json.encode(capabilities, order="sorted")
    if is_client_session or principal is not None:
        level = None  # A new log level must not select another session, because the client's state is in this one.
    is_exclusive = is_client_session or "roots" in capabilities
    return SessionProfile(encoded_capabilities, level, is_exclusive, principal, tenant)
