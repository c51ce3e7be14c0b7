"""Makes the link that a config asks for; what a transport needs is loaded only then."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hubbub import bounds
from hubbub.client.config import Provider, ServerConfig, Values, secret_values
from hubbub.client.known_secrets import KnownSecrets
from hubbub.errors import HubbubError, SettingsError, TransportError
from hubbub.protocol.http_headers import check_outgoing

if TYPE_CHECKING:
    from hubbub.ports import Link


def open_link(config: ServerConfig, *, over_old_pair: bool = False, is_guarded: bool = False) -> Link:
    """A link that is ready to be started; `is_guarded` if what it starts must not outlive this process."""
    secrets = KnownSecrets()
    if config.transport == "stdio":
        from hubbub.transports.stdio_client import StdioLink

        async def variables() -> dict[str, str | None]:
            found = await gathered("env", config.env, config.env_provider)
            secrets.learn(found, only_telling_names=True)
            return found

        return StdioLink(
            (str(config.command), *config.args),
            variables,
            folder=config.chdir,
            on_stderr_line=config.on_stderr_line,
            mask=secrets.mask,
            hide=secrets.hide,
            is_guarded=is_guarded,
        )
    from hubbub.net.door import Door
    from hubbub.net.egress import egress_for

    url = str(config.url)
    egress = egress_for(urlsplit(url).hostname or "", config.allow_private_network)

    def make_door() -> Door:
        return Door(egress, connect_s=config.open_timeout_s or bounds.CONNECT_S, idle_s=config.read_timeout_s)

    headers = _headers(config, secrets)
    limit = config.max_response_bytes or bounds.RESPONSE_BYTES
    if config.transport == "websocket":
        from hubbub.transports.websocket_client import WebSocketLink

        return WebSocketLink(
            make_door(), url, headers, limit=limit, on_diagnostic=config.on_stderr_line, hide=secrets.hide
        )
    if over_old_pair:
        from hubbub.transports.old_pair_client import OldPairLink

        return OldPairLink(
            make_door(),
            url,
            headers,
            limit=limit,
            on_diagnostic=config.on_stderr_line,
            mask=secrets.mask,
            hide=secrets.hide,
        )
    from hubbub.transports.http_client import HttpLink

    return HttpLink(
        make_door,
        url,
        headers,
        limit=limit,
        most_reconnects=config.sse_max_reconnects or bounds.RECONNECTS,
        on_diagnostic=config.on_stderr_line,
        mask=secrets.mask,
        hide=secrets.hide,
    )


def _headers(config: ServerConfig, secrets: KnownSecrets) -> Callable[[], Awaitable[dict[str, str]]]:
    """The headers of each request, before the transport adds its own."""

    async def headers() -> dict[str, str]:
        if config.headers_provider is None and not config.headers:
            return {}
        kept: dict[str, tuple[str, str]] = {}
        for name, value in (await gathered("headers", config.headers, config.headers_provider)).items():
            kept.pop(name.lower(), None)
            if value is not None:
                kept[name.lower()] = name, value
        if config.headers_provider is not None:
            _check_headers(kept.values())
        found = dict(kept.values())
        secrets.learn(found)
        return found

    return headers


def _check_headers(headers: Iterable[tuple[str, str]]) -> None:
    try:
        for name, value in headers:
            check_outgoing(name, value)
    except SettingsError as error:
        raise TransportError("TRANSPORT_ERROR", error.message, may_have_executed=False) from None


async def gathered(name: str, given: Values, provider: Provider | None) -> dict[str, str | None]:
    """Headers or variables in the clear: the fixed ones, and over them what the provider gives now.

    Raises:
        TransportError: the provider failed; what it raised stays hidden, as it may quote a secret.
    """
    values: dict[str, Any] = dict(given)
    if provider is not None:
        try:
            provided = provider()
            if inspect.isawaitable(provided):
                provided = await provided
            values |= secret_values(f"{name}_provider", provided, keep_none=True)
        except HubbubError:
            raise TransportError(
                "TRANSPORT_ERROR", f"`{name}_provider` must give a mapping", may_have_executed=False
            ) from None
        except Exception as error:
            raise TransportError(
                "TRANSPORT_ERROR", f"`{name}_provider` failed ({type(error).__name__})", may_have_executed=False
            ) from None
    return {key: None if value is None else value.reveal() for key, value in values.items()}
