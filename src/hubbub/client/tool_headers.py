"""The headers that calls of a server's tools repeat (`x-mcp-header`), learnt from its lists."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from hubbub.errors import DefinitionError, InvalidParams, RemoteError
from hubbub.protocol.headers import encode_value, header_parameters, parameter_at
from hubbub.protocol.wire import ToolEntry

_HEADER_MISMATCH = -32020
Send = Callable[[Mapping[str, str]], Awaitable[Raw]]

logger = logging.getLogger("hubbub.client")


class ToolHeaders:
    """Which parameters of which tool travel in headers."""

    def __init__(self) -> None:
        self._parameters: dict[str, dict[str, tuple[str, ...]]] = {}

    def learn(self, tools: list[ToolEntry]) -> list[ToolEntry]:
        """Read the annotations; return the tools that can be called, and warn of the others."""
        lawful = []
        for tool in tools:
            try:
                schema = tool.input_schema
                self._parameters[tool.name] = header_parameters(schema) if isinstance(schema, Mapping) else {}
            except DefinitionError as error:
                self._parameters.pop(tool.name, None)
                logger.warning("the tool %r was left out of a server's list: %s", tool.name[:128], error.message)
                continue
            lawful.append(tool)
        return lawful

    async def send(
        self, base: Mapping[str, str], params: Mapping[str, Any], send: Send, learn_anew: Callable[[], Awaitable[None]]
    ) -> Raw:
        """Send a call with its headers, as far as they are known; if that is refused, as they are known then."""
        try:
            return await send({**base, **self.of(params)})
        except RemoteError as error:
            if error.code != _HEADER_MISMATCH:
                raise
        # Refused before anything was done: what we know of the tool is missing or out of date.
        await learn_anew()
        return await send({**base, **self.of(params)})

    def of(self, params: Mapping[str, Any]) -> dict[str, str]:
        """The headers of one call.

        Raises:
            InvalidParams: an argument has no header form.
        """
        parameters = self._parameters.get(params["name"])
        if not parameters:
            return {}
        arguments = params.get("arguments")
        if isinstance(arguments, Raw):
            arguments = msgspec.json.decode(arguments)
        headers = {}
        for header, path in parameters.items():
            value = parameter_at(arguments, path)
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, str | int):
                headers[header] = encode_value(value)
            elif value is not None:
                raise InvalidParams(f"The argument {'.'.join(path)} must be text, a whole number, or yes or no")
        return headers
