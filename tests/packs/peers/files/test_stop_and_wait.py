"""Whole files to and from an original that confirms each chunk and signs what it says."""

from __future__ import annotations

import os
from pathlib import Path

from tests.packs.peers.files.ends import FileEnd, file_room
from tests.packs.peers.files.stop_and_wait import FileOriginal
from tests.packs.peers.rooms import signalling

from hubbub.packs.peers.files.options import Sending


async def test_an_original_takes_and_sends_large_files_without_names(tmp_path: Path) -> None:
    async with signalling() as host:
        bob = FileEnd(host, "bob", tmp_path, files={"ack_timeout_s": 5.0}, require_session_mac=True)
        async with file_room(bob), FileOriginal(host, folder=tmp_path) as olga:
            await olga.view("bob")
            olga.greet()
            await olga.is_known.wait()
            await bob.notes.until(lambda: bob.mesh.find("olga") and bob.knows("olga"))
            path = bob.write("x", 5_000_000)
            sent = await bob.files.send_path(path, Sending())
            assert (sent.status, sent.retries_total) == ("completed", 0)
            assert bytes((await olga.finished.get()).data) == Path(path).read_bytes()
            data = os.urandom(5_000_000)
            await olga.send_file(data, "back")
            came = bob.files.received("back")
            assert (came.name, bob.content(came)) == ("file.bin", data)
