"""Files to and from a VDO.Ninja bridge that acknowledges each chunk and signs its messages."""

from __future__ import annotations

import os
from pathlib import Path

from tests.packs.peers.files.file_agents import FileAgent, joined_file_room
from tests.packs.peers.files.stop_and_wait import StopAndWaitBridge
from tests.packs.peers.room_agents import signalling

from hubbub.packs.peers.files.options import SendRequest


async def test_a_vdo_bridge_receives_and_sends_large_files_without_names(tmp_path: Path) -> None:
    async with signalling() as host:
        bob = FileAgent(host, "bob", tmp_path, files={"ack_timeout_s": 5.0}, require_session_mac=True)
        async with joined_file_room(bob), StopAndWaitBridge(host, folder=tmp_path) as olga:
            await olga.view("bob")
            olga.send_hello()
            await olga.is_known.wait()
            await bob.listener.until(lambda: bob.mesh.find("olga") and bob.knows("olga"))
            path = bob.write("x", 5_000_000)
            sent = await bob.files.send_path(path, SendRequest())
            assert (sent.status, sent.retries_total) == ("completed", 0)
            assert bytes((await olga.finished.get()).data) == Path(path).read_bytes()
            data = os.urandom(5_000_000)
            await olga.send_file(data, "back")
            came = bob.files.get_received("back")
            assert (came.name, bob.content(came)) == ("file.bin", data)
