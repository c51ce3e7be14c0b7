"""Client ID Metadata Documents: clients whose id is the https URL of a document about them.

Documents are fetched from public addresses only, unless `allow` of `[egress]` names their host with its port; without
redirects, within limits of size and time, and cached.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from hubbub.net.egress import ANY_ADDRESS, PUBLIC, EgressPolicy, normalize_host
from hubbub.net.egress_rules import NO_RULES, EgressRules
from hubbub.oauth.documents import DocumentClient
from hubbub.oauth.errors import MetadataError, OAuthError
from hubbub.oauth.front_door import limits
from hubbub.oauth.front_door.attempt_limiter import AttemptLimiter
from hubbub.oauth.front_door.clients import Client, display_name, parse_metadata
from hubbub.oauth.metadata import show_url
from hubbub.security.rates import Rate

_HTTPS_PORT: Final = 443


class ClientDocuments:
    """Finds clients by the URLs of their documents."""

    def __init__(
        self, rules: Callable[[], EgressRules] = lambda: NO_RULES, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`rules` are read for each fetch, because they may change while the server runs."""
        self._rules = rules
        self._clock = clock
        self._clients: OrderedDict[str, tuple[Client, float]] = OrderedDict()
        self._attempts = AttemptLimiter(Rate(limits.CLIENT_DOCUMENTS_PER_MINUTE, 60, "minute"), clock)
        self._fetching = 0

    async def find(self, client_id: str, address: str) -> Client:
        """Return the client that a document describes. `address`: the network address of the requester.

        Raises: OAuthError, if it cannot be fetched or used.
        """
        known = self._clients.get(client_id)
        if known is not None and self._clock() - known[1] < limits.CLIENT_DOCUMENT_TTL_S:
            self._clients.move_to_end(client_id)
            return known[0]
        host = check_client_url(client_id)
        if wait_s := self._attempts.wait_s(address):
            raise OAuthError(f"Too many client documents were requested; try again in {wait_s} s")
        self._attempts.add(address)
        client = await self._fetch(client_id, host)
        self._clients[client_id] = client, self._clock()
        self._clients.move_to_end(client_id)
        if len(self._clients) > limits.CLIENT_DOCUMENTS:
            self._clients.popitem(last=False)
        return client

    async def _fetch(self, url: str, host: str) -> Client:
        if self._fetching >= limits.CLIENT_DOCUMENT_FETCHES:
            raise OAuthError("Too many client documents are being fetched; try again in a moment")
        self._fetching += 1
        try:
            async with asyncio.timeout(limits.CLIENT_DOCUMENT_TIMEOUT_S):
                rules = self._rules()
                response = await DocumentClient(_choose_policy(url, rules), rules).get(url)
        except TimeoutError:
            seconds = limits.CLIENT_DOCUMENT_TIMEOUT_S
            raise OAuthError(f"{show_url(url)} did not answer within {seconds:g} s; try again") from None
        finally:
            self._fetching -= 1
        if response.status != 200:
            raise MetadataError(f"{show_url(url)} answered with status {response.status}, not with a client document")
        if len(response.body) > limits.CLIENT_DOCUMENT_BYTES:
            raise MetadataError(f"{show_url(url)} is larger than {limits.CLIENT_DOCUMENT_BYTES} bytes")
        metadata = parse_metadata(response.body)
        if metadata.client_id != url:
            raise MetadataError(f"the document at {show_url(url)} has another client_id than its URL")
        if metadata.token_endpoint_auth_method not in (None, "none"):
            raise MetadataError("a client document must have token_endpoint_auth_method 'none' at this server")
        return Client(
            client_id=url,
            name=display_name(metadata, host),
            redirect_uris=metadata.redirect_uris,
            verified_host=host,
        )


def _choose_policy(url: str, rules: EgressRules) -> EgressPolicy:
    parts = urlsplit(url)
    host, port = normalize_host(parts.hostname or ""), parts.port or _HTTPS_PORT
    rules_for_hosts = (
        entry for entry in rules.allow or () if entry.port is not None and not entry.host.startswith(".")
    )
    return ANY_ADDRESS if any(entry.matches(host, port, is_tls=True) for entry in rules_for_hosts) else PUBLIC


def check_client_url(url: str) -> str:
    """Check that a client id may be the URL of a document; return its host.

    Raises: MetadataError.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise MetadataError("client_id is not a URL") from None
    segments = parts.path.split("/")
    try:
        normalize_host(host)
    except ValueError:
        host = ""
    is_valid = (
        parts.scheme == "https"
        and bool(host)
        and "@" not in parts.netloc
        and "#" not in url
        and parts.path not in ("", "/")
        and not {".", ".."} & {segment.lower().replace("%2e", ".") for segment in segments}
        and len(url) <= limits.CLIENT_ID_CHARACTERS
        and url.isascii()
        and url.isprintable()
        and " " not in url
        and "\\" not in url
    )
    if not is_valid:
        raise MetadataError("client_id must be an https URL with a path, and without user, fragment and dot segments")
    return host
