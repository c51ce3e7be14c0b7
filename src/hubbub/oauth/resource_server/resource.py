"""The endpoints of this server as protected resources: their URLs, metadata documents, challenges and audiences.

Every endpoint is a resource of its own, so that clients find its metadata and can get tokens for it alone: `/mcp`, each
view `/mcp/NAME`, `/mcp-ws` and `/sse`. A token for `/mcp`, or for the server as a whole, is valid at all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from hubbub.oauth import limits
from hubbub.oauth.dpop_proofs import PROOF_ALGORITHMS
from hubbub.oauth.metadata import RESOURCE_METADATA_PATH, ProtectedResourceMetadata
from hubbub.security.jose import InvalidJwt
from hubbub.settings.oauth import OAuthSettings

MAIN_PATH: Final = "/mcp"
_VIEW_PATH: Final = re.compile(r"/mcp/[A-Za-z0-9._~-]{1,128}")
_OTHER_PATHS: Final = {"/mcp-ws": "/mcp-ws", "/sse": "/sse", "/messages": "/sse"}
"""Paths with a resource of their own, and the resource that they belong to."""
_READINESS_PATH: Final = "/mcp/health"
_QUOTED: Final = re.compile(r"[^ !#-\[\]-~]")


class ProtectedResource:
    """All endpoints of one server."""

    def __init__(self, settings: OAuthSettings, *, name: str, authorization_servers: Sequence[str]) -> None:
        self._settings = settings
        self._name = name
        self._authorization_servers = tuple(dict.fromkeys(authorization_servers))
        self._url = settings.public_url.rstrip("/")
        self._prefix = urlsplit(self._url).path
        self._scopes = sorted(settings.required_scopes) or list(settings.scopes)
        self._everywhere = frozenset((self._url, f"{self._url}/", f"{self._url}{MAIN_PATH}"))

    def url(self, path: str) -> str:
        """Return the URL at which clients reach a path."""
        return self._url + path

    def resource_path(self, path: str) -> str:
        """Return the path of the resource that a path belongs to."""
        if path == MAIN_PATH:
            return path
        if _VIEW_PATH.fullmatch(path) and path != _READINESS_PATH:
            return path
        return _OTHER_PATHS.get(path, MAIN_PATH)

    def match_audience(self, audience: frozenset[str]) -> frozenset[str] | None:
        """Return the paths at which a token with these audiences is valid; None: every path.

        Raises: InvalidJwt, if there are none.
        """
        if not self._everywhere.isdisjoint(audience):
            return None
        start = len(self._url)
        paths = {url[start:] for url in audience if url.startswith(f"{self._url}/")}
        valid = frozenset(path for path in paths if path != MAIN_PATH and self.resource_path(path) == path)
        if not valid:
            raise InvalidJwt("wrong audience")
        return valid

    # -- metadata ----------------------------------------------------------------------

    def find_metadata(self, path: str) -> bytes | None:
        """Return the metadata document at a well-known path; None if the path has none.

        Every name of a view has one, whether the view exists or not, because the requester is not authenticated.
        """
        rest = path.removeprefix(RESOURCE_METADATA_PATH)
        if rest == path:
            return None
        if self._prefix and (rest == self._prefix or rest.startswith(f"{self._prefix}/")):
            rest = rest.removeprefix(self._prefix)
        rest = rest or MAIN_PATH
        return self._metadata(rest) if rest == self.resource_path(rest) else None

    def _metadata(self, path: str) -> bytes:
        settings = self._settings
        document = ProtectedResourceMetadata(
            resource=self.url(path),
            authorization_servers=self._authorization_servers,
            scopes_supported=settings.scopes or None,
            bearer_methods_supported=("header",),
            resource_name=self._name,
            dpop_signing_alg_values_supported=None if settings.dpop == "off" else PROOF_ALGORITHMS,
            dpop_bound_access_tokens_required=True if settings.dpop == "require" else None,
        )
        return msgspec.json.encode(document)

    # -- challenges --------------------------------------------------------------------

    def challenge(
        self,
        path: str,
        *,
        scheme: str = "",
        error: str = "",
        description: str = "",
        scopes: Iterable[str] | None = None,
    ) -> bytes:
        """Return the value of `WWW-Authenticate` for a request to a path.

        `scopes`: those that the request needs; by default those that every request needs.
        """
        scheme = scheme or ("DPoP" if self._settings.dpop == "require" else "Bearer")
        parameters = {"error": error, "error_description": description}
        # Not inserted into the path of the public URL: a proxy that adds that path may forward nothing else.
        parameters["resource_metadata"] = self._url + RESOURCE_METADATA_PATH + self.resource_path(path)
        parameters["scope"] = _join_scopes(self._scopes if scopes is None else sorted(scopes))
        if scheme == "DPoP":
            parameters["algs"] = " ".join(PROOF_ALGORITHMS)
        return format_challenge(scheme, parameters)


def format_challenge(scheme: str, parameters: dict[str, str]) -> bytes:
    """Return a challenge; parameters without a value are left out, and characters that cannot be quoted replaced."""
    shown = [f'{name}="{_QUOTED.sub("?", value)}"' for name, value in parameters.items() if value]
    return f"{scheme} {', '.join(shown)}".encode("ascii")


def _join_scopes(scopes: Iterable[str]) -> str:
    text = ""
    for scope in scopes:
        longer = f"{text} {scope}" if text else scope
        if len(longer) > limits.CHALLENGE_SCOPE_CHARACTERS:
            break
        text = longer
    return text
