"""Decide in which dialect (era and revision) a message is served, or why it is refused.

One function for all transports and HTTP methods. It decides by facts that the transport
gathered, in the order modern, legacy, plain: a message that claims to be modern gets modern
errors, even if it is malformed or named `initialize`. The caller of a request is read here
too, because each era describes it in a different place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub import bounds
from hubbub.errors import (
    HeaderMismatch,
    InvalidParams,
    InvalidRequest,
    MessageTooLarge,
    MethodNotAllowed,
    SessionNotFound,
    SessionRequired,
    UnsupportedVersion,
)
from hubbub.protocol.calls import LOG_LEVELS, NO_META, Caller, Meta, Principal, RawObject
from hubbub.protocol.params import InitializeParams, format_decode_error
from hubbub.protocol.revisions import (
    LEGACY,
    MODERN,
    NEWEST_LEGACY,
    NEWEST_MODERN,
    PLAIN,
    SUPPORTED_VERSIONS,
    Revision,
    negotiate,
)

AllowsPlain: TypeAlias = Callable[[Principal], bool]
"""Whether a caller may send JSON-RPC without MCP."""
_MCP_ID = re.compile(rb'"|-?[0-9]+\Z')


class MessageFacts(msgspec.Struct, kw_only=True, gc=False):
    """What the transport knows about a message before it is interpreted."""

    method: str = ""
    id: Raw | UnsetType = UNSET
    meta: Meta = NO_META
    is_request: bool = True
    """False for notifications and responses: they are only acknowledged, so modern ones are not checked."""
    http_method: str = "POST"
    """GET and DELETE carry no message; whether they are allowed depends on the era of the session."""
    version_header: str | None = None
    session: Revision | None = None
    """The revision of the session that the message belongs to."""
    names_session: bool = False
    """Whether it carries an `Mcp-Session-Id` header or the cookie of a session, even of an unknown one."""
    over_http: bool = False
    plain_allowed: bool = True


def allow_plain_for_all(principal: Principal) -> bool:
    """Default for `AllowsPlain`."""
    return True


def claims_modern(facts: MessageFacts) -> bool:
    """Whether the rules of the stateless era apply to the message."""
    if facts.meta.version is not UNSET:
        return True
    return facts.version_header is not None and _is_modern_version(facts.version_header)


def _is_modern_version(version: str) -> bool:
    """Whether a version string belongs to the stateless era, supported or not.

    Versions are dates, so they compare as text; anything that is not a date is
    treated as modern too, because the modern error lists the supported versions.
    """
    return version not in LEGACY and not (version[:4].isdigit() and version < NEWEST_MODERN.version)


def classify(facts: MessageFacts) -> Revision:
    """Return the dialect in which to serve a message.

    Raises:
        InvalidParams, HeaderMismatch, UnsupportedVersion: a modern message is malformed.
        MethodNotAllowed: a modern request is not a POST.
        SessionNotFound, SessionRequired: a legacy message belongs to no session.
        InvalidRequest: the id of an MCP request is neither a string nor a whole number.
    """
    if facts.meta.version is UNSET and (facts.version_header is None or not _is_modern_version(facts.version_header)):
        revision = _classify_legacy(facts)
    elif facts.http_method != "POST":
        raise MethodNotAllowed("This protocol revision supports only POST")
    else:
        revision = _classify_modern(facts) if facts.is_request else NEWEST_MODERN
    if facts.id is not UNSET and (revision.is_mcp or facts.method == "initialize"):
        _check_mcp_id(facts.id)
    return revision


def _check_mcp_id(identifier: Raw) -> None:
    # Most ids are digits only, which `isdigit` finds faster.
    if not (bytes(identifier).isdigit() or _MCP_ID.match(identifier)):
        raise InvalidRequest("`id` must be a string or a whole number")


def classify_fast(method: str, meta: Meta, session: Revision | None) -> Revision | None:
    """Return what `classify` would, for the most frequent requests on a connection; None if `classify` must decide.

    These are requests in a session, and modern requests with all required members. The caller must check the id.
    """
    if meta is NO_META or meta.version is UNSET:
        return session if method != "initialize" else None
    if meta.capabilities is UNSET or meta.log_level is not UNSET:
        return None
    return MODERN.get(meta.version)


def classify_fast_http(meta: Meta, version_header: str | None) -> Revision | None:
    """Do the same for modern requests over HTTP, whose header must have the same version."""
    version = meta.version
    if version is UNSET or version != version_header or meta.capabilities is UNSET or meta.log_level is not UNSET:
        return None
    return MODERN.get(version)


def classify_batch(facts: MessageFacts) -> Revision:
    """The dialect in which the messages of a batch are served.

    Raises:
        InvalidRequest: the dialect has no batches.
        SessionNotFound, SessionRequired, UnsupportedVersion: as for a single message.
    """
    if not claims_modern(facts):
        revision = classify(facts)
        if revision.batches:
            return revision
    raise InvalidRequest("Batches are not part of this protocol revision; send one message at a time")


def refusal_revision(facts: MessageFacts) -> Revision:
    """The dialect in which a refused message is answered: the one that it claims, or that of its session."""
    if claims_modern(facts):
        return NEWEST_MODERN
    return NEWEST_LEGACY if facts.session is None else facts.session


def _classify_legacy(facts: MessageFacts) -> Revision:
    if facts.method == "initialize":
        return PLAIN if facts.session is None else facts.session
    if facts.version_header is not None and facts.version_header not in LEGACY:
        raise UnsupportedVersion(facts.version_header, SUPPORTED_VERSIONS)
    if facts.session is not None:
        return facts.session
    if facts.names_session:
        raise SessionNotFound("This session has ended or never existed; send `initialize` to start a new one")
    if facts.version_header is not None or not facts.plain_allowed:
        raise SessionRequired("This request belongs to no session; send `initialize` first")
    return PLAIN


def _classify_modern(facts: MessageFacts) -> Revision:
    version, header = facts.meta.version, facts.version_header
    if version is UNSET:
        raise InvalidParams("Invalid params: `_meta` must contain io.modelcontextprotocol/protocolVersion")
    if version in MODERN and facts.meta.capabilities is UNSET:
        # Required for supported versions only: a client of a later one must learn which are supported, to fall back.
        raise InvalidParams("Invalid params: `_meta` must contain io.modelcontextprotocol/clientCapabilities")
    if facts.over_http and header != version:
        raise HeaderMismatch(
            f"The header MCP-Protocol-Version is {header!r}, but `_meta` has {version!r}; send the same in both"
        )
    revision = MODERN.get(version)
    if revision is None:
        raise UnsupportedVersion(version, list(MODERN))
    level = facts.meta.log_level
    if level is not UNSET and level not in LOG_LEVELS:
        raise InvalidParams(f"Invalid params: unknown log level {level!r}; use one of {', '.join(LOG_LEVELS)}")
    return revision


def modern_caller(meta: Meta, revision: Revision, principal: Principal, address: str = "") -> Caller:
    """The caller that a modern request describes in its own `_meta`."""
    return Caller(
        revision=revision,
        principal=principal,
        address=address,
        capabilities={} if meta.capabilities is UNSET else meta.capabilities,
        info=meta.info if meta.info is not UNSET else None,
        log_level=meta.log_level if meta.log_level is not UNSET else None,
    )


def legacy_caller(params: InitializeParams, principal: Principal, address: str) -> Caller:
    """Return the caller that an `initialize` describes; its scope is set later.

    Raises:
        InvalidParams: its capabilities are not an object that can be read.
        MessageTooLarge: its name, description and capabilities exceed the limit for one client.
    """
    capabilities = bytes(params.capabilities)
    info = None if params.client_info is UNSET else params.client_info
    info_texts = [] if info is None else [text for text in msgspec.structs.astuple(info) if text is not UNSET]
    if len(capabilities) + sum(map(len, info_texts)) > bounds.CLIENT_INFO_BYTES:
        raise MessageTooLarge("The client information in `initialize`", bounds.CLIENT_INFO_BYTES)
    try:
        parsed: Mapping[str, Any] = msgspec.json.decode(capabilities, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidParams(f"Invalid params for initialize: `capabilities`: {format_decode_error(error)}") from None
    is_small = len(capabilities) <= bounds.PARSED_CAPABILITIES_BYTES
    return Caller(
        revision=negotiate(params.protocol_version),
        principal=principal,
        capabilities=parsed if is_small else RawObject(capabilities),
        info=info,
        address=address,
    )
