"""HTTP client of the sidecar: Hubbub's own on its socket or on a port, the contract's reference sidecar, or OmniParser.

On the socket the operating system identifies the user of the other process. On a port, Hubbub's sidecar proves that it
knows the token before anything is sent to it, and the rest is encrypted. Other sidecars have no token and are sent only
what is necessary.

Some servers expect a slash at the end of a path and some do not. The second form is tried only if the first is unknown
or redirected, so that a picture is not sent twice to a server that failed to read it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from hubbub import Secret
from hubbub.packs.activity import limits, sidecar_socket
from hubbub.packs.activity.failures import SourceFailure
from hubbub.packs.activity.json_client import JsonClient, extract_message
from hubbub.packs.activity.sidecar_proof import NONCE_HEADER, Exchange, is_nonce, make_nonce

_ADVICE = "start it with `hubbub sidecar`; only screen.read needs it"
_UNKNOWN_PATH_STATUSES = (307, 308, 404, 405)
_TOKEN_VARIABLE = "HUBBUB_ACTIVITY_SIDECAR_TOKEN"


class _SealedResponse(msgspec.Struct):
    status: int
    body: dict[str, Any]


class SidecarClient:
    def __init__(self, url: str, *, timeout_s: float | None = None) -> None:
        """`url` begins with http, or with `unix:` for a socket.

        Raises: SettingsError.
        """
        self.is_private = url.startswith(sidecar_socket.SCHEME)
        """Whether only a process of this user can be at the other end."""
        connect = partial(sidecar_socket.connect, sidecar_socket.parse_socket_path(url)) if self.is_private else None
        self._server = JsonClient("The sidecar", url, _ADVICE, key_setting=_TOKEN_VARIABLE, connect=connect)
        self._timeout_s = limits.REQUEST_TIMEOUT_S if timeout_s is None else timeout_s

    @property
    def url(self) -> str:
        return self._server.url

    async def probe(self) -> dict[str, Any]:
        """Return the sidecar's description of itself.

        Raises: SourceFailure.
        """
        return await self._probe({})

    async def verify_sidecar(self, token: Secret) -> Exchange:
        """Make the sidecar prove that it knows the token; the exchange is valid for one request.

        Raises: SourceFailure, if the proof is missing or wrong.
        """
        nonce = make_nonce()
        found = await self._probe({NONCE_HEADER: nonce})
        challenge = found.get("challenge")
        exchange = Exchange(token, nonce, challenge) if isinstance(challenge, str) and is_nonce(challenge) else None
        if exchange is None or not exchange.verify_proof(found.get("proof")):
            raise self._token_mismatch()
        return exchange

    async def parse(self, request: dict[str, Any], exchange: Exchange | None = None) -> dict[str, Any]:
        """Read a picture or the screen; encrypted if there is an `exchange`.

        Raises: SourceFailure.
        """
        if exchange is not None:
            return await self._parse_sealed(request, exchange)
        try:
            body = await self._parse("/parse", request)
        except SourceFailure as failure:
            if failure.status not in _UNKNOWN_PATH_STATUSES:
                raise
            body = await self._parse("/parse/", request)
        found: dict[str, Any] = self._server.decode(body, dict[str, Any])
        return found

    async def close(self) -> None:
        """Close all connections."""
        await self._server.close()

    async def _probe(self, headers: dict[str, str]) -> dict[str, Any]:
        options: dict[str, Any] = {
            "timeout_s": self._timeout_s, "limit": limits.INFO_BYTES, "headers": headers
        }  # fmt: skip
        try:
            body = await self._server.get("/probe", **options)
        except SourceFailure as failure:
            if failure.status not in _UNKNOWN_PATH_STATUSES:
                raise
            body = await self._server.get("/probe/", **options)
        found: dict[str, Any] = self._server.decode(body, dict[str, Any])
        return found

    async def _parse(self, path: str, value: Any, headers: dict[str, str] | None = None) -> bytes:
        return await self._server.post(
            path, value, timeout_s=limits.SCREEN_READ_TIMEOUT_S, limit=limits.SIDECAR_BODY_BYTES, headers=headers or {}
        )

    async def _parse_sealed(self, request: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        sealed = exchange.seal("request", msgspec.json.encode(request))
        body = await self._parse("/parse", sealed, exchange.headers)
        try:
            decrypted = exchange.open("answer", body)
        except ValueError:
            raise self._token_mismatch() from None
        response: _SealedResponse = self._server.decode(decrypted, _SealedResponse)
        if response.status != 200:
            raise self._server.status_failure(response.status, extract_message(msgspec.json.encode(response.body)))
        return response.body

    def _token_mismatch(self) -> SourceFailure:
        message = (
            f"The program that listens at {self.url} does not know your sidecar token, so nothing was sent to it; "
            f"check which program it is. If it is a sidecar of another account or machine, set {_TOKEN_VARIABLE} "
            "to the same value for both; if it has no token, remove the file sidecar_token from the data folder"
        )
        return SourceFailure("token_mismatch", message, url=self.url)
