"""An identity provider in a separate process, and what tests do there as its operator or as a person with a browser."""

import base64
import hashlib
import json
import os
import secrets
import ssl
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.identity.scripted_browser import Page, ScriptedBrowser

HERE = Path(__file__).parent
PEOPLE: dict[str, dict[str, Any]] = json.loads((HERE / "people.json").read_text())
# No server listens there: the browser reads the response from the URL of the redirect.
REDIRECT_URI = "http://127.0.0.1/callback"


class ProviderProcess:
    """A running identity provider. It prints a line with its issuer, and answers each line that it is sent."""

    def __init__(
        self, command: Sequence[str], log: Path, *, environment: dict[str, str] | None = None, ca: Path | None = None
    ) -> None:
        """`ca`: the certificate of the authority that signed the provider's, if it uses TLS."""
        self.ca = ca
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                env=os.environ | (environment or {}),
            )
        self._lock = threading.Lock()
        self._admin = self.new_browser()
        self.issuer: str = self._read()["issuer"]
        self.metadata = self.fetch_json(f"{self.issuer}/.well-known/openid-configuration")

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the provider ended: {self._log.read_text()}"
        return json.loads(line)

    def _command(self, command: str, **more: Any) -> None:
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps({"command": command, **more}) + "\n")
            self._process.stdin.flush()
            assert self._read() == {"done": True}

    @property
    def host_and_port(self) -> str:
        return self.issuer.partition("://")[2]

    def rotate_keys(self) -> None:
        """Replace all signing keys; what was issued before is not signed by any published key."""
        self._command("rotate_keys")

    def set_person(self, name: str, claims: dict[str, Any] | None) -> None:
        """Change what is known of a person; None: nothing any more. Only `oidc-provider` can."""
        self._command("set_person", name=name, claims=claims)

    def go_down(self) -> None:
        """End all connections, and each new one before its request is read."""
        self._command("go_down")

    def come_up(self) -> None:
        """Serve requests again."""
        self._command("come_up")

    def close(self) -> None:
        with self._process:  # closes its pipes, and waits
            self._process.kill()

    def new_browser(self) -> ScriptedBrowser:
        """A browser without cookies, which trusts the provider's certificate."""
        return ScriptedBrowser(None if self.ca is None else ssl.create_default_context(cafile=self.ca))

    def fetch_json(self, url: str, form: dict[str, str] | None = None) -> Any:
        return json.loads(self._succeed(self._admin.send(url, form)).text)

    def _succeed(self, page: Page) -> Page:
        assert page.status in (200, 201), (page.status, page.text)
        return page

    def register(self, *redirect_uris: str, **metadata: Any) -> dict[str, Any]:
        """Register a client as an operator would, with a secret unless `token_endpoint_auth_method` says otherwise."""
        is_person_asked = bool(redirect_uris)
        client = {
            "client_name": "Test client",
            "redirect_uris": list(redirect_uris),
            "grant_types": ["authorization_code", "refresh_token"] if is_person_asked else ["client_credentials"],
            "response_types": ["code"] if is_person_asked else [],
            "token_endpoint_auth_method": "client_secret_basic",
            "scope": "openid offline_access profile email mcp:tools mcp:admin notes:read notes:write",
            **metadata,
        }
        if is_person_asked and all(uri.startswith("http://127.0.0.1") for uri in redirect_uris):
            client.setdefault("application_type", "native")
        registered: dict[str, Any] = self._post_json(self.metadata["registration_endpoint"], client)
        return registered

    def _post_json(self, url: str, content: Any) -> Any:
        browser = self.new_browser()
        page = browser.send_body(url, json.dumps(content).encode(), {"Content-Type": "application/json"})
        return json.loads(self._succeed(page).text)

    def client_token(self, resource: str, **metadata: Any) -> dict[str, Any]:
        """Obtain a token of a new client by its credentials; return the token response."""
        client = self.register(token_endpoint_auth_method="client_secret_post", **metadata)
        return self.request_token(client, grant_type="client_credentials", resource=resource, scope="mcp:tools")

    def user_token(self, person: str, resource: str, scope: str = "mcp:tools", **metadata: Any) -> dict[str, Any]:
        """Log a person in at a new client; return the token response."""
        client = self.register(REDIRECT_URI, token_endpoint_auth_method="client_secret_post", **metadata)
        verifier = secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        state = secrets.token_urlsafe()
        query = {
            "response_type": "code",
            "client_id": client["client_id"],
            "redirect_uri": REDIRECT_URI,
            "scope": scope,
            "state": state,
            "resource": resource,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        url = f"{self.metadata['authorization_endpoint']}?{urlencode(query)}"
        page = self.new_browser().log_in(url, person, stop_at=REDIRECT_URI)
        assert page.query.get("state") == state, (page.url, page.text)
        assert page.query.get("iss") == self.issuer, page.url
        return self.request_token(
            client,
            grant_type="authorization_code",
            code=page.query["code"],
            redirect_uri=REDIRECT_URI,
            code_verifier=verifier,
            resource=resource,
        )

    def request_token(self, client: dict[str, Any], **form: str) -> dict[str, Any]:
        """Make a token request of a client that sends its secret in the form."""
        credentials = {"client_id": client["client_id"], "client_secret": client["client_secret"]}
        token: dict[str, Any] = self.fetch_json(self.metadata["token_endpoint"], {**credentials, **form})
        return token
