"""Files over real WebRTC, in one process: they arrive whole, or it is said that they did not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.packs.peers.files.ends import pair

from hubbub.packs.peers.files.options import Sending


@pytest.mark.parametrize(
    "engines", [("wrtc", "wrtc"), ("aiortc", "aiortc"), ("wrtc", "aiortc"), ("aiortc", "wrtc")], ids="-".join
)
async def test_a_file_arrives_whole(engines: tuple[str, str], tmp_path: Path) -> None:
    async with pair(tmp_path, engines) as (ann, bob):
        path = ann.write("report.bin", 5_000_001)
        sent = await ann.files.send_path(path, Sending(mime="text/x-report"))
        assert (sent.status, sent.name, sent.layout.total_chunks) == ("completed", "report.bin", 77)
        [came] = bob.files.incoming
        assert (came.status, came.name, came.mime, came.is_spooled) == (
            "completed",
            "report.bin",
            "text/x-report",
            True,
        )
        assert bob.content(came) == Path(path).read_bytes()
        assert came.file_hash == sent.file_hash
        assert not [envelope for _, envelope in bob.notes.envelopes if envelope.kind == "file.chunk"]
