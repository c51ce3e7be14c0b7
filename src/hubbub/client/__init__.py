"""Reaches servers: one with `Client`, many with `Fleet`. What to reach is a `ServerConfig`."""

from hubbub.client.client import Client
from hubbub.client.config import DEFAULT_PROTOCOL_VERSION, SUPPORTED_PROTOCOL_VERSIONS, ServerConfig
from hubbub.client.fleet import Fleet

__all__ = ["DEFAULT_PROTOCOL_VERSION", "SUPPORTED_PROTOCOL_VERSIONS", "Client", "Fleet", "ServerConfig"]
