"""`FileWatch` alone: polling where files cannot be watched, and changes that are written in many steps."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.hub.file_hub import WAIT_TIMEOUT_S, wait_until

from hubbub import bounds
from hubbub.hub.file_watch import FileWatch


async def test_files_are_polled_where_they_cannot_be_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bounds, "WATCH_POLL_S", 0.05)
    missing = tmp_path / "not-yet" / "hubbub.toml"
    watch = FileWatch([missing]).changes()
    assert isinstance(watch, AsyncGenerator)
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        await anext(watch)  # the first one always comes, because the earlier state is unknown
        missing.parent.mkdir()
        missing.write_text("a = 1")
        await anext(watch)
    assert caplog.messages == ["files_not_watched"]
    await watch.aclose()


async def test_a_file_written_in_many_steps_is_one_change(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text("")
    seen: list[str] = []
    watch = FileWatch([path]).changes()

    async def listen() -> None:
        async for _ in watch:
            seen.append(path.read_text())

    task = asyncio.create_task(listen())
    await wait_until(lambda: len(seen) == 1)
    for step in range(20):
        with path.open("a") as file:
            file.write(f"{step}\n")
    await wait_until(lambda: seen[-1].endswith("19\n"))
    assert len(seen) <= 3
    task.cancel()
    await asyncio.wait([task])
