"""The official Python SDK's client over https and over a Unix socket."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.http.certificates import Authority
from tests.http.server_process import ServerProcess
from tests.interop.python_client import DEPRECATED, ERAS, block_text

RunAsync = Callable[..., Any]
SERVER = str(Path(__file__).with_name("server.py"))

pytestmark = pytest.mark.filterwarnings(DEPRECATED)


async def call_echo(url: str, mode: str, http: httpx2.AsyncClient) -> None:
    async with http, Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client:
        for text in ("one", "two"):
            result = await client.call_tool("echo", {"text": text})
            assert text in block_text(result.content[0])


@pytest.mark.parametrize("mode", ERAS)
def test_calls_over_https(tmp_path: Path, run_async: RunAsync, mode: str) -> None:
    authority = Authority()
    cert_file, key_file = authority.issue().write(tmp_path)
    with ServerProcess(SERVER, "--tls-cert-file", cert_file, "--tls-key-file", key_file) as process:
        http = httpx2.AsyncClient(verify=authority.client_context(), trust_env=False)
        run_async(call_echo(process.url, mode, http))


@pytest.mark.parametrize("mode", ERAS)
def test_calls_over_a_unix_socket(
    tmp_path: Path, run_async: RunAsync, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ServerProcess(SERVER, "--unix-socket", "hubbub.sock") as process:
        transport = httpx2.AsyncHTTPTransport(uds="hubbub.sock")
        run_async(call_echo(process.url, mode, httpx2.AsyncClient(transport=transport, trust_env=False)))
