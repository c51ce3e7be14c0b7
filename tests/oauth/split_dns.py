"""A server with TLS whose name looks public, and that has an address of this machine, as with split DNS."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.http.certificates import Authority


def issue_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch, host: str) -> ssl.SSLContext:
    """Return the context of a server whose certificate the clients of this process trust."""
    authority = Authority()
    (folder / "ca.pem").write_bytes(authority.certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*authority.issue(host=host).write(folder, "server"))
    return tls


def resolve_to_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve every name to 127.0.0.1 in the running loop."""

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
