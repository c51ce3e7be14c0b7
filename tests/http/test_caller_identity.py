"""The principal and scope of callers over WebSocket and HTTP+SSE."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.http.eras import initialize_request
from tests.http.raw_http import Site, call
from tests.http.server_process import HUBBUB, PLAYGROUND, ServerProcess
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

KEY_COMMAND_TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.toml"


@pytest.fixture(scope="module")
def keys(key_file: Path) -> dict[str, str]:
    made = {}
    for name in ("alice", "bob"):
        command = [str(HUBBUB), "keys", "create", name, "--key-file", str(key_file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=KEY_COMMAND_TIMEOUT_S, check=True)
        made[name] = done.stdout.strip()
    return made


@pytest.fixture(scope="module")
def site_with_keys(key_file: Path, keys: dict[str, str]) -> Iterator[Site]:
    with ServerProcess(str(PLAYGROUND), "--key-file", str(key_file)) as process:
        yield process.site


def open_websocket(site: Site, *protocols: str, key: str | None = None) -> connect:
    headers = {} if key is None else {"X-API-Key": key}
    offered = [Subprotocol(name) for name in protocols] or None
    url = f"ws://127.0.0.1:{site.port}/mcp-ws"
    return connect(url, subprotocols=offered, additional_headers=headers, proxy=None, open_timeout=10)


async def identity_over_websocket(connection: ClientConnection) -> dict[str, Any]:
    """Complete the handshake, then call the tool."""
    answer: dict[str, Any] = {}
    for message in (initialize_request(), call("who", id=2)):
        await connection.send(json.dumps(message))
        answer = json.loads(await connection.recv())
        assert answer["id"] == message["id"]
    return dict(answer["result"]["structuredContent"])


async def identity_over_http_sse(site: Site, key: str) -> dict[str, Any]:
    headers = {"X-API-Key": key}
    async with site.stream("GET", "/sse", headers) as stream:
        endpoint = await stream.next()
        assert endpoint is not None
        answer: dict[str, Any] = {}
        for message in (initialize_request("2024-11-05"), call("who", id=2)):
            assert (await site.post(message, headers, endpoint.data)).status == 202
            answer = await stream.message()
            assert answer["id"] == message["id"]
        return dict(json.loads(answer["result"]["content"][0]["text"]))


async def test_a_websocket_caller_has_the_principal_of_its_key(site_with_keys: Site, keys: dict[str, str]) -> None:
    async with (
        open_websocket(site_with_keys, key=keys["alice"]) as first,
        open_websocket(site_with_keys, key=keys["bob"]) as second,
    ):
        assert (await identity_over_websocket(first))["principal"] == "key:alice"
        assert (await identity_over_websocket(second))["principal"] == "key:bob"


async def test_an_http_sse_caller_has_the_principal_of_its_key(site_with_keys: Site, keys: dict[str, str]) -> None:
    assert (await identity_over_http_sse(site_with_keys, keys["alice"]))["principal"] == "key:alice"
    assert (await identity_over_http_sse(site_with_keys, keys["bob"]))["principal"] == "key:bob"


async def test_a_websocket_without_a_key_is_refused(site_with_keys: Site) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with open_websocket(site_with_keys):
            pass
    assert refused.value.response.status_code == 401


async def test_each_connection_has_its_own_scope(site_with_keys: Site, keys: dict[str, str]) -> None:
    alice = keys["alice"]
    async with open_websocket(site_with_keys, key=alice) as first, open_websocket(site_with_keys, key=alice) as second:
        scopes = [(await identity_over_websocket(each))["scope"] for each in (first, second)]
    scopes += [(await identity_over_http_sse(site_with_keys, alice))["scope"] for _ in range(2)]
    assert len(set(scopes)) == 4


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [((), None), (("mcp.v1",), "mcp.v1"), (("mcp",), "mcp"), (("mcp", "mcp.v1"), "mcp.v1"), (("x", "mcp"), "mcp")],
)
async def test_the_accepted_subprotocol_is_one_that_was_offered(
    playground: Site, offered: tuple[str, ...], chosen: str | None
) -> None:
    async with open_websocket(playground, *offered) as connection:
        assert connection.subprotocol == chosen
        assert (await identity_over_websocket(connection))["principal"] == "anonymous"


async def test_a_handshake_with_only_unknown_subprotocols_is_refused(playground: Site) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with open_websocket(playground, "soap"):
            pass
    assert refused.value.response.status_code == 400
    assert b"mcp.v1" in refused.value.response.body
