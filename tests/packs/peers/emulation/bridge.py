"""The VDO.Ninja bridge, emulated: hellos, tokens, session MACs, heartbeats, and how it knows its peers.

It takes a peer's name from the connection on which a message arrives, never from the message. So it knows a peer that
it views under the right name, and a peer that views it under its own name: sends by name, the allow-list and join
tokens then fail. It ignores unanswered pings.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

from tests.packs.peers.emulation.crypto import SessionKeys, check_token, envelope_mac, mint_token
from tests.packs.peers.emulation.sdk import PeerConnection, Sdk, now_ms

ENVELOPE_MARK = "vdo_mcp_bridge_v1"
WAIT_S = 60.0
HEARTBEATS_PER_HELLO = 4
CAPABILITIES = ("sync_v1", "file_transfer_v1", "state_v1", "resume_v1", "session_mac_v1")


class PeerRecord:
    """What the bridge knows about one peer."""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        self.stream_id: str | None = None
        self.handshake_state = "discovered"
        self.auth_ok = False
        self.rejected_reason: str | None = None
        self.key: bytes | None = None
        self.heartbeats = 0


class EmulatedVdoBridge:
    """One VDO.Ninja bridge in one room; an async context manager."""

    def __init__(
        self,
        host: str,
        stream_id: str,
        *,
        room: str = "hall",
        target: str | None = None,
        secret: str | None = None,
        enforce_join_token: bool = False,
        allow: tuple[str, ...] = (),
        require_session_mac: bool = False,
        heartbeat_s: float | None = None,
        accepts_unasked_offers: bool = True,
    ) -> None:
        self.stream_id = stream_id
        self.peers: dict[str, PeerRecord] = {}
        self.received: list[tuple[str | None, Any]] = []
        """Application data, each with the name of the connection on which it arrived."""
        self.envelopes: list[tuple[str | None, dict[str, Any]]] = []
        """File and state envelopes that passed the MAC check, likewise."""
        self.auth_failures: list[str] = []
        self.rejections: list[tuple[str | None, str]] = []
        """Peers that this bridge rejected, with the reason."""
        self.rejected_by: list[str] = []
        """Reasons of peers that rejected this bridge."""
        self.closed_channels = 0
        self.handlers: dict[str, Callable[[PeerRecord, dict[str, Any]], None]] = {}
        """Called with each file or state envelope of that kind; for tests that implement more of the protocol."""
        self.sdk = Sdk(self, host, room, stream_id, accepts_unasked_offers=accepts_unasked_offers)
        self._room, self._target = room, target
        self._secret, self._is_enforcing, self._allow = secret, enforce_join_token, allow
        self._requires_mac = require_session_mac
        self._heartbeat_s = heartbeat_s
        self._keys = SessionKeys()
        self._heartbeats = 0
        self._heartbeat_task: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> EmulatedVdoBridge:
        await self.sdk.connect()
        if self._target is not None:
            await self.sdk.view(self._target)
        if self._heartbeat_s is not None:
            self._heartbeat_task = asyncio.create_task(self._send_heartbeats(self._heartbeat_s))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def leave(self, *, sends_bye: bool = True) -> None:
        """Stop; without `bye`, as if the process were killed."""
        if self._heartbeat_task is not None:
            self._heartbeat_task.cancel()
            await asyncio.wait([self._heartbeat_task])
        await self.sdk.close(sends_bye=sends_bye)

    async def until(self, condition: Callable[[], object], wait_s: float = WAIT_S) -> None:
        """Wait until a condition holds; it is checked after each arrival."""
        async with asyncio.timeout(wait_s):
            while not condition():
                self._arrived.clear()
                await self._arrived.wait()

    @property
    def kinds(self) -> list[str]:
        """The kinds of all file and state envelopes so far."""
        return [envelope["kind"] for _, envelope in self.envelopes]

    def knows(self, stream_id: str) -> bool:
        """Whether it has a peer of that name with a key."""
        return any(peer.stream_id == stream_id and peer.key is not None for peer in self.peers.values())

    # -- tools of the bridge -----------------------------------------------------------------

    def resolve(self, target: str) -> str:
        """The uuid of the first peer of that name; any other text is taken for a uuid."""
        return next((peer.uuid for peer in self.peers.values() if peer.stream_id == target), target)

    def send(self, data: Any, target: str | None = None) -> bool:
        """`vdo_send`; return whether a channel accepted the data."""
        return self._send({"pipe": data}, target)

    def send_envelope(self, kind: str, payload: dict[str, Any], target: str | None = None) -> bool:
        """An envelope; signed if the target is a peer's uuid and its key is known."""
        envelope: dict[str, Any] = {
            "__vdo_mcp": ENVELOPE_MARK,
            "kind": kind,
            "ts": now_ms(),
            "nonce": f"p_{secrets.token_hex(4)}",
            "room": self._room,
            "from_stream_id": self.stream_id,
            "payload": payload,
        }
        peer = self.peers.get(target or "")
        if peer is not None and peer.key is not None and kind not in ("sync.hello", "sync.heartbeat", "sync.reject"):
            envelope["mac"] = envelope_mac(peer.key, envelope)
        return self._send({"pipe": envelope}, target)

    def send_hello(self, target: str | None = None) -> bool:
        return self.send_envelope("sync.hello", self._hello(), target)

    def send_heartbeat(self) -> None:
        """One heartbeat."""
        self._heartbeats += 1
        if not self.sdk.open_peers():
            return
        self.send({"type": "bridge.keepalive", "ts": now_ms(), "streamID": self.stream_id})
        self.send_envelope("sync.heartbeat", {"room": self._room, "stream_id": self.stream_id})
        for uuid in self.sdk.open_peers():
            self.sdk.send(uuid, {"ping": now_ms()})
        if self._heartbeats % HEARTBEATS_PER_HELLO == 0:
            self.send_hello()

    def _send(self, frame: dict[str, Any], target: str | None) -> bool:
        uuids = self.sdk.open_peers() if target is None else [self.resolve(target)]
        is_sent = [self.sdk.send(uuid, frame) for uuid in uuids]
        return any(is_sent)

    async def _send_heartbeats(self, heartbeat_s: float) -> None:
        while True:
            await asyncio.sleep(heartbeat_s)
            self.send_heartbeat()

    # -- callbacks of the SDK ----------------------------------------------------------------

    def channel_opened(self, connection: PeerConnection) -> None:
        self._record(connection)
        self.send_hello(connection.uuid)
        self._arrived.set()

    def channel_closed(self, connection: PeerConnection) -> None:
        self.closed_channels += 1
        self._arrived.set()

    def data_received(self, connection: PeerConnection, data: Any) -> None:
        peer = self._record(connection)
        if isinstance(data, dict) and data.get("__vdo_mcp") == ENVELOPE_MARK:
            self._handle_envelope(peer, data)
        else:
            self.received.append((peer.stream_id, data))
        self._arrived.set()

    def _record(self, connection: PeerConnection) -> PeerRecord:
        peer = self.peers.setdefault(connection.uuid, PeerRecord(connection.uuid))
        peer.stream_id = connection.stream_id
        return peer

    # -- envelopes ---------------------------------------------------------------------------

    def _handle_envelope(self, peer: PeerRecord, envelope: dict[str, Any]) -> None:
        kind, payload = envelope["kind"], envelope["payload"]
        if kind.startswith("sync."):
            self._handle_sync(peer, kind, payload)
            return
        if not self._is_authentic(peer, envelope):
            self.auth_failures.append(kind)
            return
        self.envelopes.append((peer.stream_id, envelope))
        if kind == "state.snapshot_req":
            empty = {"entries": [], "actor_clock": {}, "generated_at": ""}
            self.send_envelope("state.snapshot", {"room": self._room, "stream_id": self.stream_id, **empty}, peer.uuid)
        if kind in self.handlers:
            self.handlers[kind](peer, payload)

    def _is_authentic(self, peer: PeerRecord, envelope: dict[str, Any]) -> bool:
        if "mac" not in envelope:
            return not self._requires_mac
        return peer.key is not None and envelope["mac"] == envelope_mac(peer.key, envelope)

    def _handle_sync(self, peer: PeerRecord, kind: str, payload: dict[str, Any]) -> None:
        if self._allow and peer.stream_id not in self._allow:
            self._reject(peer, "peer not on allowlist")
        elif kind == "sync.heartbeat":
            peer.heartbeats += 1
        elif kind == "sync.reject":
            self.rejected_by.append(payload["reason"])
            peer.handshake_state, peer.rejected_reason = "rejected", payload["reason"]
        elif kind in ("sync.hello", "sync.hello_ack"):
            self._handle_hello(peer, kind, payload)

    def _handle_hello(self, peer: PeerRecord, kind: str, payload: dict[str, Any]) -> None:
        token, is_enforcing = payload.get("join_token"), self._is_enforcing
        refusal = check_token(token, self._secret, self._room, peer.stream_id, enforce=is_enforcing)
        peer.auth_ok = refusal is None
        if refusal is not None and is_enforcing:
            self.send_envelope("sync.reject", {"reason": refusal}, peer.uuid)
            self._reject(peer, refusal)
            return
        peer.key = self._keys.derive(payload["public_key"])
        peer.handshake_state = "hello_received" if kind == "sync.hello" else "ready"
        if kind == "sync.hello":
            self.send_envelope("sync.hello_ack", self._hello(), peer.uuid)
        request = {"room": self._room, "requester_stream_id": self.stream_id}
        self.send_envelope("state.snapshot_req", request, peer.uuid)

    def _reject(self, peer: PeerRecord, reason: str) -> None:
        peer.handshake_state, peer.rejected_reason = "rejected", reason
        self.rejections.append((peer.stream_id, reason))

    def _hello(self) -> dict[str, Any]:
        token = None if self._secret is None else mint_token(self._secret, self._room, self.stream_id)
        capabilities = dict.fromkeys(CAPABILITIES, True)
        return {"capabilities": capabilities, "public_key": self._keys.public_key, "join_token": token}
