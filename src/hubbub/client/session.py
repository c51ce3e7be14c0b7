"""What is agreed with a server: the version, who it is, what it can do; and requests within that.

In the legacy era this is a session that the server may forget, so it can be renewed: once
for any number of callers that notice (`generation`). In the modern era every request says
who asks, and nothing needs renewing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from hubbub import __version__
from hubbub.client import era
from hubbub.client.config import DEFAULT_PROTOCOL_VERSION, SUPPORTED_PROTOCOL_VERSIONS, ServerConfig
from hubbub.client.requests import NO_HEADERS, Progress, Request
from hubbub.client.results import ServerInfo
from hubbub.client.rpc import JsonRpcClient
from hubbub.errors import HubbubError, ProtocolVersionNotSupported, SessionLost, TransportError
from hubbub.ports import Peer
from hubbub.protocol.headers import encode_value
from hubbub.protocol.revisions import LEGACY, MODERN, Era, Revision

logger = logging.getLogger("hubbub.client")
_PREFIX = "io.modelcontextprotocol/"
_METHOD = "Mcp-Method"


class Agreement(msgspec.Struct, kw_only=True):
    """What a server said of itself."""

    revision: Revision
    server_info: ServerInfo = msgspec.field(default_factory=ServerInfo)
    capabilities: dict[str, Any] = msgspec.field(default_factory=dict)
    instructions: str | None = None


class Session:
    """One server, once it is agreed how to speak with it."""

    def __init__(
        self,
        config: ServerConfig,
        capabilities: Mapping[str, Any],
        converse: Callable[[bool], JsonRpcClient],
    ) -> None:
        self._config = config
        self._converse = converse
        """Makes a conversation; True: over the transport of 2024-11-05."""
        self.capabilities = dict(capabilities)
        self.client_info = dict(config.client_info or {"name": "hubbub", "version": __version__})
        self.rpc = converse(config.transport == "sse")
        self.agreement: Agreement | None = None
        self.generation = 0
        self.log_level: str | None = None
        self._renewing = asyncio.Lock()
        self._meta_start = b""
        self.renewed: Callable[[], Any] | None = None
        """Called after a lost session was replaced."""

    @property
    def key(self) -> str:
        """Names the server for what is remembered of it; never shown."""
        config = self._config
        return config.url or "\0".join((str(config.command), *config.args))

    @property
    def timeout_s(self) -> float:
        """How long an answer may take, unless who asks says otherwise."""
        return self._config.timeout_s

    @property
    def revision(self) -> Revision:
        """How we speak.

        Raises: TransportError, if nothing is agreed yet.
        """
        if self.agreement is None:
            raise TransportError("TRANSPORT_ERROR", "The client was not started", may_have_executed=False)
        return self.agreement.revision

    @property
    def era(self) -> Era:
        """`modern` or `legacy`."""
        return self.revision.era

    async def establish(self) -> None:
        """Start the link and agree on a version.

        Raises: errors of `hubbub.errors`; whoever calls closes the session then.
        """
        await self.rpc.start()
        await era.agree(self, self._config.protocol_version)

    # -- the two handshakes, called by `era` -----------------------------------------

    async def discover(self, version: str) -> dict[str, Any]:
        """Ask a modern server who it is; what it answered.

        Raises: errors of `hubbub.errors`, which `era` reads as signs.
        """
        self._speak(MODERN[version])
        raw = await self._send("server/discover", {}, timeout_s=self._config.timeout_s)
        found = _object(raw, "server/discover")
        versions = found.get("supportedVersions")
        known = [str(item) for item in versions] if isinstance(versions, list) else [version]
        if version not in known:
            raise ProtocolVersionNotSupported(version, known, SUPPORTED_PROTOCOL_VERSIONS)
        meta = found.get("_meta")
        info = (meta.get(f"{_PREFIX}serverInfo") if isinstance(meta, dict) else None) or found.get("serverInfo")
        self._agree(MODERN[version], info, found)
        return found

    def assume(self, version: str) -> None:
        """A modern server that does not say who it is."""
        self._speak(MODERN[version])
        self._agree(MODERN[version], None, {})

    async def initialize(self, version: str | None = None) -> None:
        """Open a legacy session.

        Raises:
            ProtocolVersionNotSupported: the server speaks none of our versions.
        """
        offered = version or DEFAULT_PROTOCOL_VERSION
        params = {
            "protocolVersion": offered,
            "capabilities": self.capabilities,
            "clientInfo": self.client_info,
        }
        self.agreement = None
        # A server that knows the modern headers may want them of this request too; to the others they are nothing.
        raw = await self.rpc.request("initialize", params, headers={_METHOD: "initialize"})
        found = _object(raw, "initialize")
        answered = found.get("protocolVersion") or offered
        revision = LEGACY.get(str(answered))
        if revision is None:
            raise ProtocolVersionNotSupported(offered, [str(answered)], tuple(LEGACY))
        self.rpc.link.settle(revision.version)
        await self.rpc.notify("notifications/initialized", headers={_METHOD: "notifications/initialized"})
        self._agree(revision, found.get("serverInfo"), found)
        self.generation += 1

    async def fall_back(self) -> None:
        """Go on over the transport of 2024-11-05."""
        await self._start_over(over_old_pair=True)

    async def restart(self) -> None:
        """Start the server once more."""
        await self._start_over(over_old_pair=False)

    async def _start_over(self, *, over_old_pair: bool) -> None:
        await self.rpc.close()
        self.rpc = self._converse(over_old_pair)
        await self.rpc.start()

    # -- requests --------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        *,
        timeout_s: float | None = None,
        progress: Progress | None = None,
        back: Peer | None = None,
        token: Raw | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        repeatable: bool = False,
        on_id: Callable[[int], Any] | None = None,
        speaker: bytes = b"",
    ) -> Raw:
        """The raw result of a request; `_meta` and headers are added as the era wants them.

        `speaker` is what `speaking` gave for someone else, in whose name this is asked.

        A session that turns out to be lost is renewed; only what is `repeatable` is then asked again.
        """
        if self.agreement is None:
            await self.wait_for_agreement()
        generation = self.generation
        options: dict[str, Any] = {
            "timeout_s": timeout_s,
            "progress": progress,
            "back": back,
            "token": token,
            "headers": headers,
            "on_id": on_id,
            "speaker": speaker,
        }
        try:
            return await self._send(method, params, **options)
        except SessionLost:
            try:
                await self.renew(generation)
            except HubbubError as error:
                logger.warning("the session with %s was lost and not renewed: %s", self._config.id, error.message)
                if repeatable:
                    raise
            if not repeatable:
                raise
        return await self._send(method, params, **options)

    async def send(self, request: Request, seconds: float) -> Raw:
        """The raw result of a request that is already written. It is never asked again; a lost session is renewed."""
        generation = self.generation
        try:
            return await self.rpc.exchange(request, seconds)
        except SessionLost:
            try:
                await self.renew(generation)
            except HubbubError as error:
                logger.warning("the session with %s was lost and not renewed: %s", self._config.id, error.message)
            raise

    async def notify(self, method: str, params: Any = UNSET) -> None:
        """Send a notification, with the headers that the era wants."""
        is_stateless = self.revision.stateless
        headers = self._headers(method, {}) if is_stateless else NO_HEADERS
        await self.rpc.notify(method, params, is_stateless=is_stateless, headers=headers)

    async def renew(self, generation: int) -> None:
        """Open a new session in place of the one of that generation, unless somebody already has."""
        async with self._renewing:
            if self.generation != generation:
                return
            agreed = self.agreement
            try:
                await self.initialize(agreed.revision.version if agreed is not None else self._config.protocol_version)
            finally:
                self.agreement = self.agreement or agreed
        if self.renewed is not None:
            self.renewed()

    async def wait_for_agreement(self) -> None:
        """While a session is being renewed, others wait; before the first there is nothing to wait for."""
        async with self._renewing:
            self.revision  # noqa: B018  raises if there is none

    async def _send(
        self,
        method: str,
        params: dict[str, Any],
        *,
        timeout_s: float | None = None,
        progress: Progress | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        on_id: Callable[[int], Any] | None = None,
        speaker: bytes = b"",
        **passing: Any,
    ) -> Raw:
        rpc, is_stateless = self.rpc, bool(self._meta_start)
        if is_stateless:
            if rpc.link.is_http:
                headers = {**self._headers(method, params), **headers}
        elif progress is None:
            return await rpc.request(method, params or UNSET, timeout_s=timeout_s, **passing)

        def prepared(identifier: int) -> dict[str, Any]:
            if on_id is not None:
                on_id(identifier)
            token = identifier if progress is not None else None
            return {**params, "_meta": self._meta(params.get("_meta"), token, speaker)}

        return await rpc.request(
            method,
            timeout_s=timeout_s,
            progress=progress,
            headers=headers,
            is_stateless=is_stateless,
            prepare=prepared,
            **passing,
        )

    def speaking(self, capabilities: Mapping[str, Any], log_level: str | None) -> bytes:
        """How `_meta` starts when we ask for someone with these capabilities; empty where a session says it once."""
        if not self._meta_start:
            return b""
        meta = {
            f"{_PREFIX}protocolVersion": self._version,
            f"{_PREFIX}clientCapabilities": capabilities,
            f"{_PREFIX}clientInfo": self.client_info,
        }
        if log_level is not None:
            meta[f"{_PREFIX}logLevel"] = log_level
        return msgspec.json.encode(meta)[:-1]

    def headers_of_call(self, name: str) -> dict[str, str]:
        """What HTTP repeats of a tool call in the modern era."""
        return {"MCP-Protocol-Version": self._version, _METHOD: "tools/call", "Mcp-Name": encode_value(name)}

    def meta(self, given: Mapping[str, Any] | None, token: int | None, speaker: bytes) -> bytes:
        """`_meta` of one request as bytes; empty if there is nothing to say."""
        start = speaker or self._meta_start
        if not given and token is None and (speaker or self.log_level is None):
            return start + b"}" if start else b""
        return bytes(self._meta(given, token, speaker))

    def _meta(self, given: Any, token: int | None, speaker: bytes = b"") -> Raw:
        """`_meta` of one request: what the era demands, the progress token, and what the caller wants besides."""
        meta = bytearray(speaker or self._meta_start or b"{")
        extra: dict[str, Any] = {}
        if isinstance(given, Mapping):
            extra = {key: value for key, value in given.items() if not key.startswith(_PREFIX) or not self._meta_start}
        if token is not None:
            extra["progressToken"] = token
        if self.log_level is not None and self._meta_start and not speaker:
            extra[f"{_PREFIX}logLevel"] = self.log_level
        if extra:
            if len(meta) > 1:
                meta += b","
            meta += msgspec.json.encode(extra)[1:]
        else:
            meta += b"}"
        return Raw(bytes(meta))

    def _headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        headers = {"MCP-Protocol-Version": self._version, _METHOD: method}
        if method in ("tools/call", "prompts/get"):
            headers["Mcp-Name"] = encode_value(str(params.get("name", "")))
        elif method == "resources/read":
            headers["Mcp-Name"] = encode_value(str(params.get("uri", "")))
        return headers

    def _speak(self, revision: Revision) -> None:
        self._version = revision.version
        self._meta_start = b"{" if revision.stateless else b""
        self._meta_start = self.speaking(self.capabilities, None)

    def _agree(self, revision: Revision, info: Any, found: Mapping[str, Any]) -> None:
        self._speak(revision)
        instructions = found.get("instructions")
        capabilities = found.get("capabilities")
        self.agreement = Agreement(
            revision=revision,
            server_info=_server_info(info),
            capabilities=capabilities if isinstance(capabilities, dict) else {},
            instructions=instructions if isinstance(instructions, str) else None,
        )


def _object(raw: Raw, method: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise TransportError("INVALID_RESPONSE", f"The server's answer to {method} is no object") from None


def _server_info(info: Any) -> ServerInfo:
    if not isinstance(info, dict):
        return ServerInfo()
    texts = {key: value for key, value in info.items() if isinstance(value, str)}
    return msgspec.convert(texts, ServerInfo)
