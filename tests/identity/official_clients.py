"""The official Python and TypeScript clients, which log in with their own OAuth code; the browser is a function."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl
from tests.identity.callback_listener import CallbackListener

Browse = Callable[[str], None]
"""Opens the authorization URL, and goes through all pages until the callback."""
SCRIPT = Path(__file__).with_name("oauth_client.mjs")
CLIENT_NAME = "Notes assistant"


class LoginStarted(Exception):
    """A client asks for a new login."""


def start_login(url: str) -> None:
    """Be the browser of a person who must not be asked."""
    raise LoginStarted


class MemoryStorage:
    """What a program keeps between its runs."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@asynccontextmanager
async def connect_python_client(
    url: str, browse: Browse, *, storage: MemoryStorage | None = None
) -> AsyncIterator[Client]:
    """Connect the Python SDK's client; it registers itself unless `storage` holds a client."""
    with closing(CallbackListener()) as listener:
        metadata = OAuthClientMetadata(
            client_name=CLIENT_NAME,
            redirect_uris=[AnyUrl(listener.url)],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            token_endpoint_auth_method="none",
        )

        async def redirect(authorization_url: str) -> None:
            await asyncio.to_thread(browse, authorization_url)

        async def receive() -> AuthorizationCodeResult:
            given = await asyncio.to_thread(listener.wait)
            return AuthorizationCodeResult(code=given.get("code", ""), state=given.get("state"), iss=given.get("iss"))

        auth = OAuthClientProvider(url, metadata, storage or MemoryStorage(), redirect, receive)
        async with (
            httpx2.AsyncClient(auth=auth, timeout=60, trust_env=False) as http,
            Client(streamable_http_client(url, http_client=http), read_timeout_seconds=60) as client,
        ):
            yield client


class TypeScriptClient:
    """The TypeScript SDK's client in a process of Node.js."""

    def __init__(self, node: str, judges: Path, url: str, browse: Browse) -> None:
        self._listener = CallbackListener()
        self.browse = browse
        self._process = subprocess.Popen(
            [node, str(SCRIPT), url, self._listener.url, CLIENT_NAME],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"JUDGES": str(judges)},
        )
        try:
            self._receive()
        except BaseException:
            self.close()
            raise

    def _receive(self) -> Any:
        """Return the next answer; on the way, go to each authorization URL that it prints."""
        assert self._process.stdout is not None
        while True:
            line = self._process.stdout.readline()
            assert line, "the client ended"
            answer = json.loads(line)
            if "authorize" not in answer:
                return answer
            self.browse(answer["authorize"])
            self._send(self._listener.wait())

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def list_tools(self) -> list[str]:
        self._send({"list": True})
        return sorted(self._receive()["tools"])

    def call_tool(self, name: str, **arguments: Any) -> Any:
        """Return the result of a call."""
        self._send({"call": name, "arguments": arguments})
        return self._receive()["result"]

    def close(self) -> None:
        with self._process:  # closes its pipes, and waits
            self._process.kill()
        self._listener.close()
