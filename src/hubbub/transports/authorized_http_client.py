"""An HTTP client that adds the headers of an `Authorizer` to its requests.

A request is sent again only after 401, or after 403 with `insufficient_scope`: servers answer so before they
execute anything. Nothing else is repeated.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hubbub import bounds
from hubbub.errors import HttpError, TransportError
from hubbub.net.client import HttpClient
from hubbub.net.response import HttpResponse
from hubbub.ports import Authorizer, RefusedRequest
from hubbub.protocol.host_origin import http_url
from hubbub.transports.http_errors import error_from_response

if TYPE_CHECKING:
    from hubbub.net.websocket import WebSocket

_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_MIN_MASKED: Final = 8
"""Shorter parts of a credential may be common words, such as `Bearer`."""
REFUSALS: Final = (_UNAUTHORIZED, _FORBIDDEN)
_CREDENTIAL_HEADER: Final = re.compile(r"(?i)key|token|auth|cookie|secret|password")
"""Names of headers in which callers send credentials of their own, such as X-API-Key."""


class AuthorizedHttpClient(HttpClient):
    """An HTTP client for one server that needs authorization."""

    def __init__(
        self, authorizer: Authorizer, *args: Any, learn: Callable[[Mapping[str, str]], None], **options: Any
    ) -> None:
        """`learn` is called with each new token, so that it can be masked. The rest is as for `HttpClient`."""
        super().__init__(*args, **options)
        self._authorizer = authorizer
        self._learn = learn
        self._learned = ""
        self._is_released = False
        authorizer.acquire()

    def current_headers(self) -> Mapping[str, str] | None:
        """Return the headers that suit every request now, the same object until they change; None: use `send`."""
        headers = self._authorizer.current_headers()
        if headers is not None:
            self._learn_token(headers)
        return headers

    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None, is_stream: bool = False
    ) -> HttpResponse:
        """Send a request until it is accepted, or the authorizer cannot obtain another token; return the response.

        Raises: TransportError.
        """
        return await self._send(method, url, headers, body, is_stream=is_stream)

    async def resend(
        self,
        refused: HttpResponse,
        sent: Mapping[str, str],
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> HttpResponse:
        """Continue after a refusal of a request of `send_nowait`, whose token headers were `sent`.

        Raises: TransportError.
        """
        return await self._send(method, url, headers, body, refused=refused, sent=sent)

    async def open_websocket(
        self, url: str, *, headers: Mapping[str, str], protocols: Sequence[str], limit: int
    ) -> WebSocket:
        """Open a WebSocket; its handshake is a request like others.

        Raises: TransportError.
        """
        request_url = http_url(url)
        forbidden = 0
        for attempt in range(bounds.AUTHORIZATION_RETRIES + 1):
            token = await self._token_headers("GET", request_url)
            try:
                return await super().open_websocket(url, headers={**headers, **token}, protocols=protocols, limit=limit)
            except HttpError as error:
                challenge = str(error.data.get("www_authenticate", ""))
                nonce = str(error.data.get("dpop_nonce", ""))
                refused = RefusedRequest("GET", request_url, error.status, attempt, challenge, nonce, token, forbidden)
                if not await self._may_send_again(refused):
                    raise
                forbidden += error.status == _FORBIDDEN
        raise AssertionError("the last refusal is raised")

    async def close(self) -> None:
        """Close every connection, and release the authorizer."""
        try:
            await super().close()
        finally:
            if not self._is_released:
                self._is_released = True
                await self._authorizer.release()

    async def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        is_stream: bool = False,
        refused: HttpResponse | None = None,
        sent: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        response, token, attempt, forbidden = refused, sent or {}, 0, 0
        while True:
            if response is None:
                token = await self._token_headers(method, url)
                response = await super().send(method, url, headers={**headers, **token}, body=body, is_stream=is_stream)
            nonce, challenge = response.header("DPoP-Nonce"), response.header("WWW-Authenticate")
            if nonce:
                self._authorizer.remember_nonce(nonce)
            if response.status not in REFUSALS:
                return response
            refusal = RefusedRequest(method, url, response.status, attempt, challenge, nonce, token, forbidden)
            try:
                if not await self._may_send_again(refusal):
                    return response
                with contextlib.suppress(TransportError):
                    await response.read(bounds.ERROR_BODY_BYTES)  # so that the connection can be reused
            except TransportError as error:
                own = [value for name, value in headers.items() if _CREDENTIAL_HEADER.search(name)]
                if own and response.status == _UNAUTHORIZED:
                    await _add_answer(error, response, url, own)
                response.close()
                raise
            except BaseException:
                response.close()
                raise
            response.close()
            forbidden += response.status == _FORBIDDEN
            response, attempt = None, attempt + 1

    async def _may_send_again(self, refused: RefusedRequest) -> bool:
        is_last = refused.attempt >= bounds.AUTHORIZATION_RETRIES
        needs_other_token = refused.status == _UNAUTHORIZED or (
            refused.status == _FORBIDDEN and "insufficient_scope" in refused.challenge
        )
        return needs_other_token and not is_last and await self._authorizer.handle_refusal(refused)

    async def _token_headers(self, method: str, url: str) -> Mapping[str, str]:
        headers = await self._authorizer.headers(method, url)
        self._learn_token(headers)
        return headers

    def _learn_token(self, headers: Mapping[str, str]) -> None:
        token = headers.get("Authorization", "")
        if token and token != self._learned:
            self._learned = token
            self._learn({"Authorization": token})


async def _add_answer(error: TransportError, response: HttpResponse, url: str, sent: Sequence[str]) -> None:
    """Put the answer of a server before an error, because it may say what is wrong with the caller's own credential."""

    # Also the parts of a cookie, and of a value such as `Bearer ...`, by themselves.
    parts = {part for value in sent for part in (value, *re.split(r"[\s;=]+", value)) if len(part) >= _MIN_MASKED}

    def mask(text: str) -> str:
        for part in sorted(parts, key=len, reverse=True):
            text = text.replace(part, "***")
        return text

    try:
        refusal = await error_from_response(
            response, url, bounds.ERROR_BODY_BYTES, has_session=False, mask=mask, has_authorizer=True
        )
    except TransportError:
        return
    answer = mask(refusal.message)
    if answer not in error.message:  # several requests may have the same error
        error.message = f"{answer}; {error.message}"
        error.args = (error.message,)
