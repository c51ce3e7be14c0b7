"""HTTP checks, end to end: hosts and origins, keys and tokens, rate limits, versions, bind addresses."""

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey
from tests.http.eras import initialize_request, open_session
from tests.http.in_process_server import run_server
from tests.http.raw_http import JSON, TIMEOUT_S, Site, call, head, request
from tests.http.server_process import HUBBUB, PLAYGROUND, ServerProcess
from websockets.asyncio.client import connect

PING = request("ping")
ROUTES = ["/", "/health", "/mcp", "/mcp/health", "/metrics", "/sse", "/messages", "/mcp-ws", "/none", "/%00", "/mcp/"]


# -- hosts and origins -------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:3000", "", "a b"])
@pytest.mark.parametrize("path", ["/", "/health", "/mcp", "/metrics", "/sse"])
async def test_a_foreign_host_header_is_refused_on_every_route(demo: Site, host: str, path: str) -> None:
    answer = await demo.get(path, {"Host": host})
    assert answer.status == 403
    assert answer.json["error"]["code"] == -32600


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:1", "[::1]:80", "127.0.0.1:3000"])
async def test_loopback_host_headers_are_accepted(demo: Site, host: str) -> None:
    assert (await demo.get("/health", {"Host": host})).status == 200


async def test_a_request_without_a_host_header_is_refused(demo: Site) -> None:
    async with demo.connect() as link:
        await link.send(b"GET /health HTTP/1.1\r\n\r\n")
        assert (await link.read_response()).status == 400
    async with demo.connect() as link:
        await link.send(b"GET /health HTTP/1.0\r\n\r\n")
        assert (await link.read_response()).status == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example", "file://", "x"])
async def test_pages_of_foreign_origins_are_refused_without_cors_headers(demo: Site, origin: str) -> None:
    for method, path in (("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/health"), ("GET", "/sse")):
        answer = await demo.request(method, path, JSON | {"Origin": origin}, PING if method == "POST" else b"")
        assert answer.status == 403
        assert answer.header("access-control-allow-origin") is None


@pytest.mark.parametrize("origin", ["http://localhost:5173", "http://127.0.0.1", "https://localhost"])
async def test_pages_of_loopback_origins_may_call_and_read(demo: Site, origin: str) -> None:
    answer = await demo.post(initialize_request(), {"Origin": origin})
    assert answer.status == 200
    assert answer.header("access-control-allow-origin") == origin
    assert answer.header("access-control-allow-credentials") == "true"
    exposed = str(answer.header("access-control-expose-headers")).lower()
    assert {"mcp-session-id", "x-mcp-version", "retry-after"} <= {name.strip() for name in exposed.split(",")}
    refused = await demo.post(PING, {"Origin": origin, "Mcp-Session-Id": "none"})
    assert (refused.status, refused.header("access-control-allow-origin")) == (404, origin)


def preflight(origin: str, headers: str = "content-type") -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": headers,
    }


async def test_a_preflight_request_gets_the_documented_headers(demo: Site) -> None:
    wanted = "content-type,x-api-key,authorization,mcp-session-id,mcp-protocol-version,mcp-method,last-event-id"
    answer = await demo.request("OPTIONS", "/mcp", preflight("http://localhost:5173", wanted))
    assert answer.status == 200
    methods = {name.strip() for name in str(answer.header("access-control-allow-methods")).split(",")}
    assert methods == {"GET", "POST", "OPTIONS", "DELETE"}
    allowed = {name.strip().lower() for name in str(answer.header("access-control-allow-headers")).split(",")}
    assert set(wanted.split(",")) <= allowed
    assert (await demo.request("OPTIONS", "/mcp", preflight("https://evil.example"))).status in (400, 403)


async def test_origins_can_be_allowed_by_name() -> None:
    allowed = ("--allowed-origin", "https://app.example", "--allowed-host", "hub.example")
    with ServerProcess("--pack", "demo", *allowed) as own:
        answer = await own.site.post(PING, {"Host": "hub.example", "Origin": "https://app.example"})
        assert (answer.status, answer.header("access-control-allow-origin")) == (200, "https://app.example")
        assert (await own.site.post(PING, {"Origin": "https://app.example:444"})).status == 403
        assert (await own.site.post(PING, {"Host": "www.hub.example"})).status == 403


@pytest.mark.parametrize(
    "name", ["Host", "Origin", "Authorization", "X-API-Key", "Content-Type", "Mcp-Session-Id", "MCP-Protocol-Version"]
)
async def test_duplicates_of_headers_with_one_value_are_refused(demo: Site, name: str) -> None:
    fields = [("Host", "127.0.0.1"), ("Content-Type", "application/json"), ("Content-Length", "0")]
    async with demo.connect() as link:
        values = {"Host": "localhost", "Origin": "http://localhost", "Content-Type": "application/json"}
        twice = [(name, values.get(name, "x"))] * 2
        await link.send(head("POST", "/mcp", [pair for pair in fields if pair[0] != name] + twice))
        assert (await link.read_response()).status == 400


# -- versions ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "PUT", "HEAD", "PATCH"])
async def test_every_response_has_the_version_header(demo: Site, method: str, path: str) -> None:
    headers = {"Content-Length": "0", "Accept": "application/json"}
    async with demo.connect() as link:
        await link.send_request(method, path, headers)
        _, received = await link.read_head()
    assert [value for name, value in received if name == "x-mcp-version"] == ["1.0.0"]


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"nonsense\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://localhost\r\n\r\n",
        b"OPTIONS /mcp HTTP/1.1\r\nHost: x\r\nOrigin: http://localhost\r\nAccess-Control-Request-Method: POST\r\n\r\n",
        b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /sse HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: evil\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
    ids=["no HTTP", "page", "preflight", "stream", "old stream", "wrong host", "large head"],
)
async def test_unusual_responses_have_the_version_header_too(demo: Site, bytes_sent: bytes) -> None:
    async with demo.connect() as link:
        await link.send(bytes_sent)
        _, received = await link.read_head()
    assert [value for name, value in received if name == "x-mcp-version"] == ["1.0.0"]


@pytest.mark.parametrize("version", ["2.0.0", "0.9", "10.0.0", "", "x", "1x.0", "-1"])
@pytest.mark.parametrize("path", ["/", "/health", "/mcp"])
async def test_another_major_version_is_refused_and_the_supported_one_is_named(
    demo: Site, version: str, path: str
) -> None:
    method = "POST" if path == "/mcp" else "GET"
    answer = await demo.request(method, path, JSON | {"X-MCP-Version": version}, PING if path == "/mcp" else b"")
    assert answer.status == 400
    assert "1.0.0" in answer.json["error"]["message"]


@pytest.mark.parametrize("version", ["1.0.0", "1", "1.7", "1.99.3"])
async def test_the_supported_major_version_is_served(demo: Site, version: str) -> None:
    assert (await demo.post(PING, {"X-MCP-Version": version})).status == 200


# -- paths and methods ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/none", "/mcp/", "/mcp/none", "//mcp", "/MCP", "/mcp%2f", "/../mcp", "/mcp/health/x"]
)
async def test_unknown_paths_are_404(demo: Site, path: str) -> None:
    answer = await demo.get(path)
    assert (answer.status, answer.code) == (404, -32600)


async def test_the_404_error_names_every_endpoint(demo: Site) -> None:
    message = (await demo.get("/none")).json["error"]["message"]
    assert all(path in message for path in ("/mcp,", "/sse", "/messages", "/mcp-ws"))
    answer = await demo.get("/mcp-ws")
    assert (answer.status, answer.header("upgrade")) == (426, "websocket")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_modern_requests_with_other_http_methods_are_405_and_allow_post(demo: Site, method: str) -> None:
    answer = await demo.request(method, "/mcp", {"MCP-Protocol-Version": "2026-07-28"})
    assert (answer.status, answer.header("allow")) == (405, "POST")


@pytest.mark.parametrize(("path", "allowed"), [("/", "GET"), ("/health", "GET"), ("/mcp", "POST, GET, DELETE")])
async def test_a_wrong_http_method_is_405_and_names_the_allowed_ones(demo: Site, path: str, allowed: str) -> None:
    answer = await demo.request("PUT", path)
    assert (answer.status, answer.header("allow")) == (405, allowed)


# -- keys and tokens ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authenticated_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ServerProcess, dict[str, str], ECKey]]:
    """A server with two keys and one token issuer."""
    folder: Path = tmp_path_factory.mktemp("edge")
    key_file, jwk_file = folder / "keys.toml", folder / "jwk.json"
    keys = {}
    for name in ("ada", "bob"):
        made = subprocess.run(
            [HUBBUB, "keys", "create", name, "--key-file", key_file],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        keys[name] = next(word for word in made.stdout.split() if word.startswith("hb_"))
    issuer = ECKey.generate_key("P-256")
    jwk_file.write_text(json.dumps(issuer.as_dict(private=False)))
    with ServerProcess(
        *(str(PLAYGROUND), "--key-file", str(key_file), "--jwt-keys", str(jwk_file)),
        *("--jwt-issuer", "https://issuer.example", "--jwt-audience", "hub"),
    ) as process:
        yield process, keys, issuer


def token(key: Any, algorithm: str = "ES256", **claims: Any) -> str:
    now = int(time.time())
    whole = {"iss": "https://issuer.example", "aud": "hub", "sub": "carol", "exp": now + 60, "iat": now} | claims
    whole = {name: value for name, value in whole.items() if value is not None}
    return jwt.encode({"alg": algorithm}, whole, key, algorithms=[algorithm])


async def caller_name(site: Site, headers: dict[str, str]) -> str:
    answer = await site.post(request("who"), headers)
    return str(answer.json["result"]["principal"]) if answer.status == 200 else str(answer.status)


async def test_keys_and_tokens_identify_the_caller(
    authenticated_server: tuple[ServerProcess, dict[str, str], ECKey],
) -> None:
    process, keys, issuer = authenticated_server
    assert await caller_name(process.site, {"X-API-Key": keys["ada"]}) == "key:ada"
    assert await caller_name(process.site, {"Authorization": f"Bearer {keys['bob']}"}) == "key:bob"
    assert "carol" in await caller_name(process.site, {"Authorization": f"Bearer {token(issuer)}"})


async def test_every_route_requires_authentication(
    authenticated_server: tuple[ServerProcess, dict[str, str], ECKey],
) -> None:
    site = authenticated_server[0].site
    for method, path in [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sse"), ("POST", "/messages")]:
        answer = await site.request(method, path, JSON, PING if method == "POST" else b"")
        assert (answer.status, answer.code) == (401, -32600)
        assert str(answer.header("www-authenticate")).startswith("Bearer")


async def test_wrong_tokens_of_every_kind_are_refused(
    authenticated_server: tuple[ServerProcess, dict[str, str], ECKey],
) -> None:
    process, keys, issuer = authenticated_server
    now = int(time.time())
    good = token(issuer)
    header, payload, signature = good.split(".")
    public = json.dumps(issuer.as_dict(private=False))
    wrong = [
        {"X-API-Key": ""},
        {"X-API-Key": keys["ada"][:-1]},
        {"X-API-Key": keys["ada"].upper()},
        {"X-API-Key": "hb_" + "0" * 8 + "_" + "0" * 48},
        {"X-API-Key": "x" * 10_000},
        {"X-API-Key": good},
        {"Authorization": good},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer x"},
        {"Authorization": "Basic YTpi"},
        {"Authorization": f"Bearer {header}.{payload}."},
        {"Authorization": f"Bearer {header}.{payload}"},
        {"Authorization": f"Bearer {header}.{payload}.{signature[:-4]}AAAA"},
        {"Authorization": f"Bearer eyJhbGciOiJub25lIn0.{payload}."},
        {"Authorization": f"Bearer {token(ECKey.generate_key('P-256'))}"},
        {"Authorization": f"Bearer {token(OctKey.import_key(public), 'HS256')}"},
        {"Authorization": f"Bearer {token(issuer, exp=now - 3600)}"},
        {"Authorization": f"Bearer {token(issuer, exp=None)}"},
        {"Authorization": f"Bearer {token(issuer, nbf=now + 3600)}"},
        {"Authorization": f"Bearer {token(issuer, iss='https://other.example')}"},
        {"Authorization": f"Bearer {token(issuer, aud='other')}"},
        {"Authorization": f"Bearer {token(issuer, aud=None)}"},
        {"Authorization": f"Bearer {token(issuer, sub=None)}"},
        {"X-API-Key": "wrong", "Authorization": f"Bearer {good}"},
    ]
    for headers in wrong:
        assert await caller_name(process.site, headers) == "401", headers
    assert "carol" in await caller_name(process.site, {"Authorization": f"Bearer {good}"})
    said = "".join(process.stderr_lines)
    assert keys["ada"] not in said
    assert signature not in said


async def test_the_session_of_another_principal_is_404(
    authenticated_server: tuple[ServerProcess, dict[str, str], ECKey],
) -> None:
    process, keys, _ = authenticated_server
    ada, bob = {"X-API-Key": keys["ada"]}, {"X-API-Key": keys["bob"]}
    session = await open_session(process.site, headers=ada)
    stolen = {name: value for name, value in session.headers.items() if name != "X-API-Key"} | bob
    assert (await process.site.post(PING, stolen)).status == 404
    assert (await process.site.request("DELETE", "/mcp", stolen)).status == 404
    assert (await process.site.get("/mcp", stolen)).status == 404
    cookie = {"Cookie": f"mcp_session={session.id}"} | bob
    assert (await process.site.post(request("who"), cookie)).status == 404
    assert (await session.post(PING)).status == 200


async def test_the_http_sse_stream_of_another_principal_accepts_no_messages(
    authenticated_server: tuple[ServerProcess, dict[str, str], ECKey],
) -> None:
    process, keys, _ = authenticated_server
    ada, bob = {"X-API-Key": keys["ada"]}, {"X-API-Key": keys["bob"]}
    async with process.site.stream("GET", "/sse", ada) as stream:
        endpoint = await stream.next()
        assert endpoint is not None
        assert (await process.site.post(PING, bob, path=endpoint.data)).status == 404
        assert (await process.site.post(request("who"), ada, path=endpoint.data)).status == 202
        assert (await stream.message())["result"]["principal"] == "key:ada"


# -- bind addresses ------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_serving_the_network_without_authentication_is_refused(host: str) -> None:
    done = subprocess.run(
        [HUBBUB, "serve", "--pack", "demo", "--host", host, "--port", "0"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "--insecure" in done.stderr
    assert "Traceback" not in done.stderr


# -- limits ------------------------------------------------------------------------------------------


async def test_rate_limited_requests_get_retry_after() -> None:
    with ServerProcess("--pack", "demo", "--limit", "mcp=100/minute", "--limit", "health=1000/minute") as process:
        site = process.site
        async with site.connect() as link:
            statuses = []
            for _ in range(100):
                await link.send_request("POST", "/mcp", JSON, json.dumps(PING).encode())
                statuses.append((await link.read_response()).status)
            assert statuses == [200] * 100
        refused = await site.post(PING)
        assert refused.status == 429
        assert 1 <= int(str(refused.header("retry-after"))) <= 60
        message = refused.json["error"]["message"]
        assert message.startswith("Too many requests: 100 per minute on /mcp; try again in ")
        async with site.connect() as link:
            for _ in range(1000):
                await link.send_request("GET", "/health")
                assert (await link.read_response()).status == 200
            await link.send_request("GET", "/health")
            last = await link.read_response()
        assert (last.status, last.header("x-mcp-version")) == (429, "1.0.0")
        assert last.header("retry-after") is not None
        assert (await site.get("/")).status == 200


async def test_no_other_route_evades_the_rate_limit() -> None:
    with ServerProcess("--pack", "demo", "--limit", "mcp=2/minute") as process:
        site = process.site
        for _ in range(2):
            assert (await site.post(PING)).status == 200
        assert (await site.post(PING, {"X-Forwarded-For": "203.0.113.7"})).status == 429
        assert (await site.get("/mcp", {"Accept": "text/event-stream"})).status == 429
        assert (await site.get("/sse", {"Accept": "text/event-stream"})).status == 429
        assert (await site.post(PING, path="/messages?session_id=x")).status == 429
        upgrade = {
            **{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"},
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        assert (await site.get("/mcp-ws", upgrade)).status == 429


async def test_every_path_counts_towards_the_rate_limit() -> None:
    async with run_server(limits=("mcp=1/minute", "other=6/minute")) as instance:
        asked: list[tuple[str, dict[str, str]]] = [
            ("/", {}),
            ("/metrics", {}),
            ("/mcp/health", {}),
            ("/nowhere", {}),
            ("/", {"X-MCP-Version": "2.0.0"}),
            ("/", {"Host": "evil.example"}),
        ]
        statuses = [(await instance.site.get(path, headers)).status for path, headers in asked]
        assert statuses == [200, 200, 200, 404, 400, 403]
        assert {(await instance.site.get(path, headers)).status for path, headers in asked} == {429}


def limited_ids(answers: list[Any]) -> list[Any]:
    """Return the ids that were refused; each refusal must have a retry time."""
    refused = [answer for answer in answers if "error" in answer]
    for answer in refused:
        assert 1 <= answer["error"]["data"]["retryAfter"] <= 60
        assert "Too many requests: 5 per minute" in answer["error"]["message"]
    return [answer["id"] for answer in refused]


async def test_each_websocket_message_is_rate_limited_and_the_connection_stays_open() -> None:
    async with (
        run_server(limits=("mcp=5/minute",)) as instance,
        connect(f"ws://127.0.0.1:{instance.site.port}/mcp-ws") as socket,
    ):
        for number in range(8):
            await socket.send(json.dumps(request("ping", id=number)))
        answers = [json.loads(await socket.recv()) for _ in range(8)]
        assert limited_ids(answers) == [4, 5, 6, 7]  # the handshake counted too
        await socket.send("no JSON")
        assert limited_ids([json.loads(await socket.recv())]) == [None]
        assert (await instance.site.post(PING)).status == 429


async def test_a_response_to_a_client_request_is_not_rate_limited() -> None:
    async with (
        run_server(limits=("mcp=3/minute",)) as instance,
        connect(f"ws://127.0.0.1:{instance.site.port}/mcp-ws") as socket,
    ):
        await socket.send(json.dumps(initialize_request(capabilities={"elicitation": {}})))
        await socket.recv()
        await socket.send(json.dumps(call("greet", id=2)))
        question = json.loads(await socket.recv())
        await socket.send(json.dumps(request("ping", id=3)))
        assert json.loads(await socket.recv())["error"]["data"]["retryAfter"] >= 1
        answer = {"action": "accept", "content": {"name": "Ada"}}
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": answer}))
        assert "Hello, Ada!" in await asyncio.wait_for(socket.recv(), TIMEOUT_S)


async def test_each_request_of_a_batch_counts_towards_the_rate_limit() -> None:
    async with run_server(limits=("mcp=5/minute",)) as instance:
        answer = await instance.site.post([request("ping", id=number) for number in range(250)])
        assert answer.status == 200
        assert limited_ids(answer.json) == list(range(5, 250))
        assert (await instance.site.post(PING)).status == 429


async def test_each_http_sse_message_counts_towards_the_rate_limit() -> None:
    limits = ("sse=9/minute", "messages=5/minute")
    async with run_server(limits=limits) as instance, instance.site.stream("GET", "/sse") as stream:
        endpoint = await stream.next()
        assert endpoint is not None
        assert (await instance.site.post(PING, path=endpoint.data)).status == 202
        assert "result" in await stream.message()
        batch = [request("ping", id=number) for number in range(6)]
        assert (await instance.site.post(batch, path=endpoint.data)).status == 202
        assert limited_ids(await stream.message()) == [4, 5]
        assert (await instance.site.post(PING, path=endpoint.data)).status == 429


def test_a_rate_limit_for_an_unknown_route_suggests_the_nearest_name() -> None:
    done = subprocess.run(
        [str(HUBBUB), "serve", "--pack", "demo", "--limit", "mpc=5/minute", "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, "did you mean 'mcp'?" in done.stderr) == (2, True)


async def test_forwarded_headers_count_only_from_trusted_proxies() -> None:
    forwarded = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}
    for trusted in (("--proxied-by", "127.0.0.1"), ("--proxied-by", "192.0.2.1"), ()):
        with ServerProcess("--pack", "demo", "--limit", "mcp=1/minute", *trusted) as process:
            first = await process.site.post(PING)
            assert "Secure" not in str(first.header("set-cookie"))
            second = await process.site.post(PING, forwarded)
            assert second.status == (200 if "127.0.0.1" in trusted else 429)
            assert ("Secure" in str(second.header("set-cookie"))) is ("127.0.0.1" in trusted)


async def test_loopback_has_no_rate_limit_by_default(demo: Site) -> None:
    async with demo.connect() as link:
        for _ in range(150):
            await link.send_request("POST", "/mcp", JSON, json.dumps(PING).encode())
            assert (await link.read_response()).status == 200
