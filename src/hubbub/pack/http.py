"""A guarded client for HTTP and WebSocket.

    client = HttpClient(egress_policy("api.example.com"))
    async with asyncio.timeout(10):
        response = await client.send("GET", "https://api.example.com/tides", headers={})
        body = await response.read(limit=100_000)

It connects only to addresses that the policy allows, whatever a name resolves to. It does not follow redirects, uses no
proxies or cookies, and reads bodies up to a limit. Every failure is a `hubbub.TransportError`.
"""

from typing import TYPE_CHECKING, Any

from hubbub.net.backoff import Backoff
from hubbub.net.client import HttpClient
from hubbub.net.egress import ANY_ADDRESS, EgressPolicy, address_kind, egress_policy
from hubbub.net.redirects import describe_redirect
from hubbub.net.response import HttpResponse

if TYPE_CHECKING:
    from hubbub.net.websocket import WebSocket

__all__ = [
    "ANY_ADDRESS",
    "Backoff",
    "EgressPolicy",
    "HttpClient",
    "HttpResponse",
    "WebSocket",
    "address_kind",
    "describe_redirect",
    "egress_policy",
]


def __getattr__(name: str) -> Any:
    if name == "WebSocket":  # imported late: it loads the websockets library
        from hubbub.net.websocket import WebSocket

        return WebSocket
    raise AttributeError(f"module 'hubbub.pack.http' has no attribute {name!r}")
