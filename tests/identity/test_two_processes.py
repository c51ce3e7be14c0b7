"""Two processes of one hub behind a load balancer: each continues logins that the other began."""

import asyncio
import base64
import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest
from tests.identity.balancer import Balancer
from tests.identity.hub_site import HUB, SECRET, provider_section
from tests.identity.official_clients import connect_python_client
from tests.identity.protected_site import serve
from tests.identity.provider_process import ProviderProcess
from tests.identity.scripted_browser import Page, ScriptedBrowser
from tests.ports import free_port

REDIRECT_URI = "http://127.0.0.1/callback"
OAUTH = """
[oauth]
public_url = "{url}"
scopes = ["notes:read", "notes:write"]
database = "sqlite:///{folder}/oauth.db"
"""


class Installation(NamedTuple):
    """The processes, and the balancer that clients and browsers connect to."""

    balancer: Balancer
    ports: list[int]


@pytest.fixture
def installation(oidc_provider: ProviderProcess, tmp_path: Path) -> Iterator[Installation]:
    """A hub whose processes share nothing but a database, the sealing key and the settings."""
    balancer, key = Balancer(), tmp_path / "sealing.key"
    key.write_text(secrets.token_hex(32))
    client = oidc_provider.register(f"{balancer.url}/oauth/callback", application_type="web")
    oauth = OAUTH.format(url=balancer.url, folder=tmp_path) + provider_section(oidc_provider, client)
    with ExitStack() as stack:
        ports = [free_port(), free_port()]
        for port in ports:
            folder = tmp_path / str(port)
            folder.mkdir()
            environment = {SECRET: client["client_secret"], "XDG_DATA_HOME": str(folder)}
            sections = f'sealing_key_file = "{key}"\n{HUB}{oauth}'
            stack.enter_context(serve(folder, sections, port=port, environment=environment))
        stack.enter_context(balancer.pass_to(ports))
        yield Installation(balancer, ports)


async def test_each_step_of_a_login_may_be_served_by_another_process(
    installation: Installation, oidc_provider: ProviderProcess
) -> None:
    browser = oidc_provider.new_browser()

    def go(url: str) -> None:
        assert "close this window" in browser.log_in(url, "alice").text

    async with connect_python_client(f"{installation.balancer.url}/mcp", go) as client:
        found = (await client.call_tool("whoami", {})).structured_content
        assert found is not None
        assert found["user"] == "alice"
    served = installation.balancer.served
    steps = [port for path, port in served if path.startswith(("GET /oauth/", "POST /oauth/consent"))]
    assert len(steps) == 4  # the request, the redirect of the provider, the consent page and its form
    assert steps[0] == steps[2] != steps[1] == steps[3]


async def test_a_code_is_redeemed_once_by_all_processes(
    installation: Installation, oidc_provider: ProviderProcess
) -> None:
    url = installation.balancer.url
    content = json.dumps({"redirect_uris": [REDIRECT_URI], "token_endpoint_auth_method": "none"}).encode()
    registered = ScriptedBrowser().send_body(f"{url}/oauth/register", content, {"Content-Type": "application/json"})
    verifier = secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "response_type": "code",
        "client_id": json.loads(registered.text)["client_id"],
        "redirect_uri": REDIRECT_URI,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    log_in = oidc_provider.new_browser().log_in
    page = await asyncio.to_thread(log_in, f"{url}/oauth/authorize?{urlencode(asked)}", "alice", stop_at=REDIRECT_URI)
    form = {
        "grant_type": "authorization_code",
        "code": page.query["code"],
        "client_id": asked["client_id"],
        "redirect_uri": REDIRECT_URI,
        "code_verifier": verifier,
    }

    def redeem(port: int) -> Page:
        return ScriptedBrowser().send(f"http://127.0.0.1:{port}/oauth/token", form)

    pages = await asyncio.gather(*(asyncio.to_thread(redeem, port) for port in installation.ports))
    assert sorted(page.status for page in pages) == [200, 400]
    assert "invalid_grant" in "".join(page.text for page in pages)
