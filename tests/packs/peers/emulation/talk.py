"""One of our ends and an emulated original talk to each other."""

from __future__ import annotations

from tests.packs.peers.emulation.bridge import EmulatedOriginal
from tests.packs.peers.rooms import End


async def exchange(ours: End, original: EmulatedOriginal, name: str) -> None:
    """A message in each direction, each addressed by name."""
    assert original.send({"from": original.stream_id}, name), f"the original knows no {name}"
    await ours.notes.until(lambda: (original.stream_id, {"from": original.stream_id}) in ours.notes.data)
    assert ours.mesh.send({"from": name}, to=original.stream_id).ok
    await original.until(lambda: (name, {"from": name}) in original.received)
