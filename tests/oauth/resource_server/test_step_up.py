"""Step-up: tools whose scopes a client can ask for are listed, and calling one names the scopes."""

import json
from typing import Any

import pytest
from tests.http.eras import modern_request, open_session
from tests.http.keyring import Keyring
from tests.http.raw_http import Response, request
from tests.hub.local_hubs import make_hub
from tests.oauth.resource_server.sites import (
    AUDIENCE,
    METADATA_URL,
    PUBLIC_URL,
    ProtectedSite,
    parse_challenge,
    prove,
    run_protected,
)
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from hubbub import Server
from hubbub.security.jose import JwtSigningKey

ERAS = ("plain", "legacy", "modern")
WRITE, ADMIN = "notes:write", "notes:admin"
CALLS: list[str] = []


def notes(name: str = "notes") -> Server:
    server = Server(name)
    CALLS.clear()

    @server.tool
    async def read_note() -> str:
        """Read a note."""
        return "milk"

    @server.tool(scopes=(WRITE,))
    async def write_note() -> str:
        """Write a note."""
        CALLS.append("write_note")
        return "written"

    @server.tool(scopes=(WRITE, ADMIN))
    async def drop_notes() -> str:
        """Drop all notes."""
        return "dropped"

    @server.prompt(scopes=(WRITE,))
    def compose() -> str:
        """Compose a note."""
        return "Compose"

    return server


async def send(protected: ProtectedSite, era: str, token: str, method: str, params: dict[str, Any]) -> Response:
    headers = {"Authorization": f"Bearer {token}"}
    if era == "modern":
        body, more = modern_request(method, params)
        return await protected.site.post(body, more | headers)
    if era == "legacy":
        session = await open_session(protected.site, headers=headers)
        return await session.post(request(method, params))
    return await protected.site.post(request(method, params), headers)


def read_json(response: Response) -> dict[str, Any]:
    lines = [line for line in response.body.decode().splitlines() if "{" in line]
    found: dict[str, Any] = json.loads(lines[-1].removeprefix("data: ")) if len(lines) == 1 else response.json
    return found


@pytest.mark.parametrize("is_hub", [False, True])
@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_needs_more_scopes_names_them_and_runs_nothing(era: str, is_hub: bool) -> None:
    server: Server = make_hub(notes()).fronts[""] if is_hub else notes()
    async with run_protected(server, step_up_scopes=(WRITE,)) as protected:
        token = protected.issuer.sign(aud=AUDIENCE, scope="mcp")
        listed = read_json(await send(protected, era, token, "tools/list", {}))
        names = [tool["name"] for tool in listed["result"]["tools"] if not tool["name"].startswith("hub")]
        assert names == ["read_note", "write_note"]
        call = {"name": "write_note", "arguments": {}}
        response = await send(protected, era, token, "tools/call", call)
        assert response.status == 403
        scheme, parameters = parse_challenge(response)
        assert (scheme, parameters["error"]) == ("Bearer", "insufficient_scope")
        assert parameters["scope"] == f"mcp {WRITE}"
        assert parameters["resource_metadata"] == METADATA_URL
        error = response.json["error"]
        assert error["data"] == {"reason": "insufficient_scope", "scopes": [WRITE]}
        assert response.json["id"] == 1
        assert CALLS == []
        better = protected.issuer.sign(aud=AUDIENCE, scope=f"mcp {WRITE}")
        assert (await send(protected, era, better, "tools/call", call)).status == 200
        assert CALLS == ["write_note"]


async def test_a_caller_with_a_bound_token_is_asked_for_one() -> None:
    async with run_protected(notes(), step_up_scopes=(WRITE,)) as protected:
        key = JwtSigningKey.generate()
        token = protected.issuer.sign(aud=AUDIENCE, scope="mcp", cnf={"jkt": key.thumbprint})
        response = await protected.call("write_note", authorization=f"DPoP {token}", dpop=prove(key, token))
        assert response.status == 403
        scheme, parameters = parse_challenge(response)
        assert (scheme, parameters["error"], parameters["scope"]) == ("DPoP", "insufficient_scope", f"mcp {WRITE}")
        assert "ES256" in parameters["algs"]
        assert CALLS == []


@pytest.mark.parametrize("is_hub", [False, True])
@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_needs_other_scopes_too_stays_unknown(era: str, is_hub: bool) -> None:
    server: Server = make_hub(notes()).fronts[""] if is_hub else notes()
    async with run_protected(server, step_up_scopes=(WRITE,)) as protected:
        token = protected.issuer.sign(aud=AUDIENCE, scope="mcp")
        response = await send(protected, era, token, "tools/call", {"name": "drop_notes", "arguments": {}})
        unknown = await send(protected, era, token, "tools/call", {"name": "drop_nothing", "arguments": {}})
        assert response.status == unknown.status != 403
        assert response.header("www-authenticate") is None
        assert response.body.replace(b"drop_notes", b"x") == unknown.body.replace(b"drop_nothing", b"x")
        prompts = read_json(await send(protected, era, token, "prompts/list", {}))
        assert prompts["result"]["prompts"] == []


async def test_callers_with_an_api_key_cannot_ask_for_scopes(tmp_path: Any) -> None:
    ring = Keyring(tmp_path / "keys.toml")
    key = ring.add("ci")
    async with run_protected(notes(), step_up_scopes=(WRITE,), serve={"key_file": str(ring.path)}) as protected:
        response = await protected.call("write_note", **key)
        assert response.status == 200
        assert "error" in response.json
        assert "write_note" not in (await protected.site.post(request("tools/list"), key)).body.decode()


async def test_a_tool_called_as_a_method_needs_the_scopes_too() -> None:
    async with run_protected(notes(), step_up_scopes=(WRITE,)) as protected:
        headers = {"Authorization": f"Bearer {protected.issuer.sign(aud=AUDIENCE)}"}
        response = await protected.site.post(request("write_note"), headers)
        assert response.status == 403
        assert parse_challenge(response)[1]["error"] == "insufficient_scope"


async def test_in_a_batch_and_on_a_websocket_the_error_names_the_scopes() -> None:
    async with run_protected(notes(), step_up_scopes=(WRITE,)) as protected:
        headers = {"Authorization": f"Bearer {protected.issuer.sign(aud=AUDIENCE)}"}
        call = request("tools/call", {"name": "write_note", "arguments": {}}, id=2)
        [answer] = (await protected.site.post([call], headers)).json
        assert answer["error"]["data"] == {"reason": "insufficient_scope", "scopes": [WRITE]}
        assert WRITE in answer["error"]["message"]
        url = f"ws://127.0.0.1:{protected.site.port}/mcp-ws"
        async with connect(url, subprotocols=[Subprotocol("mcp.v1")], additional_headers=headers) as socket:
            for message in (call, request("write_note")):
                await socket.send(json.dumps(message))
                assert json.loads(await socket.recv())["error"]["data"]["scopes"] == [WRITE]
        assert CALLS == []


async def test_the_challenge_at_a_view_names_the_view() -> None:
    server = notes()
    server.views = {"docs": notes()}
    async with run_protected(server, step_up_scopes=(WRITE,)) as protected:
        token = protected.issuer.sign(aud=AUDIENCE)
        response = await protected.call("write_note", path="/mcp/docs", authorization=f"Bearer {token}")
        assert response.status == 403
        wanted = f"{PUBLIC_URL}/.well-known/oauth-protected-resource/mcp/docs"
        assert parse_challenge(response)[1]["resource_metadata"] == wanted
