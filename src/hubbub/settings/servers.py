"""Settings of one server to connect to: a section `[servers.NAME]` of `hubbub.toml`.

Keys are named as in the `mcp.json` of other clients; `${NAME}` in a text is replaced from the
environment when the server is connected, not here. Used by the command line for the server
that it calls, and by the hub for its servers.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.settings.fields import setting
from hubbub.settings.secret import Secret

NonEmptyText: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
NamePrefix: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.-]+$", extra={"expected": "text of letters, digits, `_`, `.` and `-`"})
]
ByteLimit: TypeAlias = Annotated[int, msgspec.Meta(ge=1024)]


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the hub shows one tool of a server: a section `[servers.NAME.tools.TOOL]`."""

    name: Annotated[NonEmptyText | None, setting("The listed name.")] = None
    description: Annotated[str | None, setting("The listed description.")] = None
    hidden: Annotated[bool, setting("Whether the tool is neither listed nor callable.")] = False


class IdentityProviderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The identity provider of a company: a section `[servers.NAME.oauth.identity_provider]`."""

    issuer: Annotated[str, setting("The issuer of the ID token.", form="URL")]
    client_id: Annotated[str, setting("The id of the client that is registered there.", form="ID")]
    client_secret: Annotated[
        Secret | None, setting("Its secret, as `${VARIABLE}` or `${secret:NAME}`.", form="TEXT")
    ] = None
    id_token_file: Annotated[
        str, setting("The ID token of the person, read for each token.", form="FILE", names_file=True)
    ]
    token_endpoint: Annotated[
        str | None, setting("Its token endpoint. Default: from the metadata of the issuer.", form="URL")
    ] = None


class ServerOAuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens for a server are obtained: a section `[servers.NAME.oauth]`, which may be empty."""

    grant: Annotated[
        Literal["authorization_code", "client_credentials", "jwt_bearer", "token_exchange", "enterprise_managed"],
        setting("How tokens are obtained: by `hubbub login`, with a secret, key or assertion, or for another token."),
    ] = "authorization_code"
    issuer: Annotated[
        str | None, setting("The only authorization server to use. Required with a secret or key.", form="URL")
    ] = None
    client_id: Annotated[
        str | None, setting("The id of a client that was registered by hand. Default: dynamic registration.", form="ID")
    ] = None
    client_secret: Annotated[
        Secret | None, setting("Its secret, as `${VARIABLE}` or `${secret:NAME}`.", form="TEXT")
    ] = None
    private_key_file: Annotated[
        str | None,
        setting("A private key (PEM or JWK) that replaces the secret.", form="FILE", names_file=True),
    ] = None
    private_key_algorithm: Annotated[
        str | None, setting("The signature algorithm. Default: the first that fits the key.", form="ES256")
    ] = None
    private_key_id: Annotated[
        str | None, setting("The `kid` under which the authorization server knows its public key.", form="ID")
    ] = None
    assertion_file: Annotated[
        str | None,
        setting("With `jwt_bearer`: the JWT of the workload, read for each token.", form="FILE", names_file=True),
    ] = None
    subject_token_file: Annotated[
        str | None,
        setting("With `token_exchange`: the token to exchange, read for each token.", form="FILE", names_file=True),
    ] = None
    subject_token_type: Annotated[
        Literal["access_token", "id_token", "jwt"], setting("What the token to exchange is.")
    ] = "access_token"
    identity_provider: Annotated[
        IdentityProviderSettings | None,
        setting("With `enterprise_managed`: the company's identity provider.", form="[section]"),
    ] = None
    client_metadata_url: Annotated[
        str | None, setting("A Client ID Metadata Document to use as the client id.", form="URL")
    ] = None
    scope: Annotated[
        str | None, setting("Scopes, separated by spaces. Default: those that the server requires.", form="SCOPES")
    ] = None
    redirect_uri: Annotated[
        str | None, setting("The client's redirect URI. Default: a free port of 127.0.0.1.", form="URI")
    ] = None
    dpop: Annotated[
        Literal["auto", "require", "off"],
        setting("Whether tokens are bound to a key (RFC 9449); `auto`: where that is supported."),
    ] = "auto"
    omit_resource: Annotated[
        bool, setting("Leave out the parameter `resource`, which some authorization servers refuse.")
    ] = False
    prompt: Annotated[str | None, setting("`prompt` of the authorization request; empty: never sent.", form="TEXT")] = (
        None
    )
    assume_pkce: Annotated[
        bool,
        setting("Whether the issuer supports PKCE (S256) although its metadata does not list it, as with Entra ID."),
    ] = False
    per_user: Annotated[
        bool,
        setting("Whether each user of a hub logs in with their own account. Default: all use the login of the hub."),
    ] = False

    @property
    def client_secrets(self) -> dict[str, Secret]:
        """The secrets of the client, at the authorization server and at the identity provider, by their keys."""
        provider = self.identity_provider
        secrets = {
            "client_secret": self.client_secret,
            "identity_provider.client_secret": None if provider is None else provider.client_secret,
        }
        return {key: secret for key, secret in secrets.items() if secret is not None}

    def __post_init__(self) -> None:
        if (self.client_secret or self.private_key_file) and not (self.client_id and self.issuer):
            raise ValueError("a secret or private key needs client_id and issuer, so that it is sent nowhere else")
        if self.grant == "client_credentials" and not (self.client_secret or self.private_key_file):
            raise ValueError("the grant client_credentials needs client_secret or private_key_file")
        if self.grant == "jwt_bearer" and not (self.assertion_file and self.issuer):
            raise ValueError("the grant jwt_bearer needs assertion_file and issuer")
        if self.grant == "token_exchange" and not (self.subject_token_file and self.client_id and self.issuer):
            raise ValueError("the grant token_exchange needs subject_token_file, client_id and issuer")
        if self.grant == "enterprise_managed" and not (self.identity_provider and self.client_id and self.issuer):
            raise ValueError("the grant enterprise_managed needs identity_provider, client_id and issuer")
        if self.per_user and self.grant != "authorization_code":
            raise ValueError("per_user needs the grant authorization_code")


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one server is reached, and how the hub treats it."""

    url: Annotated[str | None, setting("The address of a remote server.", form="URL")] = None
    transport: Annotated[
        Literal["stdio", "http", "sse", "websocket"] | None,
        setting("The transport. Default: derived from the URL or the command."),
    ] = None
    headers: Annotated[dict[str, Secret], setting("HTTP headers of each request.", form="{NAME = TEXT}")] = {}
    command: Annotated[
        str | None, setting("The program to start as a server on stdio.", form="PROGRAM", names_file=True)
    ] = None
    args: Annotated[tuple[str, ...], setting("Arguments of the program.", form="TEXT")] = ()
    env: Annotated[dict[str, Secret], setting("Environment variables of the program.", form="{NAME = TEXT}")] = {}
    pack: Annotated[str | None, setting("An installed pack to serve in the hub's own process.", form="NAME")] = None
    target: Annotated[
        str | None,
        setting("A Python program to serve in the hub's own process.", form="file.py|module:server", names_file=True),
    ] = None
    cwd: Annotated[
        str | None,
        setting(
            "The working folder of the program. Default: that of the hub; for users of tenants, one for each process.",
            form="FOLDER",
            names_file=True,
        ),
    ] = None
    timeout_s: Annotated[float, setting("Seconds to wait for one response.", gt=0)] = bounds.COMMAND_TIMEOUT_S
    protocol_version: Annotated[
        str | None, setting("The protocol version to use. Default: negotiated.", form="YYYY-MM-DD")
    ] = None
    allow_private_network: Annotated[
        bool | None, setting("Whether private addresses are allowed. Default: only if the URL itself names one.")
    ] = None

    max_response_bytes: Annotated[ByteLimit | None, setting("The largest response that is accepted.", form="N")] = None
    enabled: Annotated[bool, setting("Whether the hub serves this server.")] = True
    max_calls: Annotated[int, setting("The largest number of concurrent calls; more wait.", ge=1)] = (
        bounds.UPSTREAM_CALLS
    )
    sessions: Annotated[
        Literal["shared", "own"],
        setting("Whether clients take turns with a session, or each has its own."),
    ] = "shared"
    max_sessions: Annotated[int, setting("The largest number of sessions that the hub keeps open.", ge=1)] = (
        bounds.UPSTREAM_SESSIONS
    )
    prefix: Annotated[
        Literal["collision", "always", "never"],
        setting("When names of tools and prompts are prefixed with the server's name."),
    ] = "collision"
    prefix_text: Annotated[
        NamePrefix | None,
        setting("The prefix to use instead of the server's name.", form="LETTERS"),
    ] = None
    include: Annotated[tuple[str, ...], setting("Patterns of tools and prompts to show.", form="PATTERN")] = ("*",)
    exclude: Annotated[tuple[str, ...], setting("Patterns of tools and prompts to hide.", form="PATTERN")] = ()
    read_only: Annotated[bool, setting("Whether to show only tools annotated as read-only.")] = False
    oauth: Annotated[ServerOAuthSettings | None, setting("OAuth settings for this server.", form="[section]")] = None
    tools: Annotated[dict[str, ToolSettings], setting("Changes to single tools.", form="[section]")] = {}

    def __post_init__(self) -> None:
        if self.oauth is not None and self.url is None:
            raise ValueError("the section oauth needs a server with a url")
        if sum(source is not None for source in (self.url, self.command, self.pack, self.target)) != 1:
            raise ValueError("set exactly one of url, command, pack and target (pack and target only for a hub)")
