"""Settings of OAuth: the authorization servers whose tokens are accepted, and the server as one itself.

The section `[oauth]` of `hubbub.toml`. Nothing of it is harmless, so an untrusted folder's file can set none of it. The
descriptions of the fields are used in documentation.
"""

from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

import msgspec

from hubbub.settings.fields import setting
from hubbub.settings.governance import SecretSource
from hubbub.settings.read import has_section, read_settings
from hubbub.settings.sources import OAUTH, Sources

Scope = Annotated[str, msgspec.Meta(pattern=r"^[!#-\[\]-~]{1,128}$")]
"""As in RFC 6749: visible ASCII characters without quotes and backslashes."""
Scopes = tuple[Scope, ...]
Claims = tuple[Annotated[str, msgspec.Meta(min_length=1)], ...]
_LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_OFFLINE_ACCESS: Final = "offline_access"


class IntrospectionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How opaque tokens are introspected at their authorization server (RFC 7662)."""

    client_id: Annotated[str, setting("The client id of this server at the authorization server.", min_length=1)]
    client_secret: Annotated[SecretSource, setting("Its secret: env, file, keyring or command.", form="SOURCE")]
    endpoint: Annotated[str, setting("The introspection endpoint. Default: found by discovery.", form="URL")] = ""


class IssuerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One authorization server whose tokens are accepted: a table of `[[oauth.issuers]]`."""

    issuer: Annotated[str, setting("The issuer URL, exactly as `iss` in its tokens.", form="URL")]
    audience: Annotated[
        tuple[Annotated[str, msgspec.Meta(min_length=1)], ...],
        setting("Accepted audiences of its tokens. Default: the URLs of this server's endpoints.", form="NAME"),
    ] = ()
    jwks_url: Annotated[str, setting("The URL of its public keys (JWKS). Default: found by discovery.", form="URL")] = (
        ""
    )
    introspection: Annotated[
        IntrospectionSettings | None, setting("Introspection of its opaque tokens (RFC 7662).", form="[section]")
    ] = None
    tenant_claim: Annotated[
        str, setting("With tenants: the claim that names the tenant; a.b for the claim b in the claim a.", min_length=1)
    ] = "tenant"
    user_claim: Annotated[str, setting("With tenants: the claim that names the user, such as email.", min_length=1)] = (
        "sub"
    )
    scope_claims: Annotated[Claims, setting("The claims with scopes, such as roles.", form="CLAIM")] = ("scope", "scp")

    def __post_init__(self) -> None:
        _check_url(self.issuer, "issuer")
        if self.jwks_url:
            _check_url(self.jwks_url, "jwks_url", allows_query=True)
        if self.introspection is not None and self.introspection.endpoint:
            _check_url(self.introspection.endpoint, "introspection.endpoint", allows_query=True)


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The OpenID Connect provider at which people log in to this authorization server: `[oauth.provider]`."""

    issuer: Annotated[str, setting("Its issuer URL; everything else is found by discovery.", form="URL")]
    client_id: Annotated[str, setting("The client id of this server at the provider.", min_length=1)]
    client_secret: Annotated[
        SecretSource | None, setting("Its secret: env, file, keyring or command. Default: none.", form="SOURCE")
    ] = None
    scopes: Annotated[Scopes, setting("The scopes requested of the provider.", form="SCOPE")] = ("openid", "profile")
    tenant_claim: Annotated[
        str, setting("With tenants: the claim that names the tenant; a.b for the claim b in the claim a.", min_length=1)
    ] = "tenant"
    user_claim: Annotated[str, setting("The claim that names the user, such as email.", min_length=1)] = "sub"
    scope_claims: Annotated[
        Claims, setting("Claims whose values `scope_map` maps, such as groups or roles.", form="CLAIM")
    ] = ()
    scope_map: Annotated[
        dict[str, Scopes],
        setting('The scopes that a value of these claims permits: `admins = ["hub:admin"]`.', form="[section]"),
    ] = {}
    max_login_s: Annotated[
        float,
        setting(
            "Seconds after which people must log in again. Used if the provider issues no refresh token, because the "
            "server cannot then check whether they still have access.",
            gt=0,
        ),
    ] = 86_400

    def __post_init__(self) -> None:
        _check_url(self.issuer, "issuer")


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One client that the operator registered at this authorization server: a table of `[[oauth.clients]]`."""

    client_id: Annotated[
        str, setting("The client id that the client is configured with; not an https URL.", min_length=1)
    ]
    name: Annotated[str, setting("The name on the consent page.", min_length=1)]
    redirect_uris: Annotated[
        tuple[str, ...],
        setting("Registered redirect URIs; on a loopback address, any port matches.", form="URL", min_length=1),
    ]
    client_secret: Annotated[
        SecretSource | None,
        setting("Its secret: env, file, keyring or command. Default: none (a public client).", form="SOURCE"),
    ] = None


class OAuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The section `[oauth]`."""

    public_url: Annotated[
        str, setting("The URL at which clients reach this server; the URLs of its endpoints begin with it.", form="URL")
    ] = ""
    scopes: Annotated[
        Scopes, setting("The scopes that clients can request, as listed in the metadata.", form="SCOPE")
    ] = ()
    required_scopes: Annotated[Scopes, setting("Scopes that every token needs.", form="SCOPE")] = ()
    step_up_scopes: Annotated[
        Scopes,
        setting(
            "Scopes that a client can request when it needs them: tools that lack only these are listed, and calling "
            "one answers 403 with the missing scopes.",
            form="SCOPE",
        ),
    ] = ()
    dpop: Annotated[
        Literal["accept", "require", "off"],
        setting("Whether tokens may, must or cannot be bound to a key of the client (RFC 9449)."),
    ] = "accept"
    issuers: Annotated[
        tuple[IssuerSettings, ...], setting("The authorization servers whose tokens are accepted.", form="[[table]]")
    ] = ()
    front_door: Annotated[
        bool,
        setting(
            "Whether this server is an OAuth authorization server, at which MCP clients log in. "
            "With `[oauth.provider]` it always is."
        ),
    ] = False
    provider: Annotated[
        ProviderSettings | None, setting("The OpenID Connect provider at which people log in.", form="[section]")
    ] = None
    allow_unidentified_logins: Annotated[
        bool,
        setting(
            "Whether users whom this hub cannot identify in a browser, because other authorization servers issue their "
            "tokens, may log in at servers with `per_user`. An attacker can then have another person log in for them."
        ),
    ] = False
    clients: Annotated[
        tuple[ClientSettings, ...],
        setting("Clients that are registered here instead of dynamically.", form="[[table]]"),
    ] = ()
    database: Annotated[
        str | None,
        setting(
            "The database of codes, tokens, registrations and upstream logins. Default: files in the data folder.",
            form="sqlite:///…|postgresql://…",
        ),
    ] = None

    @property
    def has_front_door(self) -> bool:
        """Whether this server is an authorization server itself."""
        return self.front_door or self.provider is not None

    @property
    def accepts_tokens(self) -> bool:
        """Whether any access token is accepted because of this section."""
        return bool(self.issuers) or self.has_front_door

    def __post_init__(self) -> None:
        if self.public_url:
            _check_url(self.public_url, "public_url")
        elif self.accepts_tokens:
            raise ValueError(
                "public_url must be set to the URL at which clients reach this server: "
                "metadata and the audience of tokens contain it"
            )
        if self.clients and not self.has_front_door:
            raise ValueError("clients needs an authorization server: set front_door = true, or add [oauth.provider]")
        client_ids = [client.client_id for client in self.clients]
        for client_id in client_ids:
            if client_ids.count(client_id) > 1:
                raise ValueError(f"clients: the client_id {client_id!r} occurs twice; keep one of these tables")
        if _OFFLINE_ACCESS in self.scopes:
            raise ValueError(
                f"scopes must not contain {_OFFLINE_ACCESS!r}: remove it; "
                "clients request it from the authorization server"
            )
        issuers = [one.issuer for one in self.issuers]
        if len(set(issuers)) != len(issuers):
            raise ValueError("the same issuer occurs twice in issuers; keep one, and list its audiences in `audience`")


def read_oauth(sources: Sources) -> OAuthSettings | None:
    """Read the section; None if there is none.

    Raises: SettingsError, which says where the mistake is.
    """
    if not has_section(sources, (OAUTH,)):
        return None
    return read_settings(OAuthSettings, sources, (OAUTH,))


def _check_url(url: str, name: str, *, allows_query: bool = False) -> None:
    """Raises: ValueError, unless it is an https URL, or an http URL of this machine, without user and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        is_valid = bool(host) and parts.username is None and not parts.fragment and url.isprintable()
        is_valid = is_valid and (allows_query or not parts.query) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_valid, host, parts = False, "", urlsplit("")
    if not is_valid or not (parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK_HOSTS)):
        # The URL is not shown: it may contain a password.
        parts_refused = "user and fragment" if allows_query else "user, query and fragment"
        raise ValueError(f"{name} must be an https URL, or an http URL of this machine, without {parts_refused}")
