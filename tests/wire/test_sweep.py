"""The sweep of all connections survives errors, and cuts no caller that still reads."""

import asyncio
import logging
import socket
from pathlib import Path

import pytest
from tests.clock import advance_and_settle, wait_until
from tests.http.certificates import Authority
from tests.http.raw_http import TIMEOUT_S
from tests.wire.byte_client import ByteClient, connect
from tests.wire.recording_server import run_recording_server
from tests.wire.request_bytes import get, read_statuses

from hubbub import bounds
from hubbub.transports.server_tls import TlsFiles

HEAD_S = 20.0


class FailingConnection(asyncio.Protocol):
    """A connection of the server whose deadlines cannot be checked."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def sweep(self, now: float) -> None:
        raise RuntimeError("no deadline")

    def shed(self) -> None:
        pass

    def shut_down(self) -> None:
        pass


class FailingFiles(TlsFiles):
    """TLS files that cannot be checked for changes."""

    def reload_if_changed(self) -> None:
        raise RuntimeError("no file")


async def read_end(client: ByteClient) -> list[int]:
    async with asyncio.timeout(TIMEOUT_S):
        await client.end
    return read_statuses(bytes(client.received))


async def test_an_error_of_one_connection_ends_only_that_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with run_recording_server(head_s=HEAD_S) as server:
        ours, theirs = socket.socketpair()
        with theirs:
            _, failing = await asyncio.get_running_loop().create_connection(FailingConnection, sock=ours)
            server.http.connections.add(failing)
            clients = [await server.connect() for _ in range(3)]
            for _ in range(3):
                await advance_and_settle(HEAD_S)
            assert [await read_end(client) for client in clients] == [[408]] * 3
            assert failing.transport.is_closing()
            server.http.connections.discard(failing)
    assert "checking the deadlines of a connection failed" in caplog.messages


async def test_an_error_of_a_reload_of_tls_files_does_not_end_the_sweep(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = FailingFiles(*Authority().issue().write(tmp_path), None)
    async with run_recording_server(tls=files, head_s=HEAD_S) as server:
        for _ in range(2):
            client = await connect(server.site.port)
            await wait_until(lambda: server.connections == 1)
            for _ in range(3):
                await advance_and_settle(HEAD_S)
            await read_end(client)
        assert dict(server.cut_off) == {"tls_handshake": 2}
    assert caplog.messages.count("reloading the TLS files failed") > 1
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


async def test_a_lingering_connection_with_unread_output_is_not_cut() -> None:
    """After its last response, a connection is read for a limited time, which begins when the response is read."""
    size = 20_000_000
    async with run_recording_server(slow_reader_s=3600) as server:
        client = await server.connect()
        client.transport.pause_reading()
        client.transport.write(get(b"/large?%d" % size, b"Connection: upgrade", b"Upgrade: h2c"))
        await wait_until(lambda: server.seen)
        for _ in range(4):
            await client.settle()
            await advance_and_settle(2 * bounds.LINGER_TIMEOUT_S)
        assert server.connections == 1
        client.transport.resume_reading()
        await read_end(client)
        assert bytes(client.received).endswith(b"x" * size)
