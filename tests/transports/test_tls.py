"""TLS of the HTTP server: handshakes, requests, WebSockets, client certificates, and certificates that change."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.http.certificates import Authority, Pair, common_name, replace_file
from tests.http.eras import modern_request, open_session
from tests.http.in_process_server import RunningServer, run_server, wait_until
from tests.http.raw_http import JSON, TIMEOUT_S, RawConnection, Response, Site, call, request
from tests.http.server_process import PLAYGROUND, ServerProcess
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from hubbub import SettingsError, bounds
from hubbub.transports.server_tls import TlsFiles

PING = json.dumps(request("ping")).encode()


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="session")
def pair(authority: Authority) -> Pair:
    return authority.issue()


@pytest.fixture
def _fast_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SWEEP_INTERVAL_S", 0.02)


@asynccontextmanager
async def run_tls(folder: Path, authority: Authority, pair: Pair, **settings: Any) -> AsyncIterator[RunningServer]:
    """Serve https; `site` trusts the authority, and presents a certificate if the server wants one."""
    cert_file, key_file = pair.write(folder)
    context = authority.client_context(pair, folder) if "tls_client_ca_file" in settings else authority.client_context()
    async with run_server(tls_cert_file=cert_file, tls_key_file=key_file, **settings) as instance:
        instance.site = Site(instance.site.port, ssl=context, server_hostname="localhost")
        yield instance


async def cut_off_count(instance: RunningServer, reason: str) -> int:
    metrics = (await instance.site.get("/metrics")).body.decode()
    prefix = f'hubbub_callers_cut_off_total{{reason="{reason}"}} '
    return sum(int(float(line.removeprefix(prefix))) for line in metrics.splitlines() if line.startswith(prefix))


async def wait_for_cut_off(instance: RunningServer, reason: str, count: int = 1) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while await cut_off_count(instance, reason) < count:
            await asyncio.sleep(0.02)


async def read_name(port: int, context: ssl.SSLContext) -> str:
    """Return the common name of the certificate that a new connection gets."""
    async with Site(port, ssl=context, server_hostname="localhost").connect() as link:
        certificate = link.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return common_name(certificate)


# -- requests ------------------------------------------------------------------------------------


async def test_requests_streams_and_large_responses(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair) as instance:
        before = await instance.count_resources()
        async with instance.site.connect() as link:
            tls = link.writer.get_extra_info("ssl_object")
            assert (tls.version(), tls.selected_alpn_protocol()) == ("TLSv1.3", None)
            for _ in range(3):
                await link.send_request("POST", "/mcp", JSON, PING)
                assert (await link.read_response()).json["result"] == {}
            await link.send_request("POST", "/mcp", JSON, json.dumps(request("big", {"size": 5_000_000})).encode())
            assert len((await link.read_response()).body) > 5_000_000
            await link.send_request(
                "POST", "/mcp", JSON, json.dumps(request("echo", {"text": "x" * 1_000_000})).encode()
            )
            assert len((await link.read_response()).body) > 1_000_000
        session = await open_session(instance.site)
        async with session.call(call("count", {"to": 3}, token=1)) as stream:
            messages = [event.json for event in await stream.rest() if event.data]
        assert [message.get("method", "result") for message in messages] == ["notifications/progress"] * 3 + ["result"]
        await session.end()
        await instance.wait_for_count(before)


async def test_cookies_are_secure(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair) as instance:
        answer = await instance.site.post(request("echo", {"text": "x"}))
        assert "; Secure" in (answer.header("set-cookie") or "")


async def test_alpn_offers_http_1_only(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    context = authority.client_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with run_tls(tmp_path, authority, pair) as instance, instance.site.connect(ssl=context) as link:
        assert link.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"


async def test_tls_1_2_is_the_oldest_version(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair) as instance:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = authority.client_context()
            context.minimum_version = context.maximum_version = version
            async with instance.site.connect(ssl=context) as link:
                await link.send_request("GET", "/health")
                assert (await link.read_response()).status == 200
        context = TlsFiles(str(tmp_path / "server.pem"), str(tmp_path / "server.key")).context
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2


class MemoryClient:
    """A TLS client that sends bytes one by one, and keeps its connection open after the server's end of the stream."""

    def __init__(self, context: ssl.SSLContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    async def run(self, step: Callable[[], Any]) -> Any:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                for byte in self._outgoing.read():
                    self.writer.write(bytes([byte]))
                    await asyncio.sleep(0)
                self._incoming.write(await self._reader.read(65536))

    async def read_to_end(self) -> bytes:
        data = b""
        try:
            while part := await self.run(lambda: self.tls.read(65536)):
                data += part
        except ssl.SSLZeroReturnError:
            pass
        return data


@asynccontextmanager
async def open_memory_client(port: int, context: ssl.SSLContext) -> AsyncIterator[MemoryClient]:
    client = MemoryClient(context, *await asyncio.open_connection("127.0.0.1", port))
    await client.run(client.tls.do_handshake)
    yield client
    client.writer.close()
    await client.writer.wait_closed()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_handshake_and_request_may_arrive_byte_by_byte(
    tmp_path: Path, authority: Authority, pair: Pair, version: ssl.TLSVersion
) -> None:
    context = authority.client_context()
    context.minimum_version = context.maximum_version = version
    async with (
        run_tls(tmp_path, authority, pair) as instance,
        open_memory_client(instance.site.port, context) as client,
    ):
        client.tls.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await client.read_to_end()).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(("field", "status"), [(b"Bad Header", b"400"), (b"Connection: close", b"200")])
async def test_the_caller_may_send_after_the_last_response(
    tmp_path: Path, authority: Authority, pair: Pair, field: bytes, status: bytes
) -> None:
    """Most answer the end of our stream with theirs. Closing before that would reset the connection."""
    async with run_tls(tmp_path, authority, pair) as instance:
        async with open_memory_client(instance.site.port, authority.client_context()) as client:
            client.tls.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n%b\r\n\r\n" % field)
            assert (await client.read_to_end()).startswith(b"HTTP/1.1 %b " % status)
            client.writer.write(b"x" * 100_000)
            await client.writer.drain()
            assert len(instance.http.connections) == 1
        await wait_until(lambda: not instance.http.connections)


@pytest.mark.parametrize("expects_continue", [False, True])
async def test_a_refused_upload_gets_its_response(
    tmp_path: Path, authority: Authority, pair: Pair, expects_continue: bool
) -> None:
    async with run_tls(tmp_path, authority, pair, max_message_bytes=10_000) as instance:
        before = await instance.count_resources()
        async with instance.site.connect() as link:
            fields = JSON | {"Connection": "close"} | ({"Expect": "100-continue"} if expects_continue else {})
            await link.send_request("POST", "/mcp", fields, b"x" * 3_000_000)
            assert (await link.read_response()).status == 413
            assert await link.reader.read() == b""
        await instance.wait_for_count(before)


async def test_a_caller_that_reads_nothing_is_disconnected(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair, slow_reader_s=0.5) as instance:
        context = authority.client_context()
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", instance.site.port, limit=1024, ssl=context, server_hostname="localhost"
        )
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        link = RawConnection(reader, writer)
        await link.send_request("POST", "/mcp", JSON, json.dumps(request("big", {"size": 20_000_000})).encode())
        await wait_for_cut_off(instance, "slow_reader")
        link.abort()


async def test_a_stream_that_is_not_read_is_closed(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair, slow_reader_s=0.5) as instance:
        before = await instance.count_resources()
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", instance.site.port, limit=1024, ssl=authority.client_context(), server_hostname="localhost"
        )
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        body, headers = modern_request(
            "tools/call", {"name": "pour", "arguments": {"pieces": 2000, "size": 50_000}}, progressToken=1
        )
        link = RawConnection(reader, writer)
        await link.send_request("POST", "/mcp", JSON | headers, json.dumps(body).encode())
        await instance.wait_for_history("poured")
        await instance.wait_for_count(before)
        link.abort()


async def test_a_caller_that_does_not_close_is_disconnected(
    tmp_path: Path, authority: Authority, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "LINGER_TIMEOUT_S", 0.1)
    async with (
        run_tls(tmp_path, authority, pair) as instance,
        open_memory_client(instance.site.port, authority.client_context()) as client,
    ):
        client.tls.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await client.read_to_end()).startswith(b"HTTP/1.1 200 OK")
        await wait_until(lambda: not instance.http.connections)


async def test_pipelined_requests_pause_the_caller(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    """While an earlier request waits for its response, the rest is read later and nothing is lost."""
    async with run_tls(tmp_path, authority, pair) as instance, instance.site.connect() as link:
        head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        bodies = [json.dumps(request("echo", {"text": "x" * 30_000}, number)).encode() for number in range(20)]
        data = b"".join(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body) for body in bodies)
        sending = asyncio.create_task(link.send(data))
        assert [(await link.read_response()).json["id"] for _ in bodies] == list(range(20))
        await sending


# -- WebSocket -----------------------------------------------------------------------------------


async def test_websockets_over_tls(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair, max_message_bytes=100_000) as instance:
        before = await instance.count_resources()
        url, context = f"wss://localhost:{instance.site.port}/mcp-ws", authority.client_context()
        async with connect(url, ssl=context, open_timeout=TIMEOUT_S) as socket:
            for number in range(3):
                await socket.send(json.dumps(request("echo", {"text": "x" * 50_000}, number)))
                assert json.loads(await socket.recv())["id"] == number
            await socket.send("x" * 500_000)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
        await instance.wait_for_count(before)


# -- handshakes ----------------------------------------------------------------------------------


async def test_plain_http_gets_an_explanation(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair) as instance:
        answer: Response = await Site(instance.site.port).get("/health")
        assert (answer.status, b"https://" in answer.body) == (400, True)
        assert await cut_off_count(instance, "tls_handshake") == 1


@pytest.mark.parametrize("sent", [b"\x00" * 9, b"\x16\x03\x01\x02\x00\x01", b"SSH-2.0-client\r\n"])
async def test_a_failed_handshake_is_counted_and_logged_in_one_line(
    tmp_path: Path, authority: Authority, pair: Pair, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with run_tls(tmp_path, authority, pair) as instance:
        before = await instance.count_resources()
        caplog.clear()
        _, writer = await asyncio.open_connection("127.0.0.1", instance.site.port)
        writer.write(sent)
        await writer.drain()
        writer.close()
        await wait_for_cut_off(instance, "tls_handshake")
        assert [record.getMessage() for record in caplog.records] == ["caller_cut_off"]
        assert not caplog.records[0].exc_info
        await instance.wait_for_count(before)


async def test_a_silent_caller_is_disconnected(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair, head_s=0.3) as instance:
        reader, writer = await asyncio.open_connection("127.0.0.1", instance.site.port)
        async with asyncio.timeout(TIMEOUT_S):
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass
        writer.close()
        await wait_for_cut_off(instance, "tls_handshake")


async def test_handshakes_count_as_connections(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair, max_connections=8) as instance:
        writers = [(await asyncio.open_connection("127.0.0.1", instance.site.port))[1] for _ in range(12)]
        await wait_until(lambda: len(instance.http.connections) == 7)
        for writer in writers:
            writer.close()
        await wait_until(lambda: not instance.http.connections)
        assert await cut_off_count(instance, "too_many_connections") == 5
        assert await cut_off_count(instance, "tls_handshake") == 7


async def test_shutdown_ends_handshakes(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair, drain_s=600) as instance:
        reader, writer = await asyncio.open_connection("127.0.0.1", instance.site.port)
        await wait_until(lambda: len(instance.http.connections) == 1)
        instance.http.stop()
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass
        writer.close()


# -- client certificates -------------------------------------------------------------------------


@pytest.fixture
def client_ca(tmp_path: Path, authority: Authority) -> str:
    path = tmp_path / "ca.pem"
    path.write_bytes(authority.certificate)
    return str(path)


async def can_call(instance: RunningServer, context: ssl.SSLContext) -> bool:
    try:
        answer = await Site(instance.site.port, ssl=context, server_hostname="localhost").get("/health")
    except (OSError, asyncio.IncompleteReadError):
        return False
    return answer.status == 200


async def test_only_clients_with_a_certificate_of_the_ca_are_accepted(
    tmp_path: Path, authority: Authority, pair: Pair, client_ca: str
) -> None:
    async with run_tls(tmp_path, authority, pair, tls_client_ca_file=client_ca) as instance:
        known = authority.client_context(authority.issue("ada"), tmp_path)
        foreign = authority.client_context(Authority("Other CA").issue("eve"), tmp_path)
        expired = authority.client_context(authority.issue("bob", days=-1), tmp_path)
        assert [await can_call(instance, each) for each in (known, authority.client_context(), foreign, expired)] == [
            True,
            False,
            False,
            False,
        ]
        await wait_for_cut_off(instance, "tls_handshake", 3)


@pytest.mark.usefixtures("_fast_sweep")
async def test_the_client_ca_is_reloaded_too(tmp_path: Path, authority: Authority, pair: Pair, client_ca: str) -> None:
    other = Authority("Other CA")
    async with run_tls(tmp_path, authority, pair, tls_client_ca_file=client_ca) as instance:
        old = authority.client_context(authority.issue("ada"), tmp_path)
        new = authority.client_context(other.issue("eve"), tmp_path)
        async with instance.site.connect() as link:
            replace_file(Path(client_ca), other.certificate)
            async with asyncio.timeout(TIMEOUT_S):
                while not await can_call(instance, new):
                    await asyncio.sleep(0.02)
            assert not await can_call(instance, old)
            await link.send_request("GET", "/health")  # an open connection continues
            assert (await link.read_response()).status == 200
            instance.site = Site(instance.site.port, ssl=new, server_hostname="localhost")


async def test_client_certificates_allow_listening_on_the_network(
    tmp_path: Path, authority: Authority, pair: Pair, client_ca: str
) -> None:
    cert_file, key_file = pair.write(tmp_path)
    files: dict[str, Any] = {"tls_cert_file": cert_file, "tls_key_file": key_file}
    with pytest.raises(SettingsError, match="tls-client-ca-file"):
        async with run_server(host="0.0.0.0", **files):
            pass
    async with run_server(host="0.0.0.0", **files, tls_client_ca_file=client_ca) as instance:
        assert await can_call(instance, authority.client_context(pair, tmp_path))


# -- files that change ---------------------------------------------------------------------------


@pytest.mark.usefixtures("_fast_sweep")
async def test_calls_continue_while_the_certificate_is_replaced(
    tmp_path: Path, authority: Authority, pair: Pair
) -> None:
    async with run_tls(tmp_path, authority, pair) as instance:
        context, is_done, calls = authority.client_context(), asyncio.Event(), [0, 0]

        async def call_on_one_connection() -> None:
            async with instance.site.connect() as link:
                while not is_done.is_set():
                    await link.send_request("POST", "/mcp", JSON, PING)
                    assert (await link.read_response()).json["result"] == {}
                    calls[0] += 1

        async def call_on_new_connections() -> None:
            while not is_done.is_set():
                assert (await instance.site.post(request("ping"))).json["result"] == {}
                calls[1] += 1

        async with asyncio.TaskGroup() as group:
            for work in (call_on_one_connection, call_on_one_connection, call_on_new_connections):
                group.create_task(work())
            for number in range(20):
                authority.issue(f"number {number}").write(tmp_path)
                async with asyncio.timeout(TIMEOUT_S):
                    while await read_name(instance.site.port, context) != f"number {number}":
                        await asyncio.sleep(0.01)
            is_done.set()
        assert min(calls) > 0


@pytest.mark.usefixtures("_fast_sweep")
async def test_a_broken_pair_keeps_the_old_one_in_force_and_is_logged_once(
    tmp_path: Path, authority: Authority, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    def errors() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    async with run_tls(tmp_path, authority, pair) as instance:
        context, port = authority.client_context(), instance.site.port
        new = authority.issue("new")
        replace_file(tmp_path / "server.pem", new.certificate)
        await wait_until(errors)
        assert await read_name(port, context) == "localhost"
        replace_file(tmp_path / "server.key", new.key[:50])
        await wait_until(lambda: len(errors()) == 2)
        replace_file(tmp_path / "server.key", new.key)
        async with asyncio.timeout(TIMEOUT_S):
            while await read_name(port, context) != "new":
                await asyncio.sleep(0.01)
        (tmp_path / "server.key").unlink()
        await wait_until(lambda: len(errors()) == 3)
        assert await read_name(port, context) == "new"
        assert all("previous ones stay in force" in line and "PRIVATE" not in line for line in errors())


def test_an_error_is_logged_once_and_only_if_it_stays(
    tmp_path: Path, authority: Authority, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    files = TlsFiles(*pair.write(tmp_path))
    old = files.context
    new = authority.issue("new")
    replace_file(tmp_path / "server.pem", new.certificate)
    lines = []
    for _ in range(4):
        files.reload_if_changed()
        lines.append(len(caplog.records))
    assert (lines, files.context) == ([0, 1, 1, 1], old)
    replace_file(tmp_path / "server.key", new.key)
    files.reload_if_changed()
    assert files.context is not old
    assert len(caplog.records) == 1


def test_a_process_follows_links_to_new_certificates(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    """Kubernetes and certbot replace links, not files."""
    for name, each in (("one", pair), ("two", authority.issue("two"))):
        (tmp_path / name).mkdir()
        each.write(tmp_path / name)
    (tmp_path / "current").symlink_to("one")
    files = ["--tls-cert-file", f"{tmp_path}/current/server.pem", "--tls-key-file", f"{tmp_path}/current/server.key"]
    with ServerProcess(str(PLAYGROUND), *files) as process:
        assert process.url.startswith("https://127.0.0.1:")

        async def scenario() -> None:
            context = authority.client_context()
            assert await read_name(process.site.port, context) == "localhost"
            (tmp_path / "next").symlink_to("two")
            (tmp_path / "next").rename(tmp_path / "current")
            async with asyncio.timeout(TIMEOUT_S):
                while await read_name(process.site.port, context) != "two":
                    await asyncio.sleep(0.1)
            site = Site(process.site.port, ssl=context, server_hostname="localhost")
            assert (await site.post(request("ping"))).json["result"] == {}
            garbage = await Site(process.site.port).get("/health")
            assert garbage.status == 400
            async with site.connect() as link:
                await link.send_request("POST", "/mcp", JSON, json.dumps(request("big", {"size": 5_000_000})).encode())
                assert len((await link.read_response()).body) > 5_000_000
                process.signal()
                assert await link.reader.read() == b""

        asyncio.run(scenario())
        assert process.wait() == 0
        assert "Traceback" not in "".join(process.stderr_lines)


# -- files that cannot be used -------------------------------------------------------------------


@pytest.fixture
def broken_files(tmp_path: Path, authority: Authority, pair: Pair) -> dict[str, str]:
    cert_file, key_file = pair.write(tmp_path)
    (tmp_path / "text").write_text("not PEM")
    (tmp_path / "damaged").write_bytes(pair.certificate[:100] + b"\n" + pair.certificate[200:])
    return {
        "cert": cert_file,
        "key": key_file,
        "other": authority.issue().write(tmp_path, "other")[1],
        "encrypted": authority.issue(passphrase=b"sesame").write(tmp_path, "encrypted")[1],
        "missing": str(tmp_path / "missing"),
        "text": str(tmp_path / "text"),
        "damaged": str(tmp_path / "damaged"),
        "folder": str(tmp_path),
    }


@pytest.mark.parametrize(
    ("cert", "key", "ca", "message"),
    [
        ("missing", "key", None, "--tls-cert-file: cannot read .*missing: No such file"),
        ("folder", "key", None, "--tls-cert-file: cannot read .*: Is a directory"),
        ("text", "key", None, "--tls-cert-file: .*text has no certificate in PEM format"),
        ("damaged", "key", None, "--tls-cert-file: .*damaged and .* cannot be used"),
        ("cert", None, None, "has no private key; add it to this file, or name its file with --tls-key-file"),
        ("cert", "missing", None, "--tls-key-file: cannot read .*missing: No such file"),
        ("cert", "text", None, "--tls-key-file: .*text has no private key"),
        ("cert", "other", None, "--tls-key-file: .* does not belong to the first certificate in .*server.pem"),
        ("cert", "encrypted", None, "--tls-key-file: the private key in .* is encrypted; decrypt it"),
        ("cert", "key", "missing", "--tls-client-ca-file: cannot read .*missing: No such file"),
        ("cert", "key", "text", "--tls-client-ca-file: .*text has no certificate"),
        ("cert", "key", "damaged", "--tls-client-ca-file: .*damaged cannot be used"),
    ],
)
def test_files_that_cannot_be_used_are_explained(
    broken_files: dict[str, str], cert: str, key: str | None, ca: str | None, message: str
) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        TlsFiles(broken_files[cert], key and broken_files[key], ca and broken_files[ca])
    assert "BEGIN" not in caught.value.message


def test_the_key_may_be_in_the_file_of_the_certificate(tmp_path: Path, pair: Pair) -> None:
    (tmp_path / "both.pem").write_bytes(pair.key + pair.certificate)
    assert TlsFiles(str(tmp_path / "both.pem")).context.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(("days", "lines"), [(-1, 1), (1, 0)])
def test_an_expired_certificate_is_only_a_warning(
    tmp_path: Path, authority: Authority, client_ca: str, days: int, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    TlsFiles(*authority.issue(days=days).write(tmp_path))
    TlsFiles(*authority.issue(days=days).write(tmp_path), client_ca)
    assert [record.getMessage() for record in caplog.records if "has expired" in record.getMessage()] == [
        f"the TLS certificate in {tmp_path / 'server.pem'} has expired, so clients will refuse it; renew it"
    ] * (2 * lines)
