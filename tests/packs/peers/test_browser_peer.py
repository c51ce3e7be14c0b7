"""A page in a real browser acts as a VDO.Ninja bridge, with the JSON, cryptography and WebRTC of the browser.

The page is `browser_peer/vdo_bridge.js`, which is independent of Hubbub's code.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.browser.chromium import PageServer, find_chromium, open_page
from tests.packs.peers.room_agents import RoomAgent, joined_room, signalling
from tests.packs.peers.served_agents import ServedAgent, serve_agents

HERE = Path(__file__).parent / "browser_peer"
ROLES = ("unrequested", "viewer")
"""Whether the page answers an unrequested offer of Hubbub, or requests one."""
START_S = 60.0


class Page:
    """Opens pages that join rooms."""

    def __init__(self, chromium: str, folder: Path) -> None:
        self._chromium, self._folder = chromium, folder
        self._pages = PageServer(HERE)

    @contextmanager
    def joined(self, host: str, role: str, target: str) -> Iterator[None]:
        """Open a page as `page` in the room `hall`; an error inside it fails the test."""
        query = {"host": host, "room": "hall", "name": "page"} | ({"target": target} if role == "viewer" else {})
        url = f"{self._pages.origin('127.0.0.1')}/vdo_bridge.html?{urlencode(query)}"
        try:
            with open_page(self._chromium, url, self._folder):
                yield
        finally:
            errors = [body.decode() for body in list(self._pages.findings.queue)]
            assert not errors

    def close(self) -> None:
        self._pages.close()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("no Chromium here: `make setup` as root on Debian installs it")
    page = Page(chromium, tmp_path)
    yield page
    page.close()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("engine", ["wrtc", "aiortc"])
async def test_a_browser_page_completes_the_handshake_and_exchanges_messages(
    page: Page, engine: str, role: str
) -> None:
    async with signalling() as host:
        ann, notes = (agent := RoomAgent(host, "ann", engine)), agent.listener
        async with joined_room(ann):
            with page.joined(host, role, "ann"):
                await notes.until(lambda: ann.knows("page"), START_S)
                peer = ann.mesh.find("page")
                assert peer is not None
                assert not peer.capabilities.hubbub_v1
                value = {"2": 1.50, "1": ["é", "\u2028", 1e-7, 2**60, -0.0], "deep": {"": None}}
                assert ann.mesh.send({"command": "echo", "value": value}, to="page").ok
                await notes.until(lambda: notes.data)
                assert notes.data == [("page", {"echo": value})]
                # Its own envelopes are signed over JSON text as JavaScript writes it.
                await notes.until(lambda: notes.envelopes)
                assert {(name, envelope.kind) for name, envelope in notes.envelopes} == {("page", "state.snapshot_req")}
                assert all(envelope.mac for _, envelope in notes.envelopes)
                assert not notes.of("protocol_auth_failed")


async def test_a_closed_browser_page_is_detected_within_ten_seconds(page: Page) -> None:
    """It sends no `bye` and is not Hubbub; it counts as dead because it answered a ping before."""
    async with signalling() as host:
        ann = RoomAgent(host, "ann")
        async with joined_room(ann):
            with page.joined(host, "viewer", "ann"):
                await ann.listener.until(lambda: ann.knows("page"), START_S)
                assert ann.mesh.send({"command": "echo", "value": 1}, to="page").ok
                await ann.listener.until(lambda: ann.listener.data)
            await ann.listener.until(lambda: "page" in ann.listener.gone, 10)


async def test_our_macs_equal_those_of_javascript(page: Page) -> None:
    """The page reports an error for an envelope whose MAC is missing or wrong."""
    async with signalling() as host:
        ann = RoomAgent(host, "ann", require_session_mac=True)
        async with joined_room(ann):
            with page.joined(host, "viewer", "ann"):
                await ann.listener.until(lambda: ann.knows("page"), START_S)
                values = (1.0, 1e21, 1e-7, 2**53 + 1, {"b": 1, "2": 1, "10": 1}, "\ud800", "\u2028\x7f\x01é", None)
                for clock, value in enumerate(values, 1):
                    patch = {"key": "k", "value": value, "actor": "ann", "clock": clock, "updated_at": ""}
                    assert ann.mesh.send_envelope("state.patch", patch).ok
                assert ann.mesh.send({"command": "echo", "value": "all received"}).ok
                await ann.listener.until(lambda: ann.listener.data)


@pytest.mark.parametrize("role", ROLES)
async def test_a_page_exchanges_messages_and_files_with_an_agent(page: Page, tmp_path: Path, role: str) -> None:
    async with signalling() as host, serve_agents(tmp_path, "ann") as (ann,):
        await ann.connect(host)
        with page.joined(host, role, "ann"):
            await ann.wait_for_peers("page", wait_s=START_S)
            await ann.call("vdo_send", target="page", data={"command": "echo", "value": "from an agent"})
            await ann.wait_for_data(lambda data: data == {"echo": "from an agent"})
            await receive_file(ann, bytes_=300_000)
            await send_file(ann, bytes_=300_000)


async def receive_file(ann: ServedAgent, bytes_: int) -> None:
    """Receive a file from the page, one chunk at a time in envelopes."""
    await ann.call("vdo_send", target="page", data={"command": "send", "bytes": bytes_, "seed": 7})
    sent = (await ann.wait_for_data(lambda data: "sent" in data))["sent"]
    whole = bytes((at * 7 + (at >> 8)) & 255 for at in range(bytes_))
    assert sent["file_hash"] == sha256(whole).hexdigest()
    event = await ann.wait_for_event("file_received", transfer_id=sent["transfer_id"])
    assert (event["name"], event["total_bytes"], event["file_hash"]) == ("page.bin", bytes_, sent["file_hash"])
    read = await ann.call("vdo_file_receive", transfer_id=sent["transfer_id"])
    assert b64decode(read["data_base64"]) == whole


async def send_file(ann: ServedAgent, bytes_: int) -> None:
    """Send a file to the page, which accepts only envelopes and verifies every hash."""
    whole = bytes(at * 11 & 255 for at in range(bytes_))
    (ann.folder / "given.bin").write_bytes(whole)
    sent = await ann.call("vdo_file_send_path", target="page", file_path="given.bin")
    assert sent["transfer"]["status"] == "completed"
    received = (await ann.wait_for_data(lambda data: "received" in data))["received"]
    hash_ = sha256(whole).hexdigest()
    assert received["hash"] == sent["transfer"]["file_hash"] == hash_
    assert (received["name"], received["bytes"]) == ("given.bin", bytes_)
