"""`hubbub campaign-server` as a subprocess, and how clients report its failures."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Never

import grpc
import pytest

from hubbub import Server, SettingsError
from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.backend_factory import choose_backend
from hubbub.packs.tabletop.campaign_server import main, serve_backend
from hubbub.packs.tabletop.failures import DeadlineExceeded, FailedPrecondition, Failure, Unavailable
from hubbub.packs.tabletop.grpc_backend import GrpcBackend, make_handlers
from hubbub.packs.tabletop.model import Campaign, GmMode, Page
from hubbub.packs.tabletop.pack import health, pack
from hubbub.packs.tabletop.rpc import METHODS
from hubbub.packs.tabletop.service import TabletopService
from hubbub.packs.tabletop.settings import TabletopSettings
from hubbub.packs.tabletop.store_backend import StoreBackend


@contextmanager
def server(folder: Path, *flags: str, address: str = "localhost:0") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a campaign server on a database in this folder; yields the process and its address."""
    command = [sys.executable, "-m", "hubbub", "campaign-server", f"-addr={address}"]
    database = ["--database", f"sqlite:///{folder / 'table.db'}"]
    process = subprocess.Popen([*command, *database, *flags], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"listens on (\S+)", line)
        assert found is not None, line + process.stderr.read()
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def test_campaigns_persist_when_the_server_restarts(tmp_path: Path) -> None:
    async def make(address: str) -> str:
        backend = GrpcBackend(address)
        await backend.check()
        campaign = await backend.create_campaign("A", GmMode.AI)
        await backend.close()
        return campaign.id

    async def names(address: str) -> list[str]:
        backend = GrpcBackend(address)
        page = await backend.list_campaigns()
        await backend.close()
        return [campaign.id for campaign in page.items]

    with server(tmp_path) as (process, address):
        made = asyncio.run(make(address))
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    with server(tmp_path) as (process, address):
        assert asyncio.run(names(address)) == [made]


def test_the_client_reconnects_to_a_restarted_server(tmp_path: Path) -> None:
    async def main() -> None:
        with server(tmp_path) as (process, address):
            backend = GrpcBackend(address, deadline_s=50)
            await backend.create_campaign("before", GmMode.AI)
            process.kill()
            with pytest.raises(Unavailable, match=r"(was lost; check whether|cannot be read or written now)"):
                await _call_until_failure(backend)
            await asyncio.to_thread(process.wait)
        with server(tmp_path, address=address):
            assert len((await _call_until_success(backend)).items) == 1
        await backend.close()

    asyncio.run(main())


async def _call_until_failure(backend: GrpcBackend) -> None:
    while True:
        await backend.list_campaigns()


async def _call_until_success(backend: GrpcBackend) -> Page[Campaign]:
    while True:
        try:
            return await backend.list_campaigns()
        except Unavailable:
            continue


async def test_an_unreachable_server_fails_with_advice_for_the_operator() -> None:
    backend = GrpcBackend("127.0.0.1:1", deadline_s=0.5)
    with pytest.raises(Unavailable) as raised:
        await backend.create_campaign("A", GmMode.AI)
    assert "hubbub campaign-server --addr 127.0.0.1:1" in raised.value.reason
    assert "127.0.0.1" not in raised.value.message
    state = await health(TabletopService(Server("table"), backend))
    assert not state.ok
    assert "see the log of the server" in state.detail
    assert "127.0.0.1" not in state.detail
    await backend.close()


async def test_a_call_without_an_answer_times_out(tmp_path: Path) -> None:
    class Slow(StoreBackend):
        async def rules_version(self) -> Never:
            await asyncio.Event().wait()
            raise AssertionError("nothing sets that event")

    async with serve_backend(Slow(f"sqlite:///{tmp_path / 'table.db'}"), "127.0.0.1:0") as port:
        backend = GrpcBackend(f"127.0.0.1:{port}", deadline_s=0.3)
        with pytest.raises(DeadlineExceeded, match=r"within 0\.3 s"):
            await backend.rules_version()
        await backend.close()


async def test_calls_that_read_a_whole_campaign_have_a_longer_deadline(tmp_path: Path) -> None:
    is_called, is_late = asyncio.Event(), asyncio.Event()

    class SlowVerify(StoreBackend):
        async def rules_version(self) -> Never:
            await asyncio.Event().wait()
            raise AssertionError("nothing sets that event")

        async def verify_events(self, campaign_id: str) -> int:
            is_called.set()
            await is_late.wait()
            return 7

    async with serve_backend(SlowVerify(f"sqlite:///{tmp_path / 'table.db'}"), "127.0.0.1:0") as port:
        backend = GrpcBackend(f"127.0.0.1:{port}", deadline_s=0.3)
        verified = asyncio.create_task(backend.verify_events("camp_a"))
        await is_called.wait()
        with pytest.raises(DeadlineExceeded):
            await backend.rules_version()  # Started later, so the other call has already exceeded this deadline.
        is_late.set()
        assert await verified == 7
        await backend.close()


async def test_an_interrupted_call_says_that_the_change_may_have_been_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_called = asyncio.Event()

    class Blocking(StoreBackend):
        async def rules_version(self) -> Never:
            is_called.set()
            await asyncio.Event().wait()
            raise AssertionError("nothing sets that event")

    monkeypatch.setattr(limits, "SHUTDOWN_GRACE_S", 0.0)
    async with serve_backend(Blocking(f"sqlite:///{tmp_path / 'table.db'}"), "127.0.0.1:0") as port:
        backend = GrpcBackend(f"127.0.0.1:{port}", deadline_s=50)
        call = asyncio.create_task(backend.rules_version())
        await is_called.wait()
    with pytest.raises(Unavailable, match="was lost; check whether the change was made"):
        await call
    await backend.close()


async def test_a_response_over_the_message_limit_is_reported(tmp_path: Path) -> None:
    class Endless(StoreBackend):
        async def get_campaign(self, campaign_id: str) -> Campaign:
            return Campaign(
                id=campaign_id,
                name="x" * limits.MAX_MESSAGE_BYTES,
                gm_mode=GmMode.AI,
                participant_count=0,
                actor_count=0,
                theme_prompt="",
                created_at=datetime.now(UTC),
                updated_at=datetime.now(UTC),
            )

    async with serve_backend(Endless(f"sqlite:///{tmp_path / 'table.db'}"), "127.0.0.1:0") as port:
        backend = GrpcBackend(f"127.0.0.1:{port}", deadline_s=50)
        with pytest.raises(FailedPrecondition, match="exceeds the limit of 64 MB for one message"):
            await backend.get_campaign("camp_a")
        await backend.close()


async def test_database_errors_of_the_server_reach_the_client(tmp_path: Path) -> None:
    class FullDisk(StoreBackend):
        async def rules_version(self) -> Never:
            raise Unavailable("the disk is full")

    async with serve_backend(FullDisk(f"sqlite:///{tmp_path / 'table.db'}"), "127.0.0.1:0") as port:
        backend = GrpcBackend(f"127.0.0.1:{port}")
        with pytest.raises(Unavailable, match="the disk is full"):
            await backend.rules_version()
        await backend.close()


async def test_an_unexpected_server_error_is_internal_without_details(tmp_path: Path) -> None:
    class Broken(StoreBackend):
        async def rules_version(self) -> Never:
            raise ZeroDivisionError("secret detail")

    async with serve_backend(Broken(f"sqlite:///{tmp_path / 'table.db'}"), "127.0.0.1:0") as port:
        backend = GrpcBackend(f"127.0.0.1:{port}")
        with pytest.raises(Failure, match="the campaign server failed; see its log") as raised:
            await backend.rules_version()
        assert raised.value.code == "Internal"
        assert "secret detail" not in str(raised.value)
        await backend.close()


async def test_two_servers_do_not_share_a_port(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'table.db'}"
    async with serve_backend(StoreBackend(url), "127.0.0.1:0") as port:
        with pytest.raises(SettingsError, match=r"cannot listen on 127\.0\.0\.1:.*try another --addr"):
            async with serve_backend(StoreBackend(url), f"127.0.0.1:{port}"):
                pass


def test_every_rpc_has_a_handler() -> None:
    assert set(make_handlers(StoreBackend(None))) == set(METHODS)


def test_the_rpc_paths_are_those_of_the_contract() -> None:
    paths = {method.path for method in METHODS.values()}
    assert {
        "/campaign.v1.CampaignService/CreateCampaign",
        "/campaign.v1.CampaignService/SetDefaultControl",
        "/session.v1.SessionService/StartSession",
        "/duality.v1.DualityService/DualityExplain",
    } <= paths


@pytest.mark.parametrize("address", ["0.0.0.0:8080", ":8080", "[::]:8080", "example.com:8080", "192.168.1.2:80"])
def test_a_non_loopback_address_without_insecure_is_refused(address: str) -> None:
    with pytest.raises(SettingsError, match="--insecure"):
        main(["--addr", address])


async def test_the_pack_uses_the_configured_server(tmp_path: Path) -> None:
    async with serve_backend(StoreBackend(f"sqlite:///{tmp_path / 'table.db'}"), "127.0.0.1:0") as port:
        backend = choose_backend(TabletopSettings(addr=f"127.0.0.1:{port}"))
        assert isinstance(backend, GrpcBackend)
        (check,) = pack.checks
        assert callable(check)
        checked = await check(TabletopSettings(addr=f"127.0.0.1:{port}"))
        assert checked.ok
        assert str(port) in checked.detail
        await backend.close()


def test_the_generated_messages_match_the_proto_files(tmp_path: Path) -> None:
    from hubbub.packs.tabletop import wire

    folder = Path(wire.__file__).parent
    source = folder.parents[3]
    protos = [str(path) for path in sorted(folder.glob("*.proto"))]
    compiler = [sys.executable, "-m", "grpc_tools.protoc", f"-I{source}", f"--python_out={tmp_path}"]
    subprocess.run([*compiler, *protos], check=True)
    assert list(tmp_path.rglob("*_pb2.py"))
    for path in sorted(tmp_path.rglob("*_pb2.py")):
        assert path.read_text() == (folder / path.name).read_text(), "run scripts/protos"


def test_installing_the_pack_imports_no_heavy_libraries() -> None:
    program = (
        "import sys; from hubbub import Server; from hubbub.packs.tabletop.pack import pack;"
        "from hubbub.packs.tabletop.settings import TabletopSettings;"
        "pack.install(Server('x'), TabletopSettings());"
        "print([name for name in ('sqlalchemy', 'alembic', 'grpc', 'google.protobuf') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ), check=True
    )
    assert done.stdout.strip() == "[]"


async def test_invalid_utf_8_is_an_invalid_argument_and_not_a_server_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Encoded unpaired surrogates, which some languages write, and other invalid bytes."""
    document = b'{"campaign": {"name": "\xff"}}'
    requests = {
        "CreateCampaign": [b"\x0a\x03\xed\xa0\x80", b"\x0a\x01\xff", b"\xff\xff"],
        "ImportCampaign": [b"\x0a" + bytes([len(document)]) + document],
    }
    async with (
        serve_backend(StoreBackend(f"sqlite:///{tmp_path / 'table.db'}"), "127.0.0.1:0") as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        for name, bodies in requests.items():
            for body in bodies:
                send: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHODS[name].path)
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await send(body)
                assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT, raised.value
    assert "campaign_server_failed" not in caplog.text
