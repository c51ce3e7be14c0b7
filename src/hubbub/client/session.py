"""The session with a server: the version agreed on, its info and capabilities, and requests within it.

In the legacy era the server may lose a session, so it can be renewed: one `initialize` serves
all callers that notice (`generation`), and each waits for it no longer than its own time limit.
In the modern era every request carries the client's info, and nothing needs renewing.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from hubbub import __version__
from hubbub.client import negotiation
from hubbub.client.config import DEFAULT_PROTOCOL_VERSION, SUPPORTED_PROTOCOL_VERSIONS, ServerConfig
from hubbub.client.known_eras import KnownEras
from hubbub.client.requests import NO_HEADERS, Progress, Request
from hubbub.client.results import ServerInfo
from hubbub.client.rpc import JsonRpcClient
from hubbub.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    HubbubError,
    InvalidResponse,
    ProtocolVersionNotSupported,
    SessionLost,
    TransportError,
)
from hubbub.net.timeouts import pausable
from hubbub.ports import ReturnPath
from hubbub.protocol.mcp_headers import encode_value
from hubbub.protocol.revisions import LEGACY, MODERN, Era, Revision

logger = logging.getLogger("hubbub.client")
_META_PREFIX = "io.modelcontextprotocol/"
_METHOD_HEADER = "Mcp-Method"
_MAX_TOOL_CALL_HEADERS = 64
"""Number of tools whose headers are kept."""


class Agreement(msgspec.Struct, kw_only=True):
    """The result of the negotiation with a server."""

    revision: Revision
    server_info: ServerInfo = msgspec.field(default_factory=ServerInfo)
    capabilities: dict[str, Any] = msgspec.field(default_factory=dict)
    instructions: str | None = None


class Session:
    """The session with one server, and the negotiation before it."""

    def __init__(
        self,
        config: ServerConfig,
        capabilities: Mapping[str, Any],
        make_rpc: Callable[[bool], JsonRpcClient],
        known_eras: KnownEras,
    ) -> None:
        self._config = config
        self._make_rpc = make_rpc
        """Makes a JSON-RPC connection; True: over the transport of 2024-11-05."""
        self.capabilities = dict(capabilities)
        self.client_info = dict(config.client_info or {"name": "hubbub", "version": __version__})
        self.rpc = make_rpc(config.transport == "sse")
        self.known_eras = known_eras
        self.agreement: Agreement | None = None
        self.generation = 0
        self.log_level: str | None = None
        self.is_ready = False
        """Whether requests can be sent: a version is agreed on, and no lost session is being renewed."""
        self._renewal: asyncio.Task[HubbubError | None] | None = None
        self.refusal: HubbubError | None = None
        """Why the server refused Streamable HTTP, if the transport of 2024-11-05 was tried after it."""
        self._meta_start = b""
        self._tool_call_headers: dict[str, Mapping[str, str]] = {}
        self.on_renewed: Callable[[], Any] | None = None
        """Called after a lost session was replaced."""

    @property
    def key(self) -> str:
        """Identifies the server in `known_eras`; never shown."""
        config = self._config
        return config.url or "\0".join((str(Path(config.chdir or ".").absolute()), str(config.command), *config.args))

    @property
    def timeout_s(self) -> float:
        """Time limit of a request, unless the caller sets another."""
        return self._config.timeout_s

    @property
    def revision(self) -> Revision:
        """The revision agreed on.

        Raises: TransportError, if none is agreed on yet.
        """
        if self.agreement is None:
            raise TransportError(
                "The client was not started; use `async with`, or call `start`", may_have_executed=False
            )
        return self.agreement.revision

    @property
    def sends_tool_headers(self) -> bool:
        """Whether arguments of tools are repeated in headers, if tools ask for that."""
        return self.rpc.transport.is_http and self.revision.stateless

    @property
    def era(self) -> Era:
        """`modern` or `legacy`."""
        return self.revision.era

    async def establish(self) -> None:
        """Start the transport and agree on a version; the time limit includes restarts.

        Raises: errors of `hubbub.errors`; the caller must close the session then.
        """
        operation, hint = "The connection to the server", ""
        try:
            async with asyncio.timeout(_seconds_or_none(self.timeout_s)) as timeout:
                with pausable(timeout):
                    await self.rpc.start()
                    operation = "The answer to the handshake"
                    await negotiation.negotiate(self, self._config.protocol_version)
        except TimeoutError:
            if operation.endswith("handshake"):
                hint = negotiation.record_handshake_timeout(self, self._config.protocol_version)
            raise (self.refusal or DeadlineExceeded(operation, self.timeout_s, hint)) from None

    # -- the two handshakes, called by `negotiation` -----------------------------------------

    async def discover(self, version: str) -> dict[str, Any]:
        """Send `server/discover` to a modern server and return its result.

        Raises: errors of `hubbub.errors`, which `negotiation` reads as signs of an era.
        """
        self._set_revision(MODERN[version])
        raw = await self._send("server/discover", {}, timeout_s=self._config.timeout_s)
        found = _decode_object(raw, "server/discover")
        versions = found.get("supportedVersions")
        known = [str(item) for item in versions] if isinstance(versions, list) else [version]
        if version not in known:
            raise ProtocolVersionNotSupported(version, known, SUPPORTED_PROTOCOL_VERSIONS)
        meta = found.get("_meta")
        info = (meta.get(f"{_META_PREFIX}serverInfo") if isinstance(meta, dict) else None) or found.get("serverInfo")
        self._set_agreement(MODERN[version], info, found)
        return found

    def assume_version(self, version: str) -> None:
        """Use a modern version with a server that does not implement `server/discover`."""
        self._set_revision(MODERN[version])
        self._set_agreement(MODERN[version], None, {})

    async def initialize(self, version: str | None = None) -> None:
        """Open a legacy session.

        Raises:
            ProtocolVersionNotSupported: the server supports none of our versions.
        """
        offered = version or DEFAULT_PROTOCOL_VERSION
        await self.accept_initialize(offered, await self.send_initialize(offered))

    async def send_initialize(self, offered: str) -> dict[str, Any]:
        """Send `initialize` and return its result; nothing is agreed yet."""
        params = {
            "protocolVersion": offered,
            "capabilities": self.capabilities,
            "clientInfo": self.client_info,
        }
        # A server that supports the modern headers may require them for this request too; others ignore them.
        raw = await self.rpc.request("initialize", params, headers={_METHOD_HEADER: "initialize"})
        return _decode_object(raw, "initialize")

    async def accept_initialize(self, offered: str, found: dict[str, Any]) -> None:
        """Open the legacy session that a result of `initialize` describes.

        Raises:
            ProtocolVersionNotSupported: the server supports none of our versions.
        """
        answered_version = found.get("protocolVersion") or offered
        revision = LEGACY.get(str(answered_version))
        if revision is None:
            raise ProtocolVersionNotSupported(offered, [str(answered_version)], tuple(LEGACY))
        self.rpc.transport.finish_handshake(revision.version)
        await self.rpc.notify("notifications/initialized", headers={_METHOD_HEADER: "notifications/initialized"})
        self._set_agreement(revision, found.get("serverInfo"), found)
        self.generation += 1

    async def fall_back_to_http_sse(self) -> None:
        """Reconnect over the transport of 2024-11-05."""
        await self._restart_rpc(over_http_sse=True)

    async def restart(self) -> None:
        """Start the server again."""
        await self._restart_rpc(over_http_sse=False)

    async def _restart_rpc(self, *, over_http_sse: bool) -> None:
        await self.rpc.close()
        self.rpc = self._make_rpc(over_http_sse)
        await self.rpc.start()

    # -- requests --------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        *,
        timeout_s: float | None = None,
        progress: Progress | None = None,
        back: ReturnPath | None = None,
        token: Raw | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        repeatable: bool = False,
        on_id: Callable[[int], Any] | None = None,
        client_meta: bytes = b"",
    ) -> Raw:
        """Send a request and return its raw result; `_meta` and headers are added as the era requires.

        `client_meta` is the result of that method, for a caller on whose behalf the request is sent.

        A lost session is renewed; only a `repeatable` request is then sent again. The time limit is for
        all of that.
        """
        started, seconds = monotonic(), self.timeout_s if timeout_s is None else timeout_s
        if not self.is_ready:
            await self.wait_until_ready(seconds)
            timeout_s = _seconds_left(started, seconds)
        generation = self.generation
        options: dict[str, Any] = {
            "timeout_s": timeout_s,
            "progress": progress,
            "back": back,
            "token": token,
            "headers": headers,
            "on_id": on_id,
            "client_meta": client_meta,
        }
        try:
            return await self._send(method, params, **options)
        except SessionLost:
            try:
                await self.renew(generation, _seconds_left(started, seconds))
            except HubbubError:
                if repeatable:
                    raise
            if not repeatable:
                raise
        options["timeout_s"] = _seconds_left(started, seconds)
        return await self._send(method, params, **options)

    async def send(self, request: Request, seconds: float) -> Raw:
        """Send an encoded request and return its raw result. It is never sent again; a lost session is renewed."""
        started, generation = monotonic(), self.generation
        try:
            return await self.rpc.exchange(request, seconds)
        except SessionLost:
            with suppress(HubbubError):
                await self.renew(generation, _seconds_left(started, seconds))
            raise

    async def notify(self, method: str, params: Any = UNSET) -> None:
        """Send a notification, with the headers that the era requires."""
        is_stateless = self.revision.stateless
        headers = self._request_headers(method, {}) if is_stateless else NO_HEADERS
        await self.rpc.notify(method, params, is_stateless=is_stateless, headers=headers)

    async def renew(self, generation: int, seconds: float) -> None:
        """Wait until the session of that generation is replaced; one `initialize` serves all waiting callers.

        Raises:
            DeadlineExceeded: it was not replaced within this caller's time limit; others may still get it.
            HubbubError: why it could not be opened.
        """
        if self.generation != generation:
            return
        if self._renewal is None:
            self.is_ready = False
            self._renewal = self.rpc.spawn(self._renew())
        await self._wait_for_renewal(self._renewal, seconds)

    async def wait_until_ready(self, seconds: float) -> None:
        """Wait while a session is being renewed.

        Raises:
            TransportError: no version is agreed on, or the session could not be renewed. Nothing was sent.
            DeadlineExceeded: it was not renewed within this caller's time limit.
        """
        if self._renewal is not None:
            try:
                await self._wait_for_renewal(self._renewal, seconds)
            except DeadlineExceeded:
                raise
            except HubbubError as error:
                message = f"The server lost this session, and opening a new one failed: {error.message}"
                raise SessionLost(message) from None
        self.revision  # noqa: B018  raises if there is none

    async def _wait_for_renewal(self, renewal: asyncio.Task[HubbubError | None], seconds: float) -> None:
        done, _ = await asyncio.wait([renewal], timeout=_seconds_or_none(seconds))
        if not done:
            raise DeadlineExceeded(f"A new session with {self._config.id!r}", seconds)
        if renewal.cancelled():
            raise ConnectionClosed("The client was closed")
        if (error := renewal.result()) is not None:
            raise error

    async def _renew(self) -> HubbubError | None:
        """Open a new session; return the error if that failed. The old agreement stays until there is a new one."""
        previous = self.agreement
        try:
            await self.initialize(previous.revision.version if previous is not None else self._config.protocol_version)
        except HubbubError as error:
            logger.warning("the session with %s was lost and could not be renewed: %s", self._config.id, error.message)
            return error
        finally:
            self._renewal = None
            self.is_ready = self.agreement is not None
        if self.on_renewed is not None:
            self.on_renewed()
        return None

    async def _send(
        self,
        method: str,
        params: dict[str, Any],
        *,
        timeout_s: float | None = None,
        progress: Progress | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        on_id: Callable[[int], Any] | None = None,
        client_meta: bytes = b"",
        **more: Any,
    ) -> Raw:
        rpc, is_stateless = self.rpc, bool(self._meta_start)
        if is_stateless:
            if rpc.transport.is_http:
                headers = {**self._request_headers(method, params), **headers}
        elif progress is None:
            return await rpc.request(method, params or UNSET, timeout_s=timeout_s, **more)

        def make_params(identifier: int) -> dict[str, Any]:
            if on_id is not None:
                on_id(identifier)
            token = identifier if progress is not None else None
            return {**params, "_meta": self._meta(params.get("_meta"), token, client_meta)}

        return await rpc.request(
            method,
            timeout_s=timeout_s,
            progress=progress,
            headers=headers,
            is_stateless=is_stateless,
            prepare=make_params,
            **more,
        )

    def client_meta(self, capabilities: Mapping[str, Any], log_level: str | None) -> bytes:
        """Make the start of `_meta` for a client with these capabilities; empty if the handshake declares them."""
        if not self._meta_start:
            return b""
        meta = {
            f"{_META_PREFIX}protocolVersion": self._version,
            f"{_META_PREFIX}clientCapabilities": capabilities,
            f"{_META_PREFIX}clientInfo": self.client_info,
        }
        if log_level is not None:
            meta[f"{_META_PREFIX}logLevel"] = log_level
        return msgspec.json.encode(meta)[:-1]

    def declare(self, capabilities: Mapping[str, Any]) -> None:
        """Change the capabilities that each request to a modern server carries."""
        self.capabilities = dict(capabilities)
        self._set_revision(self.revision)

    def tool_call_headers(self, name: str) -> Mapping[str, str]:
        """Return the headers that repeat parts of a tool call in the modern era."""
        found = self._tool_call_headers.get(name)
        if found is None:
            if len(self._tool_call_headers) >= _MAX_TOOL_CALL_HEADERS:
                self._tool_call_headers.clear()
            found = self._tool_call_headers[name] = self._request_headers("tools/call", {"name": name})
        return found

    def meta(self, caller_meta: Mapping[str, Any] | None, token: int | None, client_meta: bytes) -> bytes:
        """Encode `_meta` of one request; empty if it has no members."""
        start = client_meta or self._meta_start
        if not caller_meta and token is None and (client_meta or self.log_level is None):
            return start + b"}" if start else b""
        return bytes(self._meta(caller_meta, token, client_meta))

    def _meta(self, caller_meta: Any, token: int | None, client_meta: bytes = b"") -> Raw:
        """Encode `_meta` of one request: what the era requires, the progress token, and the caller's members."""
        meta = bytearray(client_meta or self._meta_start or b"{")
        extra: dict[str, Any] = {}
        if isinstance(caller_meta, Mapping):
            extra = {
                key: value
                for key, value in caller_meta.items()
                if not key.startswith(_META_PREFIX) or not self._meta_start
            }
        if token is not None:
            extra["progressToken"] = token
        if self.log_level is not None and self._meta_start and not client_meta:
            extra[f"{_META_PREFIX}logLevel"] = self.log_level
        if extra:
            if len(meta) > 1:
                meta += b","
            meta += msgspec.json.encode(extra)[1:]
        else:
            meta += b"}"
        return Raw(bytes(meta))

    def _request_headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        headers = {"MCP-Protocol-Version": self._version, _METHOD_HEADER: method}
        if method in ("tools/call", "prompts/get"):
            headers["Mcp-Name"] = encode_value(str(params.get("name", "")))
        elif method == "resources/read":
            headers["Mcp-Name"] = encode_value(str(params.get("uri", "")))
        return headers

    def _set_revision(self, revision: Revision) -> None:
        self._version = revision.version
        self._tool_call_headers.clear()
        self._meta_start = b"{" if revision.stateless else b""
        self._meta_start = self.client_meta(self.capabilities, None)

    def _set_agreement(self, revision: Revision, info: Any, found: Mapping[str, Any]) -> None:
        self._set_revision(revision)
        instructions = found.get("instructions")
        capabilities = found.get("capabilities")
        self.agreement = Agreement(
            revision=revision,
            server_info=_parse_server_info(info),
            capabilities=capabilities if isinstance(capabilities, dict) else {},
            instructions=instructions if isinstance(instructions, str) else None,
        )
        self.is_ready = True


def _decode_object(raw: Raw, method: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise InvalidResponse(f"The server's response to {method} is not an object") from None


def _parse_server_info(info: Any) -> ServerInfo:
    if not isinstance(info, dict):
        return ServerInfo()
    texts = {key: value for key, value in info.items() if isinstance(value, str)}
    return msgspec.convert(texts, ServerInfo)


def _seconds_or_none(seconds: float) -> float | None:
    return None if seconds == math.inf else seconds


def _seconds_left(started: float, seconds: float) -> float:
    return max(started + seconds - monotonic(), 0.001)
