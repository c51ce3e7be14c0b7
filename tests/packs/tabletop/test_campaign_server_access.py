"""Access to a campaign server: tokens, TLS and reflection; and the log of a broken store at startup."""

import asyncio
import datetime
import ipaddress
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.interop.external_servers import free_port

from hubbub import Secret, SettingsError
from hubbub.packs.tabletop.backend_factory import choose_backend
from hubbub.packs.tabletop.campaign_server import main, serve_backend
from hubbub.packs.tabletop.failures import Unavailable
from hubbub.packs.tabletop.grpc_backend import GrpcBackend
from hubbub.packs.tabletop.model import GmMode
from hubbub.packs.tabletop.rpc import ClientTls, ServerTls
from hubbub.packs.tabletop.settings import TabletopSettings
from hubbub.packs.tabletop.store_backend import StoreBackend


def make_certificate(name: str = "localhost") -> ServerTls:
    """Return a self-signed certificate for this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key_pem = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return ServerTls(signed.public_bytes(pem), key_pem)


async def test_only_clients_with_the_token_are_served(tmp_path: Path) -> None:
    store = StoreBackend(f"sqlite:///{tmp_path / 'table.db'}")
    async with serve_backend(store, "127.0.0.1:0", token="right") as port:
        for token in (None, "wrong", "righ"):
            unauthorized = GrpcBackend(f"127.0.0.1:{port}", token=token)
            with pytest.raises(Unavailable) as raised:
                await unauthorized.create_campaign("A", GmMode.AI)
            assert "HUBBUB_TABLETOP_TOKEN" in raised.value.reason
            assert "right" not in raised.value.reason
            await unauthorized.check()  # The health service needs no token.
            await unauthorized.close()
        authorized = GrpcBackend(f"127.0.0.1:{port}", token="right")
        assert (await authorized.create_campaign("A", GmMode.AI)).name == "A"
        await authorized.close()


def test_a_token_that_grpc_metadata_cannot_contain_is_refused_at_startup() -> None:
    with pytest.raises(SettingsError, match="printable ASCII"):
        choose_backend(TabletopSettings(addr="localhost:1", token=Secret("ünïcode")))


async def test_a_tls_client_accepts_only_the_configured_certificate(tmp_path: Path) -> None:
    tls = make_certificate()
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(tls.certificate)
    store = StoreBackend(f"sqlite:///{tmp_path / 'table.db'}")
    async with serve_backend(store, "127.0.0.1:0", token="t", tls=tls) as port:
        settings = TabletopSettings(addr=f"127.0.0.1:{port}", token=Secret("t"), ca_file=str(ca_file), deadline_s=20)
        backend = choose_backend(settings)
        assert (await backend.create_campaign("A", GmMode.AI)).name == "A"
        await backend.close()
        for wrong in (None, ClientTls(make_certificate().certificate)):
            unauthorized = GrpcBackend(f"127.0.0.1:{port}", deadline_s=1, token="t", tls=wrong)
            with pytest.raises(Unavailable):
                await unauthorized.check()
            await unauthorized.close()


@pytest.mark.parametrize("token", [None, "secret"])
async def test_reflection_lists_the_services_unless_a_token_is_required(tmp_path: Path, token: str | None) -> None:
    store = StoreBackend(f"sqlite:///{tmp_path / 'table.db'}")
    async with serve_backend(store, "127.0.0.1:0", token=token) as port:
        # An independent client. It blocks, so it runs in a subprocess.
        listing = (
            "import grpc, sys\n"
            "from grpc_reflection.v1alpha.proto_reflection_descriptor_database import "
            "ProtoReflectionDescriptorDatabase as Database\n"
            f"with grpc.insecure_channel('127.0.0.1:{port}') as channel:\n"
            "    print(*Database(channel).get_services())\n"
        )
        done = await _run(listing)
    if token is None:
        assert done.returncode == 0, done.stderr
        assert {name.rpartition(".")[2] for name in done.stdout.split()} == {
            "CampaignService", "DualityService", "Health", "ServerReflection", "SessionService",
        }  # fmt: skip
    else:
        assert "UNAUTHENTICATED" in done.stderr


async def _run(program: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )


def test_a_network_address_requires_a_token_and_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_TABLETOP_TOKEN", "t")
    with pytest.raises(SettingsError, match="--insecure"):
        main(["--addr", "0.0.0.0:0"])
    with pytest.raises(SettingsError, match="must be used together"):
        main(["--addr", "0.0.0.0:0", "--tls-cert", str(tmp_path / "no.pem")])
    with pytest.raises(SettingsError, match="cannot be read"):
        main(["--addr", "0.0.0.0:0", "--tls-cert", str(tmp_path / "no.pem"), "--tls-key", str(tmp_path / "no.pem")])


@pytest.mark.parametrize("kind", ["corrupt", "folder", "postgresql"])
def test_a_broken_store_is_logged_soon_after_startup(tmp_path: Path, kind: str) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"not a database at all" * 100)
    url = {
        "corrupt": f"sqlite:///{broken}",
        "folder": f"sqlite:///{broken}/under/a/file.db",
        "postgresql": f"postgresql://user:hunter2@127.0.0.1:{free_port()}/table",
    }[kind]
    process = subprocess.Popen(
        [sys.executable, "-m", "hubbub", "serve", "--pack", "tabletop", "--transport", "stdio", "--log-format", "json"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HUBBUB_TABLETOP_DATABASE": url},
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert '"event":"store_failed"' in line
        assert "hunter2" not in line
    finally:
        process.kill()
        process.communicate()
