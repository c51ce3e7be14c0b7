"""Negotiation of the era with servers on stdio, within one time limit."""

import asyncio
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.client.harness import assert_no_leaks, stdio_config
from tests.clock import advance_clock, wait_until

from hubbub import Client, DeadlineExceeded, KnownEras, ServerConfig, TransportError, bounds

PROGRAM = str(Path(__file__).with_name("handshake_server.py"))
SHORT_WAIT_S, LONG_WAIT_S = 0.2, 15.0
ANSWERS_THE_PROBE = ("modern", "legacy", "ends", "ends-in-a-call")
Wait = Callable[[str], None]


@pytest.fixture(autouse=True)
def set_probe_wait(monkeypatch: pytest.MonkeyPatch) -> Wait:
    """Set the timeout of the probe: long for servers that answer it, short for others."""

    def wait_for(mode: str) -> None:
        seconds = LONG_WAIT_S if mode in ANSWERS_THE_PROBE else SHORT_WAIT_S
        monkeypatch.setattr(bounds, "DISCOVER_TIMEOUT_S", seconds)

    wait_for("breaks")
    return wait_for


class RecordingKnownEras(KnownEras):
    """Also records the key under which the last server was looked up."""

    key = ""

    def is_legacy(self, key: str) -> bool:
        self.key = key
        return super().is_legacy(key)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The folder in which eras are stored."""
    return tmp_path / "state"


def server(mode: str, log: Path, **fields: Any) -> ServerConfig:
    return stdio_config(PROGRAM, mode, str(log), **{"timeout_s": 20, **fields})


def logged_methods(log: Path) -> list[str]:
    return [line for line in log.read_text().splitlines() if not line.startswith("notifications/")]


@pytest.mark.parametrize(
    ("mode", "era", "expected"),
    [
        # A server that answers at once gets one request.
        ("modern", "modern", ["start", "server/discover"]),
        ("legacy", "legacy", ["start", "server/discover", "initialize"]),
        # A slow server is not restarted, and a modern one is not classified as legacy.
        ("late-modern", "modern", ["start", "server/discover", "initialize"]),
        ("late-both", "modern", ["start", "server/discover", "initialize"]),
        ("late-legacy", "legacy", ["start", "server/discover", "initialize"]),
        ("ignores", "legacy", ["start", "server/discover", "initialize"]),
        # A server that exits at the probe is restarted.
        ("breaks", "legacy", ["start", "server/discover", "initialize", "start", "initialize"]),
        ("ends", "legacy", ["start", "server/discover", "start", "initialize"]),
    ],
)
async def test_the_era_is_detected_with_as_few_starts_as_possible(
    mode: str, era: str, expected: list[str], tmp_path: Path, set_probe_wait: Wait
) -> None:
    set_probe_wait(mode)
    log = tmp_path / "log"
    async with assert_no_leaks(), Client(server(mode, log)) as client:
        assert client.era == era
        assert logged_methods(log) == expected
        assert [tool.name for tool in await client.tools()] == ["echo"]


@pytest.mark.parametrize("mode", ["breaks", "ignores", "ends"])
async def test_a_server_that_fails_at_the_probe_is_not_probed_again(
    mode: str, tmp_path: Path, set_probe_wait: Wait
) -> None:
    set_probe_wait(mode)
    log = tmp_path / "log"
    config = server(mode, log)
    async with Client(config):
        log.write_text("")
    async with Client(config) as client:
        assert client.era == "legacy"
        assert logged_methods(log) == ["start", "initialize"]


async def test_a_server_that_became_modern_is_detected(tmp_path: Path, set_probe_wait: Wait) -> None:
    set_probe_wait("modern")
    log = tmp_path / "log"
    config, known = server("modern", log), RecordingKnownEras()
    async with Client(config, known_eras=known):
        log.write_text("")
    known.remember(known.key)
    async with Client(config, known_eras=known) as client:
        assert client.era == "modern"
        assert logged_methods(log) == ["start", "initialize", "server/discover"]
    log.write_text("")
    async with Client(config, known_eras=known):
        assert logged_methods(log) == ["start", "server/discover"]


async def test_a_server_that_stays_silent_is_tried_with_the_other_era_next_time(tmp_path: Path) -> None:
    log = tmp_path / "log"
    config = server("hangs", log, timeout_s=1)
    async with assert_no_leaks():
        with pytest.raises(DeadlineExceeded, match="pin its version"):
            await Client(config).start()
        async with Client(server("hangs", log)) as client:
            assert client.era == "legacy"


async def test_two_starts_without_a_response_leave_the_era_unknown(tmp_path: Path) -> None:
    log, known = tmp_path / "log", RecordingKnownEras()
    for is_known in (True, False):
        with pytest.raises(DeadlineExceeded, match="handshake"):
            await Client(server("never-reads", log, timeout_s=1), known_eras=known).start()
        assert known.is_legacy(known.key) is is_known


async def test_the_time_limit_covers_the_whole_start(tmp_path: Path) -> None:
    log = tmp_path / "log"
    starting = asyncio.create_task(Client(server("hangs", log, timeout_s=300)).start())
    await wait_until(lambda: log.exists() and "initialize" in logged_methods(log))  # the second step
    advance_clock(300)
    with pytest.raises(DeadlineExceeded, match="after 300 s"):
        await starting


@pytest.mark.parametrize("version", ["2025-06-18", "2024-11-05"])
async def test_a_pinned_version_needs_no_probe(version: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with Client(server("breaks", log, protocol_version=version)) as client:
        assert client.protocol_version == version
        assert logged_methods(log) == ["start", "initialize"]


async def test_a_server_that_exits_during_a_call_is_not_restarted(tmp_path: Path, set_probe_wait: Wait) -> None:
    set_probe_wait("ends-in-a-call")
    log = tmp_path / "log"
    async with assert_no_leaks(), Client(server("ends-in-a-call", log)) as client:
        with pytest.raises(TransportError):
            await client.call_tool("echo")
        assert logged_methods(log) == ["start", "server/discover", "initialize", "tools/call"]


# -- stored eras -------------------------------------------------------------


async def test_an_era_that_was_slow_to_detect_is_stored_in_the_state_folder_without_the_command(
    tmp_path: Path, state: Path
) -> None:
    log = tmp_path / "log"
    config = stdio_config(PROGRAM, "breaks", str(log), "--token", "canary-4711", timeout_s=20)
    known = RecordingKnownEras(lambda: state)
    async with Client(config, known_eras=known):
        key = known.key
    (file,) = state.iterdir()
    text = file.read_text()
    assert "canary" not in text
    assert PROGRAM not in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not KnownEras().is_legacy(key)
    another_process = KnownEras(lambda: state)
    assert another_process.is_legacy(key)
    assert not another_process.is_legacy(key + "x")
    another_process.forget(key)
    assert not another_process.is_legacy(key)
    assert json.loads(file.read_text())["until"] == {}


async def test_an_era_that_was_fast_to_detect_is_not_stored(tmp_path: Path, state: Path, set_probe_wait: Wait) -> None:
    set_probe_wait("legacy")
    async with Client(server("legacy", tmp_path / "log"), known_eras=KnownEras(lambda: state)):
        assert not state.exists()


async def test_a_client_without_known_eras_neither_reads_nor_stores_them(tmp_path: Path, state: Path) -> None:
    log, own = tmp_path / "log", KnownEras(lambda: state)
    async with Client(server("breaks", log), known_eras=own):
        (file,) = state.iterdir()
        before = file.read_text()
    log.write_text("")
    async with Client(server("breaks", log)):
        assert "server/discover" in logged_methods(log)
    async with Client(server("ends", log)):
        assert file.read_text() == before


def test_stored_eras_are_bounded_and_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "KNOWN_ERAS_ON_DISK", 3)
    now = [1000.0]

    def new_known_eras() -> KnownEras:
        return KnownEras(lambda: tmp_path, clock=lambda: now[0])

    for number in range(5):
        now[0] += 1
        new_known_eras().remember(f"server {number}", outlives_process=True)
    assert [new_known_eras().is_legacy(f"server {number}") for number in range(5)] == [False, False, True, True, True]
    now[0] += bounds.KNOWN_ERA_TTL_S - 1
    assert [new_known_eras().is_legacy(f"server {number}") for number in range(5)] == [False, False, False, False, True]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"salt": 3}', b"\xff\xfe"])
def test_an_invalid_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    eras = KnownEras(lambda: tmp_path)
    (tmp_path / "legacy-servers.json").write_bytes(content)
    assert not eras.is_legacy("server")
    eras.remember("server", outlives_process=True)
    again = KnownEras(lambda: tmp_path)
    assert again.is_legacy("server")


def test_without_a_writable_folder_eras_are_remembered_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    eras = KnownEras(lambda: tmp_path / "file" / "below")
    eras.remember("server", outlives_process=True)
    assert eras.is_legacy("server")
