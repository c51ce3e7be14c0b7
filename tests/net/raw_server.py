"""A server that sends exactly the bytes that a test gives it, and an HTTP client for it."""

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.stream_server import Handler, stream_server

from hubbub.pack.http import ANY_ADDRESS, HttpClient

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class RawServer:
    def __init__(self) -> None:
        self.heads: list[str] = []
        self.connections = 0
        self.open = 0
        self.url = ""


@asynccontextmanager
async def run_raw_server(
    *responses: bytes, last_handler: Handler | None = None, close: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    """Answer the requests on each connection with these bytes, one after the other; then call `last_handler`."""
    server = RawServer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        server.open += 1
        try:
            for response in responses:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                server.heads.append(head)
                lengths = [line.split(":")[1] for line in head.split("\r\n") if line.lower().startswith("content-len")]
                await reader.readexactly(int(lengths[0]) if lengths else 0)
                writer.write(response)
                await writer.drain()
            if last_handler is not None:
                await last_handler(reader, writer)
            elif not close:
                await reader.read()
        finally:
            server.open -= 1
            writer.transport.abort()

    async with stream_server(serve, tls) as port:
        server.url = f"http{'s' if tls else ''}://127.0.0.1:{port}/mcp"
        yield server


@asynccontextmanager
async def open_client(**options: Any) -> AsyncIterator[HttpClient]:
    client = HttpClient(ANY_ADDRESS, **options)
    try:
        yield client
    finally:
        await client.close()


async def send_request(
    client: HttpClient, server: RawServer, body: bytes | None = b"{}", limit: int = 100_000
) -> bytes:
    response = await client.send("POST", server.url, headers={"X-One": "1"}, body=body)
    try:
        return await response.read(limit)
    finally:
        response.close()


def make_certificate(folder: Path) -> Path:
    """Return a self-signed certificate for 127.0.0.1, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "certificate.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path
