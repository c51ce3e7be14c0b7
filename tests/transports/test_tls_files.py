"""Certificates of the HTTP server: of clients, files that change, and files that cannot be used."""

import asyncio
import json
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.http.certificates import Authority, Pair, replace_file
from tests.http.in_process_server import RunningServer, run_server, wait_until
from tests.http.raw_http import JSON, TIMEOUT_S, Site, request
from tests.http.server_process import PLAYGROUND, ServerProcess
from tests.transports.tls_server import read_name, run_tls, wait_for_cut_off

from hubbub import SettingsError, bounds
from hubbub.transports.server_tls import TlsFiles

PING = json.dumps(request("ping")).encode()


@pytest.fixture
def _fast_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SWEEP_INTERVAL_S", 0.02)


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
