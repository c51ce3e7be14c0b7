import asyncio
import re
from collections.abc import MutableMapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.middleware.cors import CORSMiddleware

from hubbub import bounds
from hubbub.ports import HttpExchange
from hubbub.protocol.host_origin import AllowedOrigins
from hubbub.transports.asgi import AsgiExchange
from hubbub.transports.cors import ALLOWED_HEADERS, ALLOWED_METHODS, EXPOSED_HEADERS, Cors

PAGE = b"http://localhost:5173"
PARAMETER = re.compile("mcp-param-[a-z]+", re.IGNORECASE)


async def endpoint(exchange: HttpExchange) -> None:
    await exchange.respond(403, b"from the app", [(b"mcp-session-id", b"1")], content_type=b"text/plain")


async def app(scope: Any, receive: Any, send: Any) -> None:
    await endpoint(AsgiExchange(scope, receive, send, limit=1000))


def send(
    *headers: tuple[bytes, bytes], method: str = "POST", origins: Sequence[str] = (), cors: Any = None
) -> tuple[int, dict[str, str], bytes]:
    sent = []

    async def collect(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": method, "path": "/mcp", "headers": list(headers)}

    async def serve() -> None:
        if cors is None:
            await Cors(endpoint, origins).serve(AsgiExchange(scope, receive, collect, limit=1000))
        else:
            await cors(scope, receive, collect)

    asyncio.run(serve())
    start, body = sent
    found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return start["status"], found, body["body"]


def preflight(
    origin: bytes = PAGE,
    method: bytes = b"POST",
    requested: str | None = None,
    origins: Sequence[str] = (),
    extra: Sequence[tuple[bytes, bytes]] = (),
) -> tuple[int, dict[str, str], bytes]:
    headers = [(b"origin", origin), (b"access-control-request-method", method), *extra]
    if requested is not None:
        headers.append((b"access-control-request-headers", requested.encode()))
    return send(*headers, method="OPTIONS", origins=origins)


def parse_list(text: str) -> set[str]:
    return {name.strip().lower() for name in text.split(",")}


def test_a_request_without_an_origin_is_unchanged() -> None:
    status, headers, body = send((b"host", b"localhost"))
    assert (status, body) == (403, b"from the app")
    assert headers == {"mcp-session-id": "1", "content-length": "12", "content-type": "text/plain"}


def test_a_loopback_origin_may_read_errors() -> None:
    status, headers, body = send((b"origin", PAGE))
    assert (status, body) == (403, b"from the app")
    assert headers["access-control-allow-origin"] == PAGE.decode()
    assert headers["access-control-allow-credentials"] == "true"
    assert headers["vary"] == "Origin"
    assert parse_list(headers["access-control-expose-headers"]) == parse_list(",".join(EXPOSED_HEADERS))


@pytest.mark.parametrize("origin", [b"https://evil.example", b"null", b"http://localhost.evil.example"])
def test_a_foreign_origin_may_read_nothing(origin: bytes) -> None:
    _, headers, _ = send((b"origin", origin))
    assert "access-control-allow-origin" not in headers
    status, headers, _ = preflight(origin)
    assert status == 400
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("method", [b"GET", b"POST", b"DELETE", b"OPTIONS"])
def test_a_preflight_allows_the_methods_of_the_contract_and_delete(method: bytes) -> None:
    status, headers, _ = preflight(method=method)
    assert status == 200
    assert headers["access-control-allow-origin"] == PAGE.decode()
    assert method.decode() in headers["access-control-allow-methods"]


def test_a_preflight_allows_no_other_method() -> None:
    assert preflight(method=b"PUT")[0] == 400


def test_a_preflight_allows_all_headers_that_mcp_needs() -> None:
    status, headers, _ = preflight(requested=", ".join(ALLOWED_HEADERS).lower())
    assert status == 200
    assert parse_list(", ".join(ALLOWED_HEADERS)) <= parse_list(headers["access-control-allow-headers"])


def test_a_preflight_allows_each_requested_parameter_header() -> None:
    status, headers, _ = preflight(requested="content-type,mcp-param-region, Mcp-Param-User-Id")
    assert status == 200
    assert {"mcp-param-region", "mcp-param-user-id"} <= parse_list(headers["access-control-allow-headers"])
    _, plain, _ = preflight(requested="content-type")
    assert "mcp-param" not in plain["access-control-allow-headers"]


@pytest.mark.parametrize("requested", ["x-evil", "mcp-param-", "mcp-param-a b", "mcp-param-\xfc", "mcp-parameter"])
def test_a_preflight_allows_no_other_header(requested: str) -> None:
    assert preflight(requested=requested)[0] == 400


def test_the_number_of_parameter_headers_is_bounded() -> None:
    many = ",".join(f"mcp-param-{number}" for number in range(bounds.REQUESTED_HEADERS))
    assert preflight(requested=many)[0] == 200
    assert preflight(requested=many + ",mcp-param-more")[0] == 400


def test_a_configured_origin_may_read_and_reach_a_private_network() -> None:
    page = b"https://app.example.com"
    extra = [(b"access-control-request-private-network", b"true")]
    status, headers, _ = preflight(page, origins=["https://app.example.com"], extra=extra)
    assert status == 200
    assert headers["access-control-allow-origin"] == page.decode()
    assert headers["access-control-allow-private-network"] == "true"


@pytest.mark.parametrize("requested", [None, "mcp-param-region"])
def test_a_star_origin_may_read_only_without_credentials(requested: str | None) -> None:
    status, headers, _ = preflight(b"https://anything.example", origins=["*"], requested=requested)
    assert status == 200
    assert headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in headers
    _, headers, _ = send((b"origin", b"https://anything.example"), origins=["*"])
    assert headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in headers


# -- Starlette's middleware as a judge -----------------------------------------------------

NAMES = [*ALLOWED_HEADERS, "accept", "x-evil", "", "Mcp-Param-Region", "mcp-param-a b"]
ORIGINS = [PAGE, b"https://app.example.com", b"https://evil.example", b"null", b"http://[::1]:80"]


def starlette_response(
    headers: list[tuple[bytes, bytes]], method: str, configured: Sequence[str]
) -> tuple[int, dict[str, str], bytes]:
    """Return the response of Starlette's CORS middleware with the same origins and headers, for comparison."""
    requested = dict(headers).get(b"access-control-request-headers", b"").decode().split(",")
    parameters = [name.strip() for name in requested if PARAMETER.fullmatch(name.strip())]
    origin = dict(headers)[b"origin"]
    is_allowed = AllowedOrigins(configured).allow(origin)
    origins = ["*"] if "*" in configured and is_allowed else [origin.decode()] if is_allowed else []
    middleware = CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=ALLOWED_METHODS,
        allow_headers=(*ALLOWED_HEADERS, *parameters),
        allow_credentials=is_allowed and "*" not in configured,
        allow_private_network=True,
        expose_headers=EXPOSED_HEADERS,
    )
    return send(*headers, method=method, cors=middleware)


@given(
    origin=st.sampled_from(ORIGINS),
    method=st.sampled_from(["OPTIONS", "POST", "GET"]),
    configured=st.sampled_from([(), ("https://app.example.com",), ("*",)]),
    requested_headers=st.fixed_dictionaries(
        {},
        optional={
            b"access-control-request-method": st.sampled_from([b"POST", b"DELETE", b"PUT", b"post", b""]),
            b"access-control-request-headers": st.lists(st.sampled_from(NAMES), max_size=4).map(
                lambda names: ", ".join(names).encode()
            ),
            b"access-control-request-private-network": st.just(b"true"),
        },
    ),
)
def test_responses_equal_those_of_the_starlette_middleware(
    origin: bytes, method: str, configured: tuple[str, ...], requested_headers: dict[bytes, bytes]
) -> None:
    headers = [(b"origin", origin), *requested_headers.items()]
    assert send(*headers, method=method, origins=configured) == starlette_response(headers, method, configured)
