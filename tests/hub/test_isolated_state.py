"""What a caller of a hub was given or has caused belongs to its tenant, user and credential.

Handles: each is used by its owner and refused to everyone else, as if it did not exist. Counters, records and secrets:
each is that of the caller. Front sessions, cursors and event streams are in `tests/http/test_cross_tenant.py`.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.http.eras import open_session
from tests.http.raw_http import TIMEOUT_S, Response
from tests.http.raw_http import call as plain_call
from tests.http.raw_http import request as legacy_request
from tests.hub.counting_upstream import LEGACY, MODERN, run_counting_upstream
from tests.hub.file_hub import SOURCE
from tests.hub.tenant_hub import PARTS, TENANTS, Key, TenantHub, run_tenant_hub
from tests.interop import server as interop_server

from hubbub import Principal
from hubbub.governance.journal_reader import read_records
from hubbub.pack import data_folder

pytestmark = [pytest.mark.usefixtures("own_folders"), pytest.mark.requirement("I2", "I6")]

each_part = pytest.mark.parametrize("part", PARTS)
ELICITATION: dict[str, Any] = {"elicitation": {"form": {}}}
PROGRAM = """
from pathlib import Path

import msgspec
from hubbub import Context, Server

server = Server("desk")
notes = {}


class Name(msgspec.Struct):
    name: str


@server.tool
async def note(context: Context, text: str = "") -> str:
    return notes.setdefault(context.scope, text)


@server.tool
async def big() -> str:
    return "x" * 50_000


@server.tool
async def greet(context: Context) -> str:
    answer = await context.elicit("Who are you?", Name)
    return f"Hello, {answer.content.name}!"


@server.tool
async def erase(what: str) -> str:
    return f"erased {what}"


@server.tool
async def roots(context: Context) -> str:
    return " ".join(root.uri for root in await context.roots())


@server.tool
async def count_decisions(folder: str) -> str:
    lines = [line for path in Path(folder).rglob("*") if path.is_file() for line in path.read_bytes().splitlines()]
    return str(sum(b'"decision"' in line and b"count_decisions" in line for line in lines))


@server.tool
async def who(context: Context) -> str:
    return context.caller.principal.name
"""
SETTINGS = """
[hub]
result_bytes = 10000

[[policy.rules]]
effect = "confirm"
tools = ["desk/erase"]
"""


@asynccontextmanager
async def run_desk(folder: Path, more: str = "") -> AsyncIterator[TenantHub]:
    (folder / "desk.py").write_text(PROGRAM)
    text = f'[servers.desk]\ntarget = "{folder / "desk.py"}"\n'
    for name, version in (("old", LEGACY), ("new", MODERN)):
        text += (
            f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\n"
            f"args = {json.dumps([interop_server.__file__])}\n"
            f'prefix = "always"\nprotocol_version = "{version}"\nenv = {{PYTHONPATH = "{SOURCE}"}}\n'
        )
    async with run_tenant_hub(folder, text + SETTINGS + more) as hub:
        yield hub


# -- handles --------------------------------------------------------------------------

Use = Callable[[Key], Awaitable[Response]]


class Handle:
    """Something that `ada` got, how to use it, and what the response says if that works."""

    def __init__(self, use: Use, proof: str) -> None:
        self.use = use
        self.proof = proof

    async def works_for(self, key: Key) -> bool:
        answer = await self.use(key)
        return answer.status == 200 and self.proof in answer.body.decode()


async def get_result_id(hub: TenantHub) -> str:
    answer = await hub.send(hub.ada, "tools/call", name="big", arguments={})
    found = re.search(r"hub://results/([\w-]+)", answer.body.decode())
    assert found is not None, answer
    return found[1]


async def get_result_link(hub: TenantHub) -> Handle:
    uri = f"hub://results/{await get_result_id(hub)}"
    return Handle(lambda key: hub.send(key, "resources/read", uri=uri), "xxxx")


async def get_stored_result(hub: TenantHub) -> Handle:
    arguments = {"id": await get_result_id(hub)}
    return Handle(lambda key: hub.send(key, "tools/call", name="hub.read_result", arguments=arguments), "xxxx")


async def suspend(hub: TenantHub, tool: str, content: dict[str, Any], proof: str, **arguments: Any) -> Handle:
    """Start a call that asks its caller; who has its request state may answer."""
    params = {"name": tool, "arguments": arguments}
    asked = (await hub.send(hub.ada, "tools/call", capabilities=ELICITATION, **params)).json["result"]
    assert asked["resultType"] == "input_required", asked
    responses = {key: {"action": "accept", "content": content} for key in asked["inputRequests"]}
    answer = params | {"inputResponses": responses, "requestState": asked["requestState"]}
    return Handle(lambda key: hub.send(key, "tools/call", capabilities=ELICITATION, **answer), proof)


async def suspend_local(hub: TenantHub) -> Handle:
    return await suspend(hub, "greet", {"name": "Ada"}, "Hello, Ada!")


async def suspend_legacy(hub: TenantHub) -> Handle:
    return await suspend(hub, "old__ask_name", {"name": "Ada", "age": 36}, "Ada is 36")


async def suspend_modern(hub: TenantHub) -> Handle:
    return await suspend(hub, "new__ask_name", {"name": "Ada", "age": 36}, "Ada is 36")


async def ask_approval(hub: TenantHub) -> Handle:
    """A call that waits for an approval in the caller's client."""
    return await suspend(hub, "erase", {"approve": True}, "erased all", what="all")


async def get_approval(hub: TenantHub) -> Handle:
    """A call that was approved in the queue."""
    params = {"name": "erase", "arguments": {"what": "all"}}
    refused = await hub.send(hub.ada, "tools/call", **params)
    found = re.search(r"apr_\w+", refused.body.decode())
    assert found is not None, refused
    governor = hub.front.hub.governor
    assert governor is not None
    assert governor.approvals is not None
    governor.approvals.approve(found[0], Principal("acme/boss#1", tenant="acme", user="boss"))
    return Handle(lambda key: hub.send(key, "tools/call", **params), "erased all")


async def get_session(hub: TenantHub) -> Handle:
    session = await open_session(hub.site, headers=hub.ada)
    return Handle(lambda key: session.post(plain_call("who"), key), "acme/ada#")


async def get_cookie(hub: TenantHub) -> Handle:
    """The cookie of the plain dialect, which selects the state of a caller in a server of this process."""
    first = await hub.site.post(plain_call("note", {"text": "a secret"}), hub.ada)
    cookie = {"Cookie": str(first.header("set-cookie")).partition(";")[0]}
    return Handle(lambda key: hub.site.post(plain_call("note"), key | cookie), "a secret")


HANDLES = [
    get_result_link, get_stored_result, suspend_local, suspend_legacy, suspend_modern, ask_approval, get_approval,
    get_session, get_cookie,
]  # fmt: skip


@each_part
@pytest.mark.parametrize("get", HANDLES, ids=lambda get: get.__name__.removeprefix("get_"))
async def test_a_handle_works_for_its_owner_only(
    tmp_path: Path, part: str, get: Callable[[TenantHub], Awaitable[Handle]]
) -> None:
    async with run_desk(tmp_path) as hub:
        handle = await get(hub)
        assert not await handle.works_for(await hub.other(part))
        assert await handle.works_for(hub.ada)


# -- requests of servers --------------------------------------------------------------


@each_part
async def test_requests_of_a_server_reach_the_caller_whose_call_it_works_on(tmp_path: Path, part: str) -> None:
    async with run_desk(tmp_path) as hub:
        capabilities: dict[str, Any] = {"elicitation": {"form": {}}, "roots": {}}
        keys = {"ada": hub.ada, "other": await hub.other(part)}
        sessions = {
            name: await open_session(hub.site, capabilities=capabilities, headers=key) for name, key in keys.items()
        }
        for tool in ("roots", "greet", "old__ask_name"):
            async with sessions["ada"].call(plain_call(tool)) as one, sessions["other"].call(plain_call(tool)) as two:
                streams = {"other": two, "ada": one}
                for name, stream in streams.items():
                    asked = await stream.message()
                    result: dict[str, Any] = {"action": "accept", "content": {"name": name, "age": 1}}
                    if asked["method"] == "roots/list":
                        result = {"roots": [{"uri": f"file:///{name}"}]}
                    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
                    assert (await sessions[name].post(answer)).status == 202
                for name, stream in streams.items():
                    text = json.dumps(await stream.message())
                    assert name in text
                    assert ({"ada", "other"} - {name}).pop() not in text


async def test_state_of_a_server_in_the_hub_is_that_of_the_session(tmp_path: Path) -> None:
    async with run_desk(tmp_path) as hub:
        for part in ("ada", *PARTS):
            key = hub.ada if part == "ada" else await hub.other(part)
            session = await open_session(hub.site, headers=key)
            for text in (part, "later"):
                said = (await session.post(plain_call("note", {"text": text}))).json
                assert said["result"]["content"][0]["text"] == part


# -- subscriptions --------------------------------------------------------------------


@each_part
async def test_a_change_in_the_process_of_one_caller_is_notified_to_that_caller(tmp_path: Path, part: str) -> None:
    notebook = Path(__file__).with_name("notebook.py")
    section = (
        f"[servers.notes]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([str(notebook)])}\n"
        f'protocol_version = "{LEGACY}"\nenv = {{PYTHONPATH = "{SOURCE}"}}\n'
    )
    async with run_tenant_hub(tmp_path, section) as hub:
        ada, other = [await open_session(hub.site, headers=key) for key in (hub.ada, await hub.other(part))]
        for session in (ada, other):
            await session.post(plain_call("pid"))
            await session.post(legacy_request("resources/subscribe", {"uri": "page://mine"}))
        async with ada.listen() as mine, other.listen() as theirs:
            for session, stream in ((other, theirs), (ada, mine)):
                await session.post(plain_call("write", {"text": "mine"}))
                assert (await stream.message())["params"]["uri"] == "page://mine"
            for session, stream in ((ada, mine), (other, theirs)):
                await session.end()
                assert [event for event in await stream.rest() if event.data] == []


# -- quotas ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("per", "shared"), [("tenant", {"credential", "rotation", "user"}), ("user", {"credential", "rotation"})]
)
async def test_a_quota_is_counted_for_its_tenant_or_user(tmp_path: Path, per: str, shared: set[str]) -> None:
    quota = f'\n[[quotas]]\nlimit = "2/hour"\nper = ["{per}"]\ntools = ["who"]\n'
    async with run_desk(tmp_path, quota) as hub:
        others = {part: await hub.other(part) for part in PARTS}
        for _ in range(2):
            await hub.call(hub.ada, "who")
        for part, key in others.items():
            answer = await hub.send(key, "tools/call", name="who", arguments={})
            assert bool(answer.json["result"].get("isError")) is (part in shared), part


# -- audit ----------------------------------------------------------------------------


@pytest.mark.requirement("A1")
async def test_records_name_the_tenant_user_and_credential_of_the_call(tmp_path: Path) -> None:
    names = {}
    async with run_desk(tmp_path, '\n[[policy.rules]]\neffect = "deny"\ntools = ["desk/big"]\n') as hub:
        for part in ("ada", *PARTS):
            key = hub.ada if part == "ada" else await hub.other(part)
            names[part] = await hub.call(key, "who")
            await hub.send(key, "tools/call", name="big", arguments={})
    assert len(set(names.values())) == len(names)
    records = [record for _, record in read_records(data_folder() / "audit")]
    for tool, effect in (("who", "allow"), ("big", "deny")):
        found = [record for record in records if record.event == "decision" and record.tool == tool]
        assert [f"{record.tenant}/{record.user}#{record.credential}" for record in found] == list(names.values())
        assert {record.decision.effect for record in found if record.decision} == {effect}
    ends = [record for record in records if record.event == "call.end" and record.tool == "who"]
    assert [f"{record.tenant}/{record.user}" for record in ends] == [name.partition("#")[0] for name in names.values()]


@pytest.mark.requirement("A2")
async def test_the_decision_is_in_the_journal_before_the_tool_runs(tmp_path: Path) -> None:
    async with run_desk(tmp_path) as hub:
        folder = str(data_folder() / "audit")
        for number in (1, 2, 3):
            assert await hub.call(hub.ada, "count_decisions", folder=folder) == str(number)


@pytest.mark.requirement("A2")
async def test_a_journal_that_cannot_be_written_refuses_calls_before_they_run(tmp_path: Path) -> None:
    async with run_desk(tmp_path) as hub:
        session = await open_session(hub.site, headers=hub.ada)
        folder = data_folder() / "audit"
        folder.rename(tmp_path / "moved")
        refused = await session.post(plain_call("note", {"text": "too early"}))
        assert "too early" not in refused.body.decode()
        (tmp_path / "moved").rename(folder)
        async with asyncio.timeout(TIMEOUT_S):
            while "result" not in (again := await session.post(plain_call("note", {"text": "later"}))).json:
                await asyncio.sleep(0.05)
        assert again.json["result"]["content"][0]["text"] == "later", "the refused call left no note"


# -- caches ---------------------------------------------------------------------------


@pytest.mark.requirement("I5")
async def test_what_a_hub_lists_is_private_to_its_caller(tmp_path: Path) -> None:
    denial = '\n[[policy.rules]]\neffect = "deny"\nusers = ["bob"]\ntools = ["desk/who"]\n'
    async with run_desk(tmp_path, denial) as hub:
        bob = await hub.other("user")
        for _ in range(2):
            for key, sees_it in ((hub.ada, True), (bob, False)):
                for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
                    result = (await hub.send(key, method)).json["result"]
                    assert result["cacheScope"] == "private"
                    assert ("who" in [entry["name"] for entry in result.get("tools", [])]) is (
                        sees_it and method == "tools/list"
                    )


# -- secrets --------------------------------------------------------------------------


@pytest.mark.requirement("K1")
@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_each_tenant_sends_its_own_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("KEY_OF_ACME", "value-of-acme-6f1c2a")
    monkeypatch.setenv("KEY_OF_BETA", "value-of-beta-93b07d")
    async with run_counting_upstream(version) as upstream:
        text = (
            f'[servers.there]\nurl = "{upstream.url}"\nheaders = {{X-Key = "${{secret:key}}"}}\n'
            '[secrets.key]\nenv = "KEY_OF_BETA"\n[secrets.key.tenant]\nacme = {env = "KEY_OF_ACME"}\n'
        )
        async with run_tenant_hub(tmp_path, text, TENANTS) as hub:
            for part, owner in (("ada", "acme"), ("tenant", "beta"), ("user", "acme"), ("credential", "acme")):
                upstream.keys.clear()
                answer = await hub.call(hub.ada if part == "ada" else await hub.other(part), "probe")
                assert set(upstream.keys) == {{"acme": "value-of-acme-6f1c2a", "beta": "value-of-beta-93b07d"}[owner]}
                assert "value-of" not in answer


@pytest.mark.requirement("K1")
async def test_a_server_is_hidden_from_a_tenant_that_may_not_use_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_HUB", "value-of-hub-6f1c2a")
    async with run_counting_upstream(MODERN) as upstream:
        text = f'[servers.there]\nurl = "{upstream.url}"\nheaders = {{X-Key = "${{secret:key}}"}}\n'
        secret = '[secrets.key]\nenv = "KEY_OF_HUB"\nhub = true\ntenants = ["acme"]\n'
        async with run_tenant_hub(tmp_path, text + secret, TENANTS) as hub:
            other = await hub.other("tenant")
            assert "value-of" not in await hub.call(hub.ada, "probe")
            upstream.keys.clear()
            refused = await hub.send(other, "tools/call", name="probe", arguments={})
            assert refused.json["error"]["message"] == "Tool not found"
            assert "probe" not in (await hub.send(other, "tools/list")).body.decode()
            assert upstream.keys == []
            await hub.change(lambda text: text.replace('tenants = ["acme"]', 'tenants = ["acme", "beta"]'))
            assert await hub.call(other, "probe")
