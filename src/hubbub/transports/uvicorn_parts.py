"""The parts of uvicorn that our HTTP server uses; no other module imports uvicorn."""

from typing import Any, Final

from uvicorn import Config, Server
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.flow_control import FlowControl, service_unavailable
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

_httptools: Final[Any] = httptools_impl.httptools  # type: ignore[attr-defined]
HttpParserError: Final = _httptools.HttpParserError
HttpParserUpgrade: Final = _httptools.HttpParserUpgrade

__all__ = [
    "Config",
    "FlowControl",
    "HttpParserError",
    "HttpParserUpgrade",
    "HttpToolsProtocol",
    "RequestResponseCycle",
    "Server",
    "WebSocketsSansIOProtocol",
    "service_unavailable",
]
