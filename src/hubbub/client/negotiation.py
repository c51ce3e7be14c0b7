"""Negotiation of the era with a server: modern first, legacy if its answer is a known sign of that.

Over HTTP only a response of the server decides; network failures do not. On a stream (stdio,
WebSocket) a missing response decides too, because some old servers stop working at the first unknown
request; docs/decisions/0001-stdio-probe.md has the figures. `Session.known_eras` remembers
legacy servers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from hubbub import bounds
from hubbub.errors import (
    DeadlineExceeded,
    HttpError,
    HubbubError,
    InvalidResponse,
    ProtocolVersionNotSupported,
    RemoteError,
    TransportClosed,
)
from hubbub.protocol.error_codes import HEADER_MISMATCH, METHOD_NOT_FOUND, MISSING_CAPABILITY, UNSUPPORTED_VERSION
from hubbub.protocol.revisions import LEGACY, MODERN, NEWEST_LEGACY, NEWEST_MODERN, SUPPORTED_VERSIONS

if TYPE_CHECKING:
    from hubbub.client.session import Session

_INCONCLUSIVE_STATUSES: Final = (401, 403, 407, 408, 421, 425, 429)
"""Client errors that do not depend on the era."""
_CRASH_STATUSES: Final = (500, 501)
"""Statuses of servers that crash on an unknown method."""


async def negotiate(session: Session, pinned: str | None) -> None:
    """Agree on a version with a server.

    Raises:
        ProtocolVersionNotSupported: there is no common version.
        HubbubError: the server does not respond.
    """
    if pinned in MODERN:
        await _discover(session, pinned)
    elif pinned in LEGACY or session.rpc.transport.is_legacy:
        await _initialize(session, pinned, may_probe=False)
    elif session.known_eras.is_legacy(session.key):
        await _initialize(session, None, may_probe=True)
    elif session.rpc.transport.is_http:
        await _probe(session)
    else:
        await _probe_stream(session)


def record_handshake_timeout(session: Session, pinned: str | None) -> str:
    """Remember that a server did not answer the handshake in time; return a hint for the error message.

    The next start begins with the handshake that was not sent first this time.
    """
    if pinned is not None or session.rpc.transport.is_http or session.rpc.transport.is_legacy:
        return ""
    if session.known_eras.is_legacy(session.key):
        session.known_eras.forget(session.key)
        return ""
    session.known_eras.remember(session.key, outlives_process=True)
    return "; if it is an old server, pin its version: set `protocol_version`, for example to 2025-06-18"


async def _probe(session: Session) -> None:
    """Detect the era of a server over HTTP, where each request has a response of its own."""
    try:
        await _discover(session, NEWEST_MODERN.version)
    except HubbubError as error:
        version = _legacy_version_to_offer(error, is_http=True)
        if version is None:
            raise
        await _initialize(session, version or None, may_probe=False)
        session.known_eras.remember(session.key)


async def _probe_stream(session: Session) -> None:
    """Detect the era of a server on a stream: send `server/discover`, then `initialize` too if there is no response.

    A server that starts slowly answers both, and the first response decides. A legacy server that ignores unknown
    methods answers the second. A server that the first request breaks exits at the second, and is restarted.
    """
    offered = NEWEST_LEGACY.version
    discovery = asyncio.create_task(_discover(session, NEWEST_MODERN.version))
    initialization: asyncio.Task[dict[str, Any]] | None = None
    try:
        await asyncio.wait([discovery], timeout=bounds.DISCOVER_TIMEOUT_S)
        if not discovery.done():
            initialization = asyncio.create_task(session.send_initialize(offered))
            await asyncio.wait([discovery, initialization], return_when=asyncio.FIRST_COMPLETED)
            if not discovery.done():
                if initialization.exception() is None:
                    await session.accept_initialize(offered, initialization.result())
                    session.known_eras.remember(session.key, outlives_process=True)
                    return
                await asyncio.wait([discovery])  # a modern server that refused `initialize`, or a lost connection
        error = discovery.exception()
        if error is None:
            return
        version = _legacy_version_to_offer(error, is_http=False)
        if version is None:
            raise error
        if session.rpc.failure is not None:
            await session.restart()
            await _initialize(session, version or None, may_probe=False)
            session.known_eras.remember(session.key, outlives_process=True)
            return
        if initialization is None:
            await _initialize(session, version or None, may_probe=False)
        else:
            await session.accept_initialize(offered, await initialization)
        session.known_eras.remember(session.key)
    finally:
        await _cancel_tasks(discovery, initialization)


async def _cancel_tasks(*tasks: asyncio.Task[Any] | None) -> None:
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def _discover(session: Session, version: str) -> None:
    """Agree on a modern version, or raise the server's error."""
    for remaining in reversed(range(bounds.DISCOVER_TRIES)):
        try:
            await session.discover(version)
        except RemoteError as error:
            if error.code == METHOD_NOT_FOUND and error.status == 404:
                session.assume_version(version)  # a modern server without this method
                return
            if error.code != UNSUPPORTED_VERSION:
                raise
            supported = _supported_versions(error)
            known = [item for item in supported if item in MODERN]
            # Also if it lists the version that we asked for: the server may accept it now.
            if not known or not remaining:
                raise ProtocolVersionNotSupported(version, supported, SUPPORTED_VERSIONS) from error
            version = max(known)
        else:
            return


def _legacy_version_to_offer(error: BaseException, is_http: bool) -> str | None:
    """Return the legacy version to offer, empty for the default; None if the error is not a sign of the legacy era."""
    match error:
        case ProtocolVersionNotSupported():
            common = [version for version in error.answered if version in LEGACY]
            return max(common) if common else None
        case RemoteError(code=code) if code in (HEADER_MISMATCH, MISSING_CAPABILITY):
            return None
        case RemoteError():
            return ""
        case HttpError(status=status):
            suggests_legacy = (
                400 <= status < 500 and status not in _INCONCLUSIVE_STATUSES
            ) or status in _CRASH_STATUSES
            return "" if suggests_legacy else None
        case InvalidResponse():
            return ""
        case TransportClosed():
            return None if is_http else ""
        case DeadlineExceeded():
            return None if is_http else ""
        case _:
            return None


async def _initialize(session: Session, version: str | None, *, may_probe: bool) -> None:
    try:
        await session.initialize(version)
    except RemoteError as error:
        if error.code in (UNSUPPORTED_VERSION, METHOD_NOT_FOUND) and may_probe:
            session.known_eras.forget(session.key)
            await negotiate(session, None)
            return
        if error.status is None or not _may_speak_http_sse(error.status, session):
            raise
        await _fall_back_to_http_sse(session, version, error)
    except HttpError as error:
        if may_probe:
            session.known_eras.forget(session.key)
            await negotiate(session, None)
            return
        if not _may_speak_http_sse(error.status, session):
            raise
        await _fall_back_to_http_sse(session, version, error)


def _may_speak_http_sse(status: int, session: Session) -> bool:
    return session.rpc.transport.is_http and 400 <= status < 500 and status not in _INCONCLUSIVE_STATUSES


async def _fall_back_to_http_sse(session: Session, version: str | None, original_error: HubbubError) -> None:
    """Try the transport of 2024-11-05 as a last resort; if it fails too, raise the first error."""
    session.refusal = original_error
    try:
        await session.fall_back_to_http_sse()
        await session.initialize(version)
    except (ProtocolVersionNotSupported, RemoteError):
        raise
    except HubbubError:
        raise original_error from None


def _supported_versions(error: RemoteError) -> list[str]:
    data: Any = error.data
    found = data.get("supported") if isinstance(data, dict) else None
    return [str(item) for item in found] if isinstance(found, list) else []
