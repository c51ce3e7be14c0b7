"""`hubbub login`: logs in at the authorization server of an MCP server, in the browser."""

from __future__ import annotations

import contextlib
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
from msgspec.structs import replace

from hubbub.cli.client_runner import run
from hubbub.cli.options import config_option, json_option, private_network_option, read_variable
from hubbub.cli.output import write_json, write_lines
from hubbub.cli.stored_logins import (
    auth_settings,
    describe_login,
    format_login,
    hub_options,
    make_oauth_client,
    resolve_remote,
    upstream_key_option,
)
from hubbub.cli.terminal import ask, is_interactive, note
from hubbub.errors import SettingsError
from hubbub.oauth.errors import OAuthError, TokenRequestRefused
from hubbub.protocol.host_origin import http_url
from hubbub.settings import Secret

if TYPE_CHECKING:
    from hubbub.client.config import ServerConfig
    from hubbub.oauth.client.browser_login import BrowserLogin
    from hubbub.oauth.client.credential_store import FileCredentialStore
    from hubbub.oauth.client.credentials import Credentials
    from hubbub.oauth.client.oauth_client import OAuthClient
    from hubbub.oauth.client.settings import OAuth
    from hubbub.oauth.documents import DocumentResponse

_HELP: Final = """Log in at an MCP server that is protected by OAuth.

TARGET is the URL of the server, or the name of [servers.NAME] in hubbub.toml. The authorization
server is found through the MCP server. Its page opens in the browser, and its URL is printed;
if the browser is on another machine, paste the address of its last page into this terminal.

\b
hubbub login https://example.com/mcp
hubbub login https://example.com/mcp --scope "files:read files:write"
hubbub login https://example.com/mcp --issuer https://login.example.com \\
    --client-id 4711 --client-secret-env SECRET
hubbub login https://hub.example.com/mcp --upstream github --key-env HUB_KEY

`hubbub tools`, `call`, `read`, `prompts` and `agent` then use this login for that URL, and refresh
it. The tokens are stored encrypted, with their key in the system's keyring if there is one;
HUBBUB_CREDENTIALS=keyring or file chooses. A hub uses the login for servers with
`[servers.NAME.oauth]`.

With --upstream, you log in at a server behind a hub at which users have accounts of their own. The hub
keeps the tokens, and sends them with your calls only.

Exits with 1 if a hub refuses or the login there fails, 2 for wrong usage, 3 if a server cannot be
reached, asks for no login or refuses it, 4 if its answer is an error or invalid.
"""
_CLIENT_NAME: Final = "Hubbub command line"
"""Shown on consent pages; "Hubbub" alone could be the server that asks."""
_DIGEST_CHARACTERS: Final = 12
_UNAUTHORIZED: Final = 401
_PING: Final = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@click.command(help=_HELP, short_help="Log in at a server that is protected by OAuth.", options_metavar="[OPTION]…")
@click.argument("target", metavar="TARGET")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    help="A scope to request; repeatable. Default: those that the server requires.",
)
@click.option("--client-id", metavar="ID", help="A client that was registered at the authorization server by hand.")
@click.option(
    "--client-secret-env",
    "secret_variable",
    metavar="VARIABLE",
    help="The environment variable with its secret. Needs --issuer.",
)
@click.option("--client-metadata-url", metavar="URL", help="A Client ID Metadata Document to use as the client id.")
@click.option(
    "--redirect-uri", metavar="URI", help="The redirect URI of the client. Default: a free port of 127.0.0.1."
)
@click.option("--issuer", metavar="URL", help="The only authorization server that may be used.")
@click.option("--upstream", metavar="NAME", help="Log in at this server behind the hub TARGET, as its user.")
@upstream_key_option
@click.option("--no-browser", is_flag=True, help="Only print the URL.")
@config_option
@private_network_option
@json_option
def command(
    target: str,
    *,
    scopes: tuple[str, ...],
    secret_variable: str | None,
    upstream: str | None,
    key_variable: str | None,
    no_browser: bool,
    config: str | None,
    allow_private_network: bool,
    as_json: bool,
    **given: str | None,
) -> int:
    """Log in, store the credentials and describe them."""
    options = hub_options(upstream, key_variable, config=config, allow_private_network=allow_private_network)
    server = resolve_remote(target, options)
    if upstream is not None:
        _refuse_login_flags({"--scope": scopes, "--client-secret-env": secret_variable, **given})
        from hubbub.cli.upstream_login import log_in_upstream

        return run(log_in_upstream(server, upstream, opens_browser=not no_browser, as_json=as_json))
    changes: dict[str, Any] = {"scope": " ".join(scopes) or None, **given}
    if secret_variable is not None:
        changes["client_secret"] = Secret(read_variable(secret_variable, "--client-secret-env"))
    settings = _apply_flags(target, auth_settings(server), changes)
    if settings.client_secret is not None and settings.issuer is None:
        raise SettingsError(
            "--client-secret-env needs --issuer, the URL of the authorization server that issued the secret: otherwise "
            "the secret would go to whichever authorization server the MCP server names"
        )
    from hubbub.oauth.client.browser_login import BrowserLogin  # late: `hubbub --help` loads this module
    from hubbub.oauth.client.credential_store import FileCredentialStore

    handler = BrowserLogin(
        note,
        redirect_uri=_choose_redirect_uri(server, settings),
        opens_browser=not no_browser,
        read_line=_read_line if is_interactive() else None,
    )
    store = FileCredentialStore()
    settings = replace(settings, store=store, redirect_handler=handler, client_name=_CLIENT_NAME)
    return run(_log_in(server, settings, store, handler, has_secret=secret_variable is not None, as_json=as_json))


def _refuse_login_flags(given: dict[str, Any]) -> None:
    """Raises: SettingsError, for flags that do not apply to a login at a server behind a hub."""
    named = [name if name.startswith("--") else f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if named:
        raise SettingsError(f"{named[0]} cannot be used with --upstream: the settings of the hub say how to log in")


def _apply_flags(target: str, settings: OAuth, changes: dict[str, Any]) -> OAuth:
    if settings.grant != "authorization_code":
        raise SettingsError(
            f"{target!r} uses the grant {settings.grant}, which gets its tokens without a login; run the command that "
            f"you need, such as `hubbub tools {target}`"
        )
    return replace(settings, **{name: value for name, value in changes.items() if value is not None})


def _choose_redirect_uri(server: ServerConfig, settings: OAuth) -> str | None:
    """Return the redirect URI; None: the default one, with which clients are registered by hand.

    Clients that are registered now have one for each server (RFC 9700, 4.4.2.2). Otherwise a malicious server could
    send the browser to the authorization server of another one, and obtain its code.
    """
    if settings.redirect_uri is not None or settings.client_id is not None or settings.client_metadata_url is not None:
        return settings.redirect_uri
    from hubbub.oauth.client.discovery import canonical_url
    from hubbub.oauth.client.settings import DEFAULT_REDIRECT_URI

    digest = sha256(canonical_url(http_url(str(server.url))).encode()).hexdigest()
    return f"{DEFAULT_REDIRECT_URI}/{digest[:_DIGEST_CHARACTERS]}"


async def _read_line() -> str | None:
    return await ask("")


async def _log_in(
    server: ServerConfig,
    settings: OAuth,
    store: FileCredentialStore,
    handler: BrowserLogin,
    *,
    has_secret: bool,
    as_json: bool,
) -> int:
    client = make_oauth_client(server, settings)
    await store.check()  # a wrong HUBBUB_CREDENTIALS should not be found after the person has logged in
    answer = await _send_without_token(server, client)
    await _check_asks_for_login(client, answer)
    credentials = await _replace_login(client, store, handler, answer.www_authenticate)
    key = client.key(credentials.issuer)
    if has_secret and isinstance(settings.client_secret, Secret):
        # Without it, other commands could not refresh the tokens.
        registration = replace(credentials.registration, client_secret=settings.client_secret.reveal())
        credentials = replace(credentials, registration=registration)
        await store.save(key, credentials)
    login = describe_login(key, credentials, await store.kind())
    if as_json:
        write_json(msgspec.to_builtins(login))
    else:
        write_lines(["Logged in.", *format_login(login)])
    return 0


async def _replace_login(
    client: OAuthClient, store: FileCredentialStore, handler: BrowserLogin, challenge: str
) -> Credentials:
    """Log in with the client that is registered already, and store the credentials; then revoke the previous ones.

    Raises: OAuthError, SettingsError.
    """
    from hubbub.oauth.client.authorizer import OAuthAuthorizer

    before = {key: await store.load(key) for key in await store.list(resource=client.resource, principal="")}
    handler.registered_uris = [uri for each in before.values() if each for uri in each.registration.redirect_uris]
    credentials = await OAuthAuthorizer(client).log_in(challenge)
    replaced = before.get(client.key(credentials.issuer))
    if replaced is None or replaced.revocation_endpoint is None:
        return credentials
    has_same_client = replaced.registration.client_id == credentials.registration.client_id
    if has_same_client and credentials.refresh_token is None:
        return credentials  # without a refresh, nothing shows whether the new tokens are revoked too
    with contextlib.suppress(OAuthError):
        await client.revoke(replaced)
    if not has_same_client:
        return credentials
    # Some authorization servers then revoke all tokens of this client and user, including the new ones.
    key = client.key(credentials.issuer)
    try:
        async with store.lock(key):
            credentials = await client.refresh(credentials)
            await store.save(key, credentials)
    except TokenRequestRefused:
        note("The authorization server revoked the new login together with the previous one: log in again.")
        return await OAuthAuthorizer(client).log_in(challenge)
    except OAuthError:
        return credentials
    return credentials


async def _send_without_token(server: ServerConfig, client: OAuthClient) -> DocumentResponse:
    """Send a request without a token; its refusal may name the metadata and scopes of the server."""
    from hubbub.oauth.documents import DocumentClient, egress_for_issuer_urls

    documents = DocumentClient(egress_for_issuer_urls(client.server_url, server.allow_private_network), client.rules)
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    return await documents.send("POST", client.server_url, headers=headers, body=_PING)


async def _check_asks_for_login(client: OAuthClient, answer: DocumentResponse) -> None:
    """Raises: OAuthError, if a server neither refuses requests without a token nor has an authorization server."""
    from hubbub.oauth.client.challenges import select_challenge
    from hubbub.oauth.metadata import show_url

    if answer.status == _UNAUTHORIZED or client.settings.issuer is not None:
        return
    discovered = await client.discover(select_challenge(answer.www_authenticate))
    if discovered.is_guessed:
        shown = show_url(client.server_url)
        raise OAuthError(
            f"{shown} did not ask for a login: it answered a request without a token with status {answer.status}, and "
            "names no authorization server; use it without a login, check the path of the URL, or give --issuer"
        )
