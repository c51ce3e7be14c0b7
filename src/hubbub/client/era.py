"""Which era a server speaks: modern first, legacy on the recognised signs.

The verdict on a server is remembered for as long as the process lives. It is only
taken from what a server says: a network that fails is no sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hubbub import bounds
from hubbub.errors import (
    DeadlineExceeded,
    HttpError,
    HubbubError,
    ProtocolVersionNotSupported,
    RemoteError,
    TransportError,
)
from hubbub.protocol.error_forms import METHOD_NOT_FOUND
from hubbub.protocol.revisions import LEGACY, MODERN, NEWEST_MODERN, SUPPORTED_VERSIONS

if TYPE_CHECKING:
    from hubbub.client.session import Session

_HEADER_MISMATCH: Final = -32020
_MISSING_CAPABILITY: Final = -32021
_UNSUPPORTED_VERSION: Final = -32022
_NO_VERDICT: Final = (401, 403, 407, 408, 421, 425, 429)
"""Client errors that say nothing about the era."""
_CRASHED: Final = (500, 501)
"""What servers answer that stumble over a method they do not know."""
_TRIES: Final = 2
_known_legacy: dict[str, None] = {}


def forget(key: str) -> None:
    """What was known of a server no longer holds."""
    _known_legacy.pop(key, None)


async def agree(session: Session, pinned: str | None) -> None:
    """Agree on a version with a server.

    Raises:
        ProtocolVersionNotSupported: there is none.
        HubbubError: it does not answer.
    """
    if pinned in MODERN:
        await _discover(session, pinned)
    elif pinned in LEGACY or session.rpc.link.is_legacy:
        await _initialize(session, pinned, may_probe=False)
    elif _is_known_legacy(session):
        await _initialize(session, None, may_probe=True)
    else:
        await _probe(session)


async def _probe(session: Session) -> None:
    try:
        await _discover(session, NEWEST_MODERN.version)
    except (HubbubError, TimeoutError) as error:
        version = _legacy_sign(error, session.rpc.link.is_http)
        if version is None:
            raise
        if session.rpc.failure is not None:
            await session.restart()  # Some old servers end at the first message that they do not expect.
        await _initialize(session, version or None, may_probe=False)
        if len(_known_legacy) < bounds.KNOWN_ERAS:
            _known_legacy[session.key] = None


async def _discover(session: Session, version: str) -> None:
    """Modern, or the error that says otherwise."""
    for remaining in reversed(range(_TRIES)):
        try:
            await session.discover(version)
        except RemoteError as error:
            if error.code == METHOD_NOT_FOUND and error.status == 404:
                session.assume(version)  # a modern server, only without this method
                return
            if error.code != _UNSUPPORTED_VERSION:
                raise
            supported = _supported(error)
            known = [item for item in supported if item in MODERN]
            # Even if it names the very version that we asked for: servers may mean what they say now.
            if not known or not remaining:
                raise ProtocolVersionNotSupported(version, supported, SUPPORTED_VERSIONS) from error
            version = max(known)
        else:
            return


def _legacy_sign(error: Exception, is_http: bool) -> str | None:
    """The legacy version to offer, empty for the usual one; None if this is no sign of the legacy era."""
    match error:
        case ProtocolVersionNotSupported():
            shared = [version for version in error.answered if version in LEGACY]
            return max(shared) if shared else None
        case RemoteError(code=code) if code in (_HEADER_MISMATCH, _MISSING_CAPABILITY):
            return None
        case RemoteError():
            return ""
        case HttpError(status=status):
            is_sign = (400 <= status < 500 and status not in _NO_VERDICT) or status in _CRASHED
            return "" if is_sign else None
        case TransportError(code="INVALID_RESPONSE"):
            return ""
        case TransportError(code="TRANSPORT_CLOSED"):
            return None if is_http else ""
        case DeadlineExceeded():
            return None if is_http else ""
        case _:
            return None


async def _initialize(session: Session, version: str | None, *, may_probe: bool) -> None:
    try:
        await session.initialize(version)
    except RemoteError as error:
        if error.code == _UNSUPPORTED_VERSION and may_probe:
            forget(session.key)
            await _probe(session)
            return
        if error.status is None or not _leads_to_old_pair(error.status, session):
            raise
        await _fall_back(session, version, error)
    except HttpError as error:
        if may_probe:
            forget(session.key)
            await _probe(session)
            return
        if not _leads_to_old_pair(error.status, session):
            raise
        await _fall_back(session, version, error)


def _leads_to_old_pair(status: int, session: Session) -> bool:
    return session.rpc.link.is_http and 400 <= status < 500 and status not in _NO_VERDICT


async def _fall_back(session: Session, version: str | None, first: HubbubError) -> None:
    """The transport of 2024-11-05, as the last resort; if it fails too, the first error is the one to tell."""
    try:
        await session.fall_back()
        await session.initialize(version)
    except (ProtocolVersionNotSupported, RemoteError):
        raise
    except HubbubError:
        raise first from None


def _is_known_legacy(session: Session) -> bool:
    return session.key in _known_legacy


def _supported(error: RemoteError) -> list[str]:
    data: Any = error.data
    found = data.get("supported") if isinstance(data, dict) else None
    return [str(item) for item in found] if isinstance(found, list) else []
