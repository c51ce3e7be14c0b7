"""Authorization servers whose tokens are accepted: their metadata and keys, through the egress guard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hubbub.errors import HubbubError
from hubbub.net.egress import ANY_ADDRESS
from hubbub.net.egress_rules import EgressRules
from hubbub.oauth.documents import DocumentClient, egress_for_named_url
from hubbub.oauth.errors import MetadataError
from hubbub.oauth.metadata import (
    AuthorizationServerMetadata,
    check_endpoint,
    parse_document,
    server_metadata_urls,
    show_url,
)

_OK: Final = 200


class Issuer:
    """One authorization server. The operator configured it, so it may be in the local network."""

    def __init__(self, url: str, rules: Callable[[], EgressRules]) -> None:
        """`rules` are asked for each request, because they may change while the server runs."""
        self.url = url
        self._rules = rules

    async def fetch_metadata(self) -> AuthorizationServerMetadata:
        """Fetch its metadata: RFC 8414, or OpenID Connect.

        Raises: HubbubError, if none was found.
        """
        problem: HubbubError | None = None
        for url in server_metadata_urls(self.url):
            try:
                body = await self.fetch(url, is_configured=True)
                document = parse_document(body, AuthorizationServerMetadata, url)
            except HubbubError as error:
                problem = problem or error
                continue
            if document.issuer != self.url:
                # Another issuer's keys must never verify tokens of this one.
                raise MetadataError(
                    f"The metadata at {show_url(url)} belongs to the issuer {show_url(document.issuer)}, not to "
                    f"{show_url(self.url)}; set `issuer` in [[oauth.issuers]] to exactly the one in the metadata"
                )
            return document
        assert problem is not None
        raise problem

    async def fetch_keys(self, url: str) -> bytes:
        """Fetch its keys from a URL in the settings; if it is the issuer itself, from the URL in its metadata.

        Raises: HubbubError.
        """
        if url != self.url:
            return await self.fetch(url, is_configured=True)
        document = await self.fetch_metadata()
        return await self.fetch(check_endpoint(document.jwks_uri, "jwks_uri"), is_configured=False)

    async def fetch(self, url: str, *, is_configured: bool) -> bytes:
        """Fetch a document.

        Raises: HubbubError.
        """
        response = await self.client(url, is_configured=is_configured).get(url)
        if response.status != _OK:
            raise MetadataError(f"{show_url(url)} answered with status {response.status}")
        return response.body

    def client(self, url: str, *, is_configured: bool) -> DocumentClient:
        """Make a client for a URL that the operator configured, or one that this issuer named."""
        rules = self._rules()
        return DocumentClient(ANY_ADDRESS if is_configured else egress_for_named_url(url, self.url, rules), rules)
