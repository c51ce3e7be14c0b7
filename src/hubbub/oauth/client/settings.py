"""`OAuth`: how a client logs in at the authorization server of an MCP server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import msgspec
from msgspec.structs import force_setattr

from hubbub.errors import SettingsError
from hubbub.oauth.client.credentials import CredentialStore, MemoryCredentialStore
from hubbub.oauth.client.redirects import RedirectFunction, RedirectHandler
from hubbub.oauth.errors import MetadataError
from hubbub.oauth.metadata import check_endpoint, is_same_issuer
from hubbub.settings.secret import Secret
from hubbub.suggestions import format_suggestion

Grant: TypeAlias = Literal[
    "authorization_code", "client_credentials", "jwt_bearer", "enterprise_managed", "token_exchange"
]
Dpop: TypeAlias = Literal["auto", "require", "off"]
TokenSource: TypeAlias = "str | Secret | Callable[[str], str | Secret | Awaitable[str | Secret]]"
"""A token, or a function that returns a fresh one for the issuer at which it will be presented."""

DEFAULT_REDIRECT_URI: Final = "http://127.0.0.1/callback"
_RESERVED_PARAMETERS: Final = frozenset(
    (
        "client_id",
        "redirect_uri",
        "response_type",
        "response_mode",
        "scope",
        "state",
        "code_challenge",
        "code_challenge_method",
        "resource",
        "prompt",
        "dpop_jkt",
        "uri",
        "request",
        "request_uri",
    )
)


class IssuerQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """What one authorization server needs that differs from the specification."""

    omit_resource: bool = False
    """Leave out `resource` (RFC 8707), which Entra ID v1 endpoints and some others refuse."""
    prompt: str | None = None
    """`prompt` of the authorization request, such as `consent` or `select_account`; empty: never sent."""
    assume_pkce: bool = False
    """Use it although its metadata does not list S256 as a PKCE method, such as the metadata of Entra ID."""
    authorization_params: Mapping[str, str] = {}
    """More parameters of the authorization request, such as `audience`."""


class IdentityProvider(msgspec.Struct, frozen=True, kw_only=True):
    """The identity provider of a company, for the grant `enterprise_managed`."""

    issuer: str
    id_token: TokenSource
    """The ID token of the person, or a function that returns it."""
    client_id: str
    client_secret: Secret | str | None = None
    token_endpoint: str | None = None
    """Default: from the metadata of the issuer."""

    def __post_init__(self) -> None:
        if isinstance(self.client_secret, str):
            force_setattr(self, "client_secret", Secret(self.client_secret))
        _check_url("issuer", self.issuer)
        _check_url("token_endpoint", self.token_endpoint)

    def __repr__(self) -> str:
        return f"IdentityProvider(issuer={self.issuer!r}, client_id={self.client_id!r})"


class OAuth(msgspec.Struct, frozen=True, kw_only=True):
    """How to obtain tokens for one server. With no field set: discovery, registration, and a login in the browser.

    Raises:
        SettingsError: a field is missing or wrong for the grant.
    """

    grant: Grant = "authorization_code"
    client_id: str | None = None
    """A client that was registered by hand. Unset: a metadata document or dynamic registration."""
    client_secret: Secret | str | None = None
    token_endpoint_auth_method: Literal["client_secret_basic", "client_secret_post"] | None = None
    """How the secret is sent. Default: as the first of the methods that the authorization server supports."""
    private_key: Secret | str | None = None
    """A private key (PEM or JWK) that authenticates the client instead of a secret: `private_key_jwt`."""
    private_key_algorithm: str | None = None
    """Default: the first that fits the key."""
    private_key_id: str | None = None
    """The `kid` under which the authorization server knows the public key."""
    client_metadata_url: str | None = None
    """The https URL of a Client ID Metadata Document, used where authorization servers support it."""
    client_name: str = "Hubbub"
    """Shown on consent pages, after dynamic registration."""
    scope: str | None = None
    """Scopes, separated by spaces. Default: what the server requires."""
    redirect_uri: str | None = None
    """Default: a free port on the loopback interface."""
    issuer: str | None = None
    """The only authorization server to use. Set it wherever there is a secret or key, which then goes nowhere else."""
    dpop: Dpop = "auto"
    """Bind tokens to a key (RFC 9449): `auto` where the authorization server supports it."""
    assertion: TokenSource | None = None
    """For `jwt_bearer`: the JWT of the workload."""
    subject_token: TokenSource | None = None
    """For `token_exchange`: the token of the person on whose behalf calls are made."""
    subject_token_type: str = "urn:ietf:params:oauth:token-type:access_token"
    identity_provider: IdentityProvider | None = None
    """For `enterprise_managed`."""
    quirks: Mapping[str, IssuerQuirks] = {}
    """By issuer; `*` is any other."""
    store: CredentialStore | None = None
    """Stores tokens. Default: the memory of this object."""
    redirect_handler: RedirectHandler | RedirectFunction | None = None
    """Shows the authorization page. Unset: a login fails with `LoginRequired`."""
    principal: str = ""
    """Whose tokens they are, where one process has several users."""
    login_command: str = ""
    """The command that logs in to `store`, for the message of `LoginRequired`. Default: advice for Python programs."""

    def __post_init__(self) -> None:
        if self.grant not in get_args(Grant):
            raise SettingsError(f"Unknown `grant` {self.grant!r}{format_suggestion(self.grant, get_args(Grant))}")
        if self.dpop not in get_args(Dpop):
            raise SettingsError(f"`dpop` must be auto, require or off, not {self.dpop!r}")
        if self.token_endpoint_auth_method not in (None, "client_secret_basic", "client_secret_post"):
            raise SettingsError("`token_endpoint_auth_method` must be client_secret_basic or client_secret_post")
        for name in ("client_secret", "private_key"):
            if isinstance(value := getattr(self, name), str):
                force_setattr(self, name, Secret(value))
        for name in ("client_metadata_url", "issuer", "redirect_uri"):
            _check_url(name, getattr(self, name))
        self._check_grant()
        for issuer, each in self.quirks.items():
            if reserved := _RESERVED_PARAMETERS.intersection(each.authorization_params):
                name = min(reserved)
                hint = "; use the quirk `prompt`" if name == "prompt" else ""
                raise SettingsError(f"`authorization_params` of {issuer} must not contain {name!r}{hint}")
        force_setattr(self, "quirks", MappingProxyType(dict(self.quirks)))
        if self.store is None:
            force_setattr(self, "store", MemoryCredentialStore())

    def _check_grant(self) -> None:
        required: dict[Grant, Sequence[str]] = {
            "client_credentials": ("client_id",),
            "jwt_bearer": ("assertion",),
            "enterprise_managed": ("identity_provider", "client_id"),
            "token_exchange": ("subject_token", "client_id"),
        }
        for name in required.get(self.grant, ()):
            if getattr(self, name) is None:
                raise SettingsError(f"The grant {self.grant} needs `{name}`")
        if self.grant == "client_credentials" and self.client_secret is None and self.private_key is None:
            raise SettingsError("The grant client_credentials needs `client_secret` or `private_key`")
        for name in ("client_secret", "private_key"):
            if getattr(self, name) is not None and self.client_id is None:
                raise SettingsError(f"`{name}` needs `client_id`")

    @property
    def credential_store(self) -> CredentialStore:
        """The store in use."""
        return cast("CredentialStore", self.store)

    def quirks_of(self, issuer: str) -> IssuerQuirks:
        """Return the quirks of an authorization server."""
        named = (each for name, each in self.quirks.items() if is_same_issuer(name, issuer))
        return next(named, None) or self.quirks.get("*") or IssuerQuirks()

    def __repr__(self) -> str:
        return f"OAuth(grant={self.grant!r}, client_id={self.client_id!r}, scope={self.scope!r})"


def _check_url(name: str, value: Any) -> None:
    if value is None:
        return
    try:
        check_endpoint(value, f"`{name}`")
    except MetadataError as error:
        raise SettingsError(error.message) from None
