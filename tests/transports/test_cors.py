import asyncio
import subprocess
import sys

import pytest

from hubbub import bounds
from hubbub.transports.cors import EXPOSED, HEADERS, Cors

PAGE = b"http://localhost:5173"


async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 403, "headers": [(b"mcp-session-id", b"1")]})
    await send({"type": "http.response.body", "body": b"from the app"})


def send(*headers, method="POST", origins=()):
    sent = []

    async def keep(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": method, "path": "/mcp", "headers": list(headers)}
    asyncio.run(Cors(app, origins)(scope, receive, keep))
    start, body = sent
    found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return start["status"], found, body["body"]


def preflight(origin=PAGE, method=b"POST", requested=None, origins=(), extra=()):
    headers = [(b"origin", origin), (b"access-control-request-method", method), *extra]
    if requested is not None:
        headers.append((b"access-control-request-headers", requested.encode()))
    return send(*headers, method="OPTIONS", origins=origins)


def listed(text):
    return {name.strip().lower() for name in text.split(",")}


def test_a_request_without_an_origin_goes_straight_through():
    assert send((b"host", b"localhost")) == (403, {"mcp-session-id": "1"}, b"from the app")


def test_a_page_of_this_machine_may_read_even_a_refusal():
    status, headers, body = send((b"origin", PAGE))
    assert (status, body) == (403, b"from the app")
    assert headers["access-control-allow-origin"] == PAGE.decode()
    assert headers["access-control-allow-credentials"] == "true"
    assert headers["vary"] == "Origin"
    assert listed(headers["access-control-expose-headers"]) == listed(",".join(EXPOSED))


@pytest.mark.parametrize("origin", [b"https://evil.example", b"null", b"http://localhost.evil.example"])
def test_a_page_of_a_stranger_may_read_nothing(origin):
    _, headers, _ = send((b"origin", origin))
    assert "access-control-allow-origin" not in headers
    status, headers, _ = preflight(origin)
    assert status == 400
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("method", [b"GET", b"POST", b"DELETE", b"OPTIONS"])
def test_a_preflight_allows_the_methods_of_the_contract_and_delete(method):
    status, headers, _ = preflight(method=method)
    assert status == 200
    assert headers["access-control-allow-origin"] == PAGE.decode()
    assert method.decode() in headers["access-control-allow-methods"]


def test_a_preflight_allows_no_other_method():
    assert preflight(method=b"PUT")[0] == 400


def test_a_preflight_allows_all_headers_that_mcp_needs():
    status, headers, _ = preflight(requested=", ".join(HEADERS).lower())
    assert status == 200
    assert listed(", ".join(HEADERS)) <= listed(headers["access-control-allow-headers"])


def test_a_preflight_names_each_parameter_header_that_is_asked_for():
    status, headers, _ = preflight(requested="content-type,mcp-param-region, Mcp-Param-User-Id")
    assert status == 200
    assert {"mcp-param-region", "mcp-param-user-id"} <= listed(headers["access-control-allow-headers"])
    _, plain, _ = preflight(requested="content-type")
    assert "mcp-param" not in plain["access-control-allow-headers"]


@pytest.mark.parametrize("requested", ["x-evil", "mcp-param-", "mcp-param-a b", "mcp-param-\xfc", "mcp-parameter"])
def test_a_preflight_allows_no_other_header(requested):
    assert preflight(requested=requested)[0] == 400


def test_the_number_of_parameter_headers_is_bounded():
    many = ",".join(f"mcp-param-{number}" for number in range(bounds.REQUESTED_HEADERS))
    assert preflight(requested=many)[0] == 200
    assert preflight(requested=many + ",mcp-param-more")[0] == 400


def test_a_configured_page_may_read_and_reach_a_private_network():
    page = b"https://app.example.com"
    extra = [(b"access-control-request-private-network", b"true")]
    status, headers, _ = preflight(page, origins=["https://app.example.com"], extra=extra)
    assert status == 200
    assert headers["access-control-allow-origin"] == page.decode()
    assert headers["access-control-allow-private-network"] == "true"


@pytest.mark.parametrize("requested", [None, "mcp-param-region"])
def test_every_page_may_read_only_without_credentials(requested):
    status, headers, _ = preflight(b"https://anything.example", origins=["*"], requested=requested)
    assert status == 200
    assert headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in headers
    _, headers, _ = send((b"origin", b"https://anything.example"), origins=["*"])
    assert headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in headers


def test_other_kinds_of_connection_pass():
    seen = []

    async def inner(scope, receive, send):
        seen.append(scope["type"])

    async def main():
        for kind in ("lifespan", "websocket"):
            await Cors(inner)({"type": kind, "headers": [(b"origin", b"null")]}, None, None)

    asyncio.run(main())
    assert seen == ["lifespan", "websocket"]


def test_starlette_is_loaded_only_for_browsers():
    code = """
import asyncio, sys
from hubbub.transports.cors import Cors
async def app(scope, receive, send): pass
async def main():
    await Cors(app)({"type": "http", "method": "POST", "headers": [(b"host", b"x")]}, None, None)
asyncio.run(main())
assert "starlette" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
