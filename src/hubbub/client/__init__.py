"""Clients of MCP servers: `Client` for one, `Fleet` for many. A `ServerConfig` says how to reach a server."""

from hubbub.client.client import Client
from hubbub.client.config import DEFAULT_PROTOCOL_VERSION, SUPPORTED_PROTOCOL_VERSIONS, ServerConfig
from hubbub.client.fleet import Fleet

__all__ = ["DEFAULT_PROTOCOL_VERSION", "SUPPORTED_PROTOCOL_VERSIONS", "Client", "Fleet", "ServerConfig"]
