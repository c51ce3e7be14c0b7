"""Client ID Metadata Documents: clients whose id is the https URL of a document about them.

Documents are fetched from public addresses only, unless `allow` of `[egress]` names their host with its port; without
redirects, within limits of size and time, and cached.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from hubbub.net.egress import ANY_ADDRESS, PUBLIC, EgressPolicy, normalize_host
from hubbub.net.egress_rules import EgressRules
from hubbub.oauth.documents import DocumentClient, is_allowed_with_port
from hubbub.oauth.errors import MetadataError, OAuthError, ServerUnavailable
from hubbub.oauth.front_door import limits
from hubbub.oauth.front_door.attempt_limiter import AttemptLimiter
from hubbub.oauth.front_door.clients import PRIVATE_KEY_JWT, Client, ClientMetadata, display_name, parse_metadata
from hubbub.oauth.metadata import show_url
from hubbub.protocol.host_origin import network_prefix
from hubbub.security.jose import read_key_set
from hubbub.security.rates import Rate
from hubbub.shares import Shares

_TEMPORARY: Final = frozenset((408, 425, 429))
_SERVER_ERROR: Final = 500

logger = logging.getLogger("hubbub.oauth")


class _FetchPostponed(ServerUnavailable):
    """A limit of this server postpones a fetch; that says nothing about the document."""


class _Document(NamedTuple):
    client: Client
    fetched_at: float
    fetch_at: float
    """When it is fetched again."""


class ClientDocuments:
    """Finds clients by the URLs of their documents."""

    def __init__(self, rules: Callable[[], EgressRules], clock: Callable[[], float]) -> None:
        """`rules` are read for each fetch, because they may change while the server runs."""
        self._rules = rules
        self._clock = clock
        self._documents: OrderedDict[str, _Document] = OrderedDict()
        self._attempts = AttemptLimiter(Rate(limits.CLIENT_DOCUMENTS_PER_MINUTE, 60, "minute"), clock)
        self._fetches = Shares(limits.CLIENT_DOCUMENT_FETCHES)
        """The fetches in progress, by network: documents that do not arrive must not keep others from being fetched."""

    async def find(self, client_id: str, address: str) -> Client:
        """Return the client that a document describes. `address`: the network address of the requester.

        While the document cannot be fetched again, the last one is used for a day.

        Raises:
            ServerUnavailable: it cannot be fetched at the moment.
            OAuthError: it cannot be used.
        """
        known, now = self._documents.get(client_id), self._clock()
        if known is None or now >= known.fetch_at:
            try:
                client = await self._fetch_for(client_id, address)
            except ServerUnavailable as error:
                if known is None or now - known.fetched_at >= limits.CLIENT_DOCUMENT_STALE_S:
                    raise
                logger.warning(
                    "oauth_client_document_not_refreshed", extra={"client": client_id, "reason": error.message}
                )
                if isinstance(error, _FetchPostponed):
                    return known.client  # the next caller may fetch it
                known = known._replace(fetch_at=now + limits.CLIENT_DOCUMENT_RETRY_S)
            except OAuthError:
                self._documents.pop(client_id, None)
                raise
            else:
                known = _Document(client, now, now + limits.CLIENT_DOCUMENT_TTL_S)
            self._documents[client_id] = known
        self._documents.move_to_end(client_id)
        if len(self._documents) > limits.CLIENT_DOCUMENTS:
            self._documents.popitem(last=False)
        return known.client

    async def _fetch_for(self, client_id: str, address: str) -> Client:
        host = check_client_url(client_id)
        if wait_s := self._attempts.wait_s(address):
            raise _FetchPostponed("Too many client documents were requested", wait_s)
        self._attempts.add(address)
        owner = network_prefix(address)
        if not self._fetches.has_room(owner):
            raise _FetchPostponed("Too many client documents are being fetched")
        self._fetches.take(owner)
        try:
            return await self._fetch(client_id, host)
        finally:
            self._fetches.give_back(owner)

    async def _fetch(self, url: str, host: str) -> Client:
        try:
            async with asyncio.timeout(limits.CLIENT_DOCUMENT_TIMEOUT_S):
                rules = self._rules()
                response = await DocumentClient(document_egress(url, rules), rules).get(url)
        except TimeoutError:
            seconds = limits.CLIENT_DOCUMENT_TIMEOUT_S
            raise ServerUnavailable(f"{show_url(url)} did not answer within {seconds:g} s") from None
        if response.status in _TEMPORARY or response.status >= _SERVER_ERROR:
            raise ServerUnavailable(f"{show_url(url)} answered with status {response.status}")
        if response.status != 200:
            raise MetadataError(f"{show_url(url)} answered with status {response.status}, not with a client document")
        if len(response.body) > limits.CLIENT_DOCUMENT_BYTES:
            raise MetadataError(f"{show_url(url)} is larger than {limits.CLIENT_DOCUMENT_BYTES} bytes")
        metadata = parse_metadata(response.body)
        if metadata.client_id != url:
            raise MetadataError(f"the document at {show_url(url)} has another client_id than its URL")
        client = Client(
            client_id=url,
            name=display_name(metadata, host),
            redirect_uris=metadata.redirect_uris,
            verified_host=host,
        )
        return _add_authentication(client, metadata)


def document_egress(url: str, rules: EgressRules) -> EgressPolicy:
    """Return the policy for a URL that a client named."""
    return ANY_ADDRESS if is_allowed_with_port(url, rules) else PUBLIC


def _add_authentication(client: Client, metadata: ClientMetadata) -> Client:
    """Add how a client authenticates: as its document prefers, or else as a public client if it may be one.

    Raises: MetadataError.
    """
    method, others = metadata.token_endpoint_auth_method or "none", metadata.token_endpoint_auth_methods_supported or ()
    may_be_public = "none" in (method, *others)
    if method == PRIVATE_KEY_JWT and (metadata.jwks_uri is not None or metadata.jwks is not None):
        url, keys = metadata.jwks_uri or "", msgspec.json.encode(metadata.jwks or {})
        if url:
            check_client_url(url, "jwks_uri")
        else:
            _check_keys(keys)
        return replace(client, auth_method=method, jwks_uri=url, jwks=keys, may_be_public=may_be_public)
    if not may_be_public:
        raise MetadataError(
            "the token_endpoint_auth_method of a client document must be 'none', or 'private_key_jwt' with keys"
        )
    return client


def _check_keys(keys: bytes) -> None:
    try:
        read_key_set(keys)
    except ValueError as error:
        raise MetadataError(f"jwks: {error}") from None


def check_client_url(url: str, name: str = "client_id") -> str:
    """Check that a client id may be the URL of a document, or that of its keys; return its host.

    Raises: MetadataError.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise MetadataError(f"{name} is not a URL") from None
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
        raise MetadataError(f"{name} must be an https URL with a path, and without user, fragment and dot segments")
    return host
