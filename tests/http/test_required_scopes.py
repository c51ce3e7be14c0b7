"""Tools, prompts and resources that require scopes are hidden from callers without them."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from tests.http.eras import initialize_request, modern_request, open_session
from tests.http.in_process_server import run_server
from tests.http.raw_http import Site, request
from tests.http.server_process import ServerProcess
from tests.hub.local_hubs import make_hub, toolbox
from tests.security.tokens import ISSUER, RSA, claims, key_set, sign
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from hubbub import CacheHint, Server
from hubbub.security.api_keys import append_record, generate_key

ERAS = ("plain", "legacy", "modern")
WRITE = ("notes:write",)


def notes(name: str = "notes") -> Server:
    server = Server(name, cache=CacheHint(1000, public=True))

    @server.tool
    async def read_note() -> str:
        """Read a note."""
        return "milk"

    @server.tool(scopes=WRITE)
    async def write_note(text: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Text"})] = "") -> str:
        """Write a note."""
        return f"wrote {text}"

    @server.resource("note://open")
    def open_note() -> str:
        return "open"

    @server.resource("note://secret", scopes=WRITE)
    def secret_note() -> str:
        return "secret"

    @server.resource("draft://{number}", scopes=WRITE)
    def draft(number: str) -> str:
        return f"draft {number}"

    @server.prompt(scopes=WRITE)
    def compose(topic: str) -> str:
        """Compose a note."""
        return f"Compose {topic}"

    @server.completion("compose", "topic")
    def topics(value: str) -> list[str]:
        return ["tea"]

    @server.completion("draft://{number}", "number")
    def numbers(value: str) -> list[str]:
        return ["1"]

    return server


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    found = {"file": str(tmp_path / "keys.toml")}
    for name, scopes in (("reader", ("notes:read",)), ("writer", ("notes:read", *WRITE))):
        found[name], record = generate_key(name, scopes=scopes)
        append_record(tmp_path / "keys.toml", record)
    return found


class Caller:
    """A client of one era, with or without a key."""

    def __init__(self, site: Site, era: str, headers: Mapping[str, str]) -> None:
        self.site = site
        self.era = era
        self.headers = dict(headers)

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return the complete response."""
        if self.era == "modern":
            body, headers = modern_request(method, params)
            if method == "tools/call" and "text" in (params or {}).get("arguments", {}):
                headers["Mcp-Param-Text"] = params["arguments"]["text"]  # type: ignore[index]
            answer = await self.site.post(body, headers | self.headers)
        elif self.era == "legacy":
            session = await open_session(self.site, headers=self.headers)
            answer = await session.post(request(method, params or {}))
        else:
            answer = await self.site.post(request(method, params or {}), self.headers)
        text = answer.body.decode()
        if text.startswith(("event:", "id:", "data:", ":")):
            text = [line for line in text.splitlines() if line.startswith("data: {")][-1].removeprefix("data: ")
        whole: dict[str, Any] = json.loads(text)
        return whole

    async def names(self, what: str, member: str, key: str) -> list[str]:
        """Return the names in a list."""
        result = (await self.request(what))["result"]
        return [entry[key] for entry in result[member] if not entry[key].startswith("hub")]


async def lists(caller: Caller) -> list[list[str]]:
    return [
        await caller.names("tools/list", "tools", "name"),
        await caller.names("resources/list", "resources", "uri"),
        await caller.names("resources/templates/list", "resourceTemplates", "uriTemplate"),
        await caller.names("prompts/list", "prompts", "name"),
    ]


OPEN = [["read_note"], ["note://open"], [], []]
ALL = [["read_note", "write_note"], ["note://open", "note://secret"], ["draft://{number}"], ["compose"]]


def uses(tool: str, secret: str, draft: str, prompt: str, method: str) -> list[tuple[str, dict[str, Any]]]:
    """Return every request that uses something by its name."""
    return [
        ("tools/call", {"name": tool, "arguments": {"text": "x"}}),
        ("resources/read", {"uri": secret}),
        ("resources/read", {"uri": draft}),
        ("prompts/get", {"name": prompt, "arguments": {"topic": "x"}}),
        (method, {"text": "x"}),
    ]


HIDDEN = uses("write_note", "note://secret", "draft://1", "compose", "write_note")
MISSING = uses("wrong_note", "note://wrongx", "wrong://1", "wrongly", "wrong_note")


def without_names(answer: dict[str, Any]) -> str:
    text = json.dumps(answer)
    for hidden, missing in zip(("write_note", "note://secret", "draft://1", "compose"), _MISSING_NAMES, strict=True):
        text = text.replace(hidden, "X").replace(missing, "X")
    return text


_MISSING_NAMES = ("wrong_note", "note://wrongx", "wrong://1", "wrongly")


@pytest.mark.parametrize("kind", ["server", "hub"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_caller_without_the_scopes_gets_not_found(era: str, kind: str, keys: dict[str, str]) -> None:
    server = notes() if kind == "server" else make_hub(notes(), toolbox("other", "look")).fronts[""]
    more = ["look"] if kind == "hub" else []
    async with run_server(server, key_file=keys["file"]) as there:
        reader = Caller(there.site, era, {"X-API-Key": keys["reader"]})
        writer = Caller(there.site, era, {"X-API-Key": keys["writer"]})
        assert await lists(writer) == [ALL[0] + more, *ALL[1:]]
        assert await lists(reader) == [OPEN[0] + more, *OPEN[1:]]
        for (method, params), (_, unknown) in zip(HIDDEN, MISSING, strict=True):
            other = "wrong_note" if method == "write_note" else method
            hidden, missing = await reader.request(method, params), await reader.request(other, unknown)
            assert without_names(hidden) == without_names(missing)
            assert "error" in hidden or hidden["result"].get("isError"), hidden
            answer = await writer.request(method, params)
            if method != "write_note" or era == "plain":
                assert "result" in answer, answer
                assert not isinstance(answer["result"], dict) or not answer["result"].get("isError")


@pytest.mark.parametrize("kind", ["server", "hub"])
@pytest.mark.parametrize("reference", [{"type": "ref/prompt", "name": "compose"}, {"type": "ref/resource", "uri": ""}])
async def test_completion_is_empty_for_hidden_prompts_and_resources(
    kind: str, reference: dict[str, str], keys: dict[str, str]
) -> None:
    server = notes() if kind == "server" else make_hub(notes()).fronts[""]
    argument = {"name": "topic", "value": ""}
    if reference["type"] == "ref/resource":
        reference, argument = {"type": "ref/resource", "uri": "draft://{number}"}, {"name": "number", "value": ""}
    params = {"ref": reference, "argument": argument}
    async with run_server(server, key_file=keys["file"]) as there:
        reader = Caller(there.site, "modern", {"X-API-Key": keys["reader"]})
        writer = Caller(there.site, "modern", {"X-API-Key": keys["writer"]})
        assert (await writer.request("completion/complete", params))["result"]["completion"]["values"]
        answer = await reader.request("completion/complete", params)
        assert "error" in answer or answer["result"]["completion"]["values"] == []


@pytest.mark.parametrize("kind", ["server", "hub"])
async def test_a_hidden_resource_cannot_be_subscribed_to(kind: str, keys: dict[str, str]) -> None:
    server = notes() if kind == "server" else make_hub(notes()).fronts[""]
    async with run_server(server, key_file=keys["file"]) as there:
        reader = Caller(there.site, "legacy", {"X-API-Key": keys["reader"]})
        writer = Caller(there.site, "legacy", {"X-API-Key": keys["writer"]})
        for uri in ("note://secret", "draft://1"):
            assert (await reader.request("resources/subscribe", {"uri": uri}))["error"]["code"] == -32002
            assert (await writer.request("resources/subscribe", {"uri": uri}))["result"] == {}


async def test_a_listener_is_not_notified_of_a_hidden_resource(keys: dict[str, str]) -> None:
    local = notes()
    hub = make_hub(local)
    uris = ["note://open", "note://secret", "notes+note://secret", "draft://1"]
    filters = {"notifications": {"resourceSubscriptions": uris}}
    async with run_server(hub.fronts[""], key_file=keys["file"]) as there:
        body, headers = modern_request("subscriptions/listen", filters)
        mine, theirs = ({"X-API-Key": keys[name]} for name in ("writer", "reader"))
        async with (
            there.site.stream("POST", "/mcp", headers | mine, body) as writer,
            there.site.stream("POST", "/mcp", headers | theirs, body) as reader,
        ):
            for stream in (writer, reader):
                assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
            for uri in ("note://secret", "draft://1", "note://open"):
                local.resource_updated(uri)
            received = [(await writer.message())["params"]["uri"] for _ in range(3)]
            assert "note://secret" in received
            assert (await reader.message())["params"]["uri"] == "note://open"


async def test_a_hub_neither_finds_nor_calls_nor_counts_hidden_tools(keys: dict[str, str]) -> None:
    hub = make_hub(notes(), search="on")
    async with run_server(hub.fronts[""], key_file=keys["file"]) as there:
        reader = Caller(there.site, "modern", {"X-API-Key": keys["reader"]})
        writer = Caller(there.site, "modern", {"X-API-Key": keys["writer"]})

        async def use(caller: Caller, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
            answer = await caller.request("tools/call", {"name": tool, "arguments": arguments})
            result: dict[str, Any] = answer["result"]
            return result

        wanted = {"query": "write a note"}
        found = [tool["name"] for tool in (await use(writer, "hub.search", wanted))["structuredContent"]["tools"]]
        assert set(found) == {"read_note", "write_note"}
        seen = (await use(reader, "hub.search", wanted))["structuredContent"]
        assert ([tool["name"] for tool in seen["tools"]], seen["total"]) == (["read_note"], 1)
        call = {"name": "write_note", "arguments": {"text": "x"}}
        assert (await use(writer, "hub.call", call))["content"][0]["text"] == "wrote x"
        refused = await use(reader, "hub.call", call)
        assert refused["isError"] is True
        assert "Tool not found" in refused["content"][0]["text"]
        assert "write_note" not in json.dumps(refused).replace("Tool not found: write_note", "")
        status = (await use(reader, "hub.status", {}))["structuredContent"]
        assert (status["tools"], status["resources"], status["prompts"]) == (1, 1, 0)
        assert status["servers"][0]["tools"] == 1
        prefixed = await reader.request("resources/read", {"uri": "notes+note://secret"})
        assert "error" in prefixed


async def test_lists_that_depend_on_the_caller_have_a_private_cache_scope(keys: dict[str, str]) -> None:
    async with run_server(notes(), key_file=keys["file"]) as there:
        reader = Caller(there.site, "modern", {"X-API-Key": keys["reader"]})
        assert (await reader.request("tools/list"))["result"]["cacheScope"] == "private"


async def test_a_session_has_the_scopes_of_the_token_of_each_request(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_bytes(key_set(RSA))
    whole = {"exp": time.time() + 600, "iat": None}
    broad, narrow, scp = (
        {"Authorization": f"Bearer {sign(claims(**whole, **more))}"}
        for more in ({"scope": "notes:write"}, {"scope": "notes:read"}, {"scope": None, "scp": ["notes:write"]})
    )
    settings = {"jwt_keys": str(tmp_path / "keys.json"), "jwt_issuer": ISSUER, "jwt_audience": ("mcp",)}
    call = request("tools/call", {"name": "write_note", "arguments": {}})
    async with run_server(notes(), **settings) as there:
        session = await open_session(there.site, headers=broad)
        assert "result" in (await session.post(call)).json
        assert "error" in (await session.post(call, narrow)).json
        assert "result" in (await session.post(call, scp)).json


PROGRAM = """
from hubbub import Server

server = Server("notes")

@server.tool(scopes=("notes:write",))
def write_note() -> str:
    return "wrote"

@server.tool
def read_note() -> str:
    return "milk"
"""


async def test_a_server_without_authentication_warns_and_hides_scoped_tools(tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text(PROGRAM)
    with ServerProcess(str(tmp_path / "notes.py")) as process:
        anonymous = Caller(process.site, "plain", {})
        assert await anonymous.names("tools/list", "tools", "name") == ["read_note"]
        assert (await anonymous.request("write_note"))["error"]["code"] == -32601
    (line,) = [line for line in process.stderr_lines if "write_note" in line]
    assert "require scopes" in line
    assert "hubbub keys create --scope" in line


async def test_a_server_with_keys_does_not_warn(tmp_path: Path, keys: dict[str, str]) -> None:
    (tmp_path / "notes.py").write_text(PROGRAM)
    with ServerProcess(str(tmp_path / "notes.py"), "--key-file", keys["file"]) as process:
        writer = Caller(process.site, "plain", {"X-API-Key": keys["writer"]})
        assert (await writer.request("write_note"))["result"] == "wrote"
    assert not [line for line in process.stderr_lines if "scopes" in line]


async def test_anonymous_websocket_and_http_sse_callers_have_no_scopes(keys: dict[str, str]) -> None:
    async with run_server(notes()) as there:
        url = f"ws://127.0.0.1:{there.site.port}/mcp-ws"
        async with connect(url, subprotocols=[Subprotocol("mcp.v1")]) as socket:
            await socket.send(json.dumps(request("tools/list", {})))
            listed = json.loads(await socket.recv())["result"]["tools"]
        assert [tool["name"] for tool in listed] == ["read_note"]
        async with there.site.stream("GET", "/sse", {"Accept": "text/event-stream"}) as stream:
            place = await stream.next()
            assert place is not None
            await there.site.post(initialize_request("2024-11-05"), path=place.data)
            await stream.message()
            await there.site.post(request("tools/list", {}, 2), path=place.data)
            tools = (await stream.message())["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["read_note"]
