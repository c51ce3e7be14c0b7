"""The era ladder: which dialect a message speaks, or why it is refused.

One function for all transports. It looks at facts that the transport gathered and
climbs three rungs: modern, legacy, plain. Order matters: a message that claims to be
modern gets modern errors, even when it is malformed or named `initialize`.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from hubbub.errors import (
    HeaderMismatch,
    InvalidParams,
    SessionNotFound,
    SessionRequired,
    UnsupportedVersion,
)
from hubbub.protocol.model import LOG_LEVELS, NO_META, Caller, Meta, Principal
from hubbub.protocol.revisions import LEGACY, MODERN, PLAIN, Revision, is_modern_version


class Facts(msgspec.Struct, kw_only=True):
    """What the transport knows of a message before anybody interprets it."""

    method: str = ""
    meta: Meta = NO_META
    version_header: str | None = None
    session: Revision | None = None
    """The revision of the session that the message belongs to."""
    names_session: bool = False
    """It carries an `Mcp-Session-Id` header, known to us or not."""
    over_http: bool = False
    plain_allowed: bool = True


def claims_modern(facts: Facts) -> bool:
    """Whether the message is to be judged by the rules of the stateless era."""
    if facts.meta.version is not UNSET:
        return True
    return facts.version_header is not None and is_modern_version(facts.version_header)


def climb(facts: Facts) -> Revision:
    """The dialect that a message is to be served in.

    Raises:
        InvalidParams, HeaderMismatch, UnsupportedVersion: a modern message is malformed.
        SessionNotFound, SessionRequired: a legacy message belongs to no session.
    """
    if claims_modern(facts):
        return _modern(facts)
    if facts.method == "initialize":
        return PLAIN if facts.session is None else facts.session
    if facts.version_header is not None and facts.version_header not in LEGACY:
        raise UnsupportedVersion(facts.version_header, [*LEGACY, *MODERN])
    if facts.session is not None:
        return facts.session
    if facts.names_session:
        raise SessionNotFound("This session has ended or never existed; send `initialize` again")
    if facts.version_header is not None or not facts.plain_allowed:
        raise SessionRequired("This request belongs to no session; send `initialize` first")
    return PLAIN


def _modern(facts: Facts) -> Revision:
    version, header = facts.meta.version, facts.version_header
    if version is UNSET:
        raise InvalidParams("Invalid params: `_meta` must hold io.modelcontextprotocol/protocolVersion")
    if version in MODERN and facts.meta.capabilities is UNSET:
        # Demanded by our own versions only: a client of a later one must learn ours, to fall back.
        raise InvalidParams("Invalid params: `_meta` must hold io.modelcontextprotocol/clientCapabilities")
    if facts.over_http and header != version:
        raise HeaderMismatch(
            f"The header MCP-Protocol-Version says {header!r}, `_meta` says {version!r}; both must be sent and agree"
        )
    revision = MODERN.get(version)
    if revision is None:
        raise UnsupportedVersion(version, list(MODERN))
    level = facts.meta.log_level
    if level is not UNSET and level not in LOG_LEVELS:
        raise InvalidParams(f"Invalid params: there is no level {level!r}; use one of {', '.join(LOG_LEVELS)}")
    return revision


def modern_caller(meta: Meta, revision: Revision, principal: Principal) -> Caller:
    """The caller that a modern request describes in its own `_meta`."""
    return Caller(
        revision=revision,
        principal=principal,
        capabilities=meta.capabilities if meta.capabilities is not UNSET else {},
        info=meta.info if meta.info is not UNSET else None,
        log_level=meta.log_level if meta.log_level is not UNSET else None,
    )
