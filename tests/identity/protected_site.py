"""`hubbub serve` in a process, protected by access tokens of identity providers."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.http.eras import modern_request
from tests.http.raw_http import Response
from tests.http.server_process import HUBBUB, ServerProcess
from tests.identity.provider_process import ProviderProcess
from tests.ports import free_port

NOTES = Path(__file__).with_name("notes_server.py")
SCOPES = ("mcp:tools", "mcp:admin", "notes:read", "notes:write")
INTROSPECTION_SECRET = "INTROSPECTION_SECRET"
COMMAND_TIMEOUT_S = 60.0


class ProtectedSite:
    """The server `notes_server.py`, or what the settings serve, at `public_url`."""

    def __init__(self, process: ServerProcess) -> None:
        self.process = process
        self.url = f"{process.url}/mcp"

    @property
    def log(self) -> str:
        return "".join(self.process.stderr_lines)

    def log_out(self, tenant: str, user: str) -> str:
        """End the sessions and logins of a user, as the operator of the hub; return what the command printed."""
        return self._run_sessions("logout", tenant, user)

    def list_sessions(self, tenant: str, user: str) -> str:
        """Return what the command prints about the sessions and logins of a user."""
        return self._run_sessions("list", tenant, user)

    def _run_sessions(self, command_name: str, tenant: str, user: str) -> str:
        whose = ["--tenant", tenant, "--user", user]
        command = [str(HUBBUB), "sessions", command_name, *whose, "--hub", str(self.process.pid)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=COMMAND_TIMEOUT_S)
        return done.stdout

    async def request(self, token: str, method: str = "tools/list", **params: Any) -> Response:
        """Send a request of the modern era with a bearer token."""
        body, headers = modern_request(method, params)
        return await self.process.site.post(body, {**headers, "Authorization": f"Bearer {token}"})

    async def whoami(self, token: str) -> dict[str, Any]:
        """Return what the server knows about the bearer of a token that it accepts."""
        response = await self.request(token, "tools/call", name="whoami", arguments={})
        assert response.status == 200, (response.status, response.headers, self.log)
        found: dict[str, Any] = response.json["result"]["structuredContent"]
        return found


@contextmanager
def serve(
    folder: Path,
    sections: str,
    *arguments: str,
    port: int,
    environment: Mapping[str, str] | None = None,
) -> Iterator[ProtectedSite]:
    """Serve with a settings file; without `arguments`, the settings say what."""
    file = folder / "hubbub.toml"
    file.write_text(sections)
    with ServerProcess(*arguments, "--config", str(file), port=port, environment=environment) as process:
        yield ProtectedSite(process)


def issuer_table(provider: ProviderProcess, introspection_client: Mapping[str, Any] | None = None, **more: Any) -> str:
    """The table of one issuer; with a client, it is asked about opaque tokens."""
    lines = ["[[oauth.issuers]]", f'issuer = "{provider.issuer}"']
    lines += [f"{name} = {json.dumps(value)}" for name, value in more.items()]
    if introspection_client is not None:
        lines += ["[oauth.issuers.introspection]", f'client_id = "{introspection_client["client_id"]}"']
        lines += [f'client_secret = {{ env = "{INTROSPECTION_SECRET}" }}']
    return "\n".join(lines)


@contextmanager
def protect_notes(
    folder: Path,
    *providers: ProviderProcess,
    introspection_client: Mapping[str, Any] | None = None,
    oauth: Mapping[str, Any] | None = None,
    trusts_authority: bool = True,
) -> Iterator[ProtectedSite]:
    """Serve the notes to the bearers of tokens of these providers; `trusts_authority`: of their certificates."""
    port = free_port()
    lines = ["[oauth]", f'public_url = "http://127.0.0.1:{port}"', f"scopes = {json.dumps(SCOPES)}"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in (oauth or {}).items()]
    lines += [issuer_table(provider, introspection_client) for provider in providers]
    environment = {} if introspection_client is None else {INTROSPECTION_SECRET: introspection_client["client_secret"]}
    for provider in providers:
        if provider.ca is not None and trusts_authority:
            environment["SSL_CERT_FILE"] = os.fspath(provider.ca)
    with serve(folder, "\n".join(lines), str(NOTES), port=port, environment=environment) as site:
        yield site
