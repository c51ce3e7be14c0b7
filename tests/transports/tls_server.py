"""An https server in the loop of the test, and helpers that read its metrics and certificate."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.http.certificates import Authority, Pair, common_name
from tests.http.in_process_server import RunningServer, run_server
from tests.http.raw_http import TIMEOUT_S, Site


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
