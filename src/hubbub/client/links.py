"""Makes the link that a config asks for; what a transport needs is loaded only then."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from hubbub.client.config import Provider, ServerConfig, Values, secret_values
from hubbub.errors import HubbubError, TransportError

if TYPE_CHECKING:
    from hubbub.ports import Link


def open_link(config: ServerConfig, *, over_old_pair: bool = False) -> Link:
    """A link that is ready to be started."""
    if config.transport == "stdio":
        from hubbub.transports.stdio_client import StdioLink

        async def variables() -> dict[str, str | None]:
            return await gathered("env", config.env, config.env_provider)

        return StdioLink(
            (str(config.command), *config.args),
            variables,
            folder=config.chdir,
            on_stderr_line=config.on_stderr_line,
        )
    raise TransportError("TRANSPORT_ERROR", f"{config.transport} is not built yet", may_have_executed=False)


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
