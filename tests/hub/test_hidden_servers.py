"""A caller that may not use a server learns nothing about it: no name, URI or description of it is in any response.

The hidden server and everything that it has contain one word. Requests without the word get responses without it;
requests with it get the response that they get with another word, which no server has.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.http.eras import BOTH_MEDIA_TYPES, initialize_request, modern_request, open_session
from tests.http.raw_http import Response, request
from tests.hub.tenant_hub import Key, TenantHub, run_tenant_hub

from hubbub import Server
from hubbub.hub.local import LocalUpstream

pytestmark = [pytest.mark.usefixtures("own_folders"), pytest.mark.requirement("I2")]

WORD, OTHER_WORD = "zebra", "okapi"
PROGRAM = """
from hubbub import Server

server = Server("NAME server", instructions="Ask NAME for stripes.")

@server.tool(name="NAME_open")
async def open_() -> str:
    "Open the NAME."
    return "NAME"

@server.tool
async def find() -> str:
    "Find a NAME."
    return "NAME"

@server.resource("text://NAME/one")
def one() -> str:
    "One NAME."
    return "NAME"

@server.resource("page://NAME/{number}")
def page(number: str) -> str:
    "A page of NAME."
    return "NAME"

@server.resource("shared://one")
def shared() -> str:
    "Shared NAME."
    return "NAME"

@server.prompt(name="NAME_ask")
def ask(topic: str) -> str:
    "Ask about NAME."
    return "NAME"

@server.prompt(name="ask")
def ask_all() -> str:
    "Ask anything."
    return "NAME"

@server.resource("shared://{number}")
def numbered(number: str) -> str:
    "One of NAME."
    return "NAME"

@server.completion("shared://{number}", "number")
def numbers(value: str) -> list[str]:
    return ["NAME"]

@server.completion("NAME_ask", "topic")
def topics(value: str) -> list[str]:
    return ["NAME"]
"""
TENANTS = """
[[tenants]]
name = "acme"
allow_plain = true

[[tenants]]
name = "beta"
allow_plain = true
servers = ["shelf"]
"""
DENIAL = f'\n[[policy.rules]]\neffect = "deny"\ntenants = ["beta"]\nservers = ["{WORD}"]\nreason = "no {WORD}s"\n'
NAMES = ["{}_open", "{}__find", "{}__{}_open", "{}", "{}_opem", "{}.open"]
URIS = ["text://{}/one", "{}+text://{}/one", "{}+shared://one", "page://{}/1", "{}+page://{}/1", "{}+hub://status"]
TEMPLATES = ["page://{}/{{number}}", "{}+page://{}/{{number}}"]
PROMPTS = ["{}_ask", "{}__{}_ask", "{}"]


@asynccontextmanager
async def run_hub(
    folder: Path, hides_by: str, more: str = "", *, names: tuple[str, ...] = ("shelf", WORD), prefix: str = "collision"
) -> AsyncIterator[tuple[TenantHub, Key]]:
    """A hub with a visible and a hidden server, and a caller who may not use the latter."""
    for name in ("shelf", WORD):
        (folder / f"{name}.py").write_text(PROGRAM.replace("NAME", name))
    text = "".join(f'[servers.{name}]\ntarget = "{folder / name}.py"\nprefix = "{prefix}"\n' for name in names)
    text += f'[views.striped]\nservers = ["{WORD}"]\n[views.both]\nservers = ["shelf", "{WORD}"]\n'
    text += '[hub]\nsearch = "on"\n'
    tenants = TENANTS if hides_by == "tenant" else TENANTS.replace('servers = ["shelf"]\n', DENIAL)
    async with run_tenant_hub(folder, text, tenants + more) as hub:
        assert await hub.call(hub.ada, f"{WORD}_open") == WORD, "who may use it can"
        yield hub, await hub.other("tenant")


def requests_with(word: str) -> list[tuple[str, dict[str, Any]]]:
    """Requests that name something of a server."""

    def fill(pattern: str) -> str:
        return pattern.replace("{}", word).replace("{{", "{").replace("}}", "}")

    argument = {"name": "topic", "value": ""}
    return [
        *(("tools/call", {"name": fill(name), "arguments": {}}) for name in NAMES),
        *(("tools/call", {"name": "hub.call", "arguments": {"name": fill(name)}}) for name in NAMES),
        ("tools/call", {"name": "hub.search", "arguments": {"query": word}}),
        *(("resources/read", {"uri": fill(uri)}) for uri in URIS),
        *(("prompts/get", {"name": fill(name), "arguments": {"topic": "x"}}) for name in PROMPTS),
        *(
            ("completion/complete", {"ref": {"type": "ref/prompt", "name": fill(name)}, "argument": argument})
            for name in PROMPTS
        ),
        *(
            ("completion/complete", {"ref": {"type": "ref/resource", "uri": fill(uri)}, "argument": argument})
            for uri in (*URIS, *TEMPLATES)
        ),
    ]


PLAIN_REQUESTS: list[tuple[str, dict[str, Any]]] = [
    *((f"{kind}/list", {}) for kind in ("tools", "resources", "resources/templates", "prompts")),
    *(("tools/call", {"name": f"hub.{name}", "arguments": {}}) for name in ("status", "read_result")),
    ("tools/call", {"name": "hub.search", "arguments": {"query": "find open one page ask stripes", "limit": 20}}),
    ("tools/call", {"name": "hub.call", "arguments": {"name": "find"}}),
    *(("tools/call", {"name": name, "arguments": {}}) for name in ("find", "nothing", "open", "shelf__find")),
    *(("prompts/get", {"name": name, "arguments": {}}) for name in ("ask", "nothing")),
    *(
        ("resources/read", {"uri": uri})
        for uri in ("hub://status", "shared://one", "nothing://x", "shelf+shared://one")
    ),
]


@pytest.mark.parametrize("hides_by", ["tenant", "rule"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/striped", "/mcp/both"])
@pytest.mark.parametrize("era", ["modern", "legacy", "plain"])
async def test_no_response_names_a_hidden_server(tmp_path: Path, hides_by: str, path: str, era: str) -> None:
    async with run_hub(tmp_path, hides_by) as (hub, beta):
        headers = {"Accept": BOTH_MEDIA_TYPES} | beta
        if era == "legacy":
            opened = await hub.site.post(initialize_request(), headers, path=path)
            assert_unnamed("initialize", opened)
            session = {"Mcp-Session-Id": str(opened.header("mcp-session-id")), "MCP-Protocol-Version": "2025-11-25"}
            headers |= session
            await hub.site.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers, path=path)

        async def send(method: str, params: dict[str, Any]) -> Response:
            if era == "modern":
                body, more = modern_request(method, params)
                return await hub.site.post(body, headers | more, path=path)
            return await hub.site.post(request(method, params), headers, path=path)

        for method, params in [*PLAIN_REQUESTS, *([("server/discover", {})] if era == "modern" else [])]:
            assert_unnamed(f"{method} {params}", await send(method, params))
        asked = requests_with(WORD) + extra_requests(era, WORD)
        for hidden, unknown in zip(asked, requests_with(OTHER_WORD) + extra_requests(era, OTHER_WORD), strict=True):
            assert_same(hidden, await send(*hidden), await send(*unknown))


def extra_requests(era: str, word: str) -> list[tuple[str, dict[str, Any]]]:
    if era == "legacy":
        return [("resources/subscribe", {"uri": uri.replace("{}", word)}) for uri in URIS]
    if era == "plain":
        return [(name.replace("{}", word), {}) for name in NAMES]
    return []


def assert_same(asked: Any, answer: Response, expected: Response) -> None:
    """Nothing but the word may distinguish the response about the hidden server."""
    assert answer.status == expected.status, asked
    assert answer.body.replace(WORD.encode(), OTHER_WORD.encode()) == expected.body, asked


def assert_unnamed(what: str, answer: Response) -> None:
    assert WORD not in answer.body.decode(), f"{what}: {answer}"
    assert WORD not in str(answer.headers)


@pytest.mark.parametrize("path", ["/", "/health", "/mcp/health", "/metrics", "/mcp/striped/health", "/mcp/nothing"])
async def test_no_page_names_a_hidden_server(tmp_path: Path, path: str) -> None:
    async with run_hub(tmp_path, "tenant") as (hub, beta):
        for headers in ({}, beta):
            assert_unnamed(path, await hub.site.get(path, headers))


async def test_with_a_policy_only_administrators_read_metrics_and_problems_that_name_servers(tmp_path: Path) -> None:
    (tmp_path / "shelf.py").write_text(PROGRAM.replace("NAME", "shelf"))
    text = (
        f'[servers.shelf]\ntarget = "{tmp_path}/shelf.py"\n[servers.{WORD}]\nurl = "http://127.0.0.1:1/mcp"\n'
        f'[[policy.rules]]\neffect = "deny"\nservers = ["{WORD}"]\n'
    )
    async with run_tenant_hub(tmp_path, text, tenants="") as hub:
        await hub.send(hub.ada, "tools/list")
        metrics, health = [await hub.site.get(path, hub.ada) for path in ("/metrics", "/mcp/health")]
        assert metrics.status == 403
        assert health.json == {"status": "degraded", "problems": []}
        operator = await hub.other("admin")
        assert f'server="{WORD}"' in (await hub.site.get("/metrics", operator)).body.decode()
        assert WORD in (await hub.site.get("/mcp/health", operator)).json["problems"][0]


@pytest.mark.parametrize("prefix", ["collision", "never"])
@pytest.mark.parametrize("names", [("shelf", WORD), (WORD, "shelf")], ids=["last", "first"])
async def test_a_hidden_server_does_not_affect_names_of_visible_items(
    tmp_path: Path, names: tuple[str, ...], prefix: str
) -> None:
    async with run_hub(tmp_path, "rule", names=names, prefix=prefix) as (hub, beta):
        status = (await hub.send(beta, "tools/call", name="hub.status", arguments={})).json["result"]
        assert status["structuredContent"]["servers"][0]["tools"] == 2
        assert await listed_names(hub, beta, "tools") >= {"find", "shelf_open"}
        assert "shelf__find" not in await listed_names(hub, beta, "tools")
        assert await listed_names(hub, beta, "prompts") == {"ask", "shelf_ask"}
        assert await listed_names(hub, beta, "resources", "uri") >= {"text://shelf/one", "shared://one"}
        assert await listed_names(hub, beta, "resources/templates", "uriTemplate") >= {"shared://{number}"}
        for name in ("find", "shelf__find"):
            assert await hub.call(beta, name) == "shelf"
            assert await hub.call(beta, "hub.call", name=name, arguments={}) == "shelf"
        found = await hub.send(beta, "tools/call", name="hub.search", arguments={"query": "find"})
        assert "find" in {tool["name"] for tool in found.json["result"]["structuredContent"]["tools"]}
        prompt = await hub.send(beta, "prompts/get", name="ask", arguments={})
        assert prompt.json["result"]["messages"][0]["content"]["text"] == "shelf"
        for uri in ("shared://one", "shared://2", "shelf+shared://one"):
            read = await hub.send(beta, "resources/read", uri=uri)
            assert (read.json["result"]["contents"][0]["text"], read.json["result"]["contents"][0]["uri"]) == (
                "shelf",
                uri,
            )
        reference = {"type": "ref/resource", "uri": "shared://{number}"}
        argument = {"name": "number", "value": ""}
        completed = await hub.send(beta, "completion/complete", ref=reference, argument=argument)
        assert completed.json["result"]["completion"]["values"] == ["shelf"]
        # Callers who see both get an error that says that the name is ambiguous.
        both = await listed_names(hub, hub.ada, "tools")
        if prefix == "collision":
            assert both >= {"shelf__find", f"{WORD}__find"}
            ambiguous = await hub.send(hub.ada, "tools/call", name="find", arguments={})
            assert "several servers have a tool of this name" in ambiguous.body.decode()


async def listed_names(hub: TenantHub, key: Key, kind: str, member: str = "name") -> set[str]:
    result = (await hub.send(key, f"{kind}/list")).json["result"]
    return {entry[member] for entries in result.values() if isinstance(entries, list) for entry in entries}


def local_server(hub: TenantHub, name: str) -> Server:
    upstream = hub.front.hub.upstreams[name]
    assert isinstance(upstream, LocalUpstream)
    return upstream.server


async def late() -> str:
    """A tool that is added while the hub runs."""
    return "late"


async def test_a_subscription_to_a_hidden_resource_is_not_notified(tmp_path: Path) -> None:
    async with run_hub(tmp_path, "tenant") as (hub, beta):
        uris = [uri.replace("{}", WORD) for uri in URIS] + ["shared://one"]
        params = {"notifications": {"resourceSubscriptions": uris, "toolsListChanged": True}}
        body, headers = modern_request("subscriptions/listen", params)
        server, shelf = [local_server(hub, name) for name in (WORD, "shelf")]
        session = await open_session(hub.site, headers=beta)
        async with hub.site.stream("POST", "/mcp", headers | beta, body) as modern, session.listen() as legacy:
            await modern.message()  # the acknowledgement
            for uri in ("text://zebra/one", "page://zebra/1", "shared://one"):
                server.resource_updated(uri)
            shelf.tool(late)
            async with asyncio.timeout(60):
                for stream in (modern, legacy):
                    assert (await stream.message())["method"] == "notifications/tools/list_changed"


async def test_only_callers_who_see_a_server_are_notified_of_its_changes(tmp_path: Path) -> None:
    async with run_hub(tmp_path, "rule") as (hub, beta):
        selected = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["hub://status"]}
        body, headers = modern_request("subscriptions/listen", {"notifications": selected})
        hidden, shelf = [local_server(hub, name) for name in (WORD, "shelf")]
        session = await open_session(hub.site, headers=beta)
        plain = {"Accept": "text/event-stream"}
        async with (
            hub.site.stream("POST", "/mcp", headers | beta, body) as modern,
            session.listen() as legacy,
            hub.site.stream("GET", "/mcp", plain | beta) as plainly,
            hub.site.stream("POST", "/mcp", headers | hub.ada, body) as seeing,
        ):
            for stream in (modern, seeing):
                await stream.message()  # the acknowledgement
            async with asyncio.timeout(60):
                hidden.tool(late)
                assert (await seeing.message())["method"] == "notifications/tools/list_changed"
                hub.front.hub.notifier.publish_status(WORD)
                assert (await seeing.message())["method"] == "notifications/resources/updated"
                shelf.prompt(late)
                for stream in (seeing, modern, legacy, plainly):
                    assert (await stream.message())["method"] == "notifications/prompts/list_changed"
                hub.front.hub.notifier.publish_status("shelf")
                assert (await modern.message())["method"] == "notifications/resources/updated"


async def test_a_subscription_is_not_notified_of_a_resource_that_a_new_policy_hides(tmp_path: Path) -> None:
    async with run_hub(tmp_path, "tenant") as (hub, beta):
        session = await open_session(hub.site, headers=beta)
        shelf, uris = local_server(hub, "shelf"), ["text://shelf/one", "page://shelf/1"]
        async with session.listen() as stream, asyncio.timeout(60):
            for uri in uris:
                assert "result" in (await session.post(request("resources/subscribe", {"uri": uri}))).json
            shelf.resource_updated(uris[0])
            assert (await stream.message())["params"]["uri"] == uris[0]
            await hub.change(lambda text: text + DENIAL.replace(f'servers = ["{WORD}"]', f'tools = ["{uris[0]}"]'))
            for uri in uris:
                shelf.resource_updated(uri)
            while (message := await stream.message())["method"] != "notifications/resources/updated":
                continue  # every list may have changed
            assert message["params"]["uri"] == uris[1]


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
async def test_quotas_count_what_is_hidden_like_what_does_not_exist(tmp_path: Path, method: str) -> None:
    quota = '\n[[quotas]]\nlimit = "3/hour"\nper = ["user"]\ntenants = ["beta"]\n'
    answers: dict[str, list[Response]] = {}
    for word in (WORD, OTHER_WORD):
        folder = tmp_path / word
        folder.mkdir()
        async with run_hub(folder, "rule", quota) as (hub, beta):
            params = next(params for name, params in requests_with(word) if name == method)
            answers[word] = [await hub.send(beta, method, **params) for _ in range(5)]
            answers[word].append(await hub.send(beta, "tools/call", name="shelf_open", arguments={}))
    for answer, expected in zip(answers[WORD], answers[OTHER_WORD], strict=True):
        assert_same(method, without_times(answer), without_times(expected))


def without_times(answer: Response) -> Response:
    return answer._replace(body=re.sub(rb"[0-9]+", b"N", answer.body))
