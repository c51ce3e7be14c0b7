"""A caller of a shared hub tries to get around policy, approvals and tenants, in every dialect.

Tokens, sessions, cursors, cookies, request states and results of other callers: `tests/http/test_cross_tenant.py`.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from tests.http.eras import modern_request, open_session
from tests.http.raw_http import call, request
from tests.http.test_websocket import exchange, open_websocket
from tests.security.attacked_hub import FORMS, find_approval, is_refused, open_attacked_hub

from hubbub import Principal, Server, ToolAnnotations, UpstreamConfig, ViewSettings
from hubbub.admin.unix_socket import AdminSocket
from hubbub.governance.approval_errors import ApprovalRequired
from hubbub.governance.approvals import Approvals, MarkedCall
from hubbub.governance.decision import PolicyDecision
from hubbub.settings.governance import ApprovalSettings, PolicyRule, TenantSettings

UNSAFE = "x\r\nSet-Cookie: a=b\r\n\x1b[31m\u2028\u202e\u200bend"
UNSAFE_CHARACTERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\u200b]")


# -- getting around the policy ------------------------------------------------------------


async def test_no_dialect_calls_what_the_policy_denies(tmp_path: Path) -> None:
    async with open_attacked_hub(tmp_path) as hub:
        session = await open_session(hub.running.site, headers=hub.ada)
        attempts = {
            "modern": await hub.call(hub.ada, "hidden"),
            "legacy": await session.post(call("hidden")),
            "plain": await hub.post(hub.ada, call("hidden")),
            "method": await hub.post(hub.ada, request("hidden", {})),
            "hub.call": await hub.call(hub.ada, "hub.call", name="hidden", arguments={}),
            "hub.call as method": await hub.post(hub.ada, request("hub.call", {"name": "hidden", "arguments": {}})),
            "prefixed": await hub.call(hub.ada, "box__hidden"),
            "read": await hub.modern(hub.ada, "resources/read", uri="note://secret"),
            "prefixed read": await hub.modern(hub.ada, "resources/read", uri="box+note://secret"),
            "subscribe": await session.post(request("resources/subscribe", {"uri": "note://secret"})),
        }
        async with open_websocket(hub.running.site, additional_headers=hub.ada) as socket:
            for message in (request("hidden", {}), call("hidden"), request("resources/read", {"uri": "note://secret"})):
                refused = await exchange(socket, message)
                assert "error" in refused or refused["result"]["isError"]
                assert "a secret" not in json.dumps(refused)
            waits = await exchange(socket, call("wipe"))
            assert "apr_" in json.dumps(waits)
        for name, answer in attempts.items():
            assert is_refused(answer), name
            assert b"a secret" not in answer.body
        assert hub.executed == []
        assert not is_refused(await hub.call(hub.ada, "look", id="1"))
        assert not is_refused(await hub.post(hub.ada, request("look", {"id": "2"})))


@pytest.mark.parametrize(
    "name",
    ["WIPE", "Wipe", "wipe ", " wipe", "wipe\x00", "ｗipe", "wi\u200bpe", "wipe\u0301", "box/wipe", "./wipe", "w%69pe"],
)
async def test_other_spellings_of_a_name_call_nothing(tmp_path: Path, name: str) -> None:
    async with open_attacked_hub(tmp_path) as hub:
        for answer in (
            await hub.post(hub.ada, call(name)),
            await hub.post(hub.ada, request(name, {})),
            await hub.call(hub.ada, "hub.call", name=name, arguments={}),
        ):
            assert is_refused(answer)
            assert "apr_" not in answer.body.decode()
        assert hub.executed == []


async def test_a_batch_runs_what_is_allowed_and_nothing_else(tmp_path: Path) -> None:
    async with open_attacked_hub(tmp_path) as hub:
        batch = [
            call("look", {"id": "1"}, id=1),
            call("hidden", id=2),
            call("wipe", id=3),
            call("look", {"id": "2"}, id=4),
        ]
        answer = await hub.post(hub.ada, batch)
        found = {each["id"]: each for each in answer.json}
        assert "error" in found[2]
        assert "apr_" in json.dumps(found[3])
        assert sorted(hub.executed) == ["look 1", "look 2"]
    # Once the journal is closed: nobody waits for the record of a call that its caller does not see.
    effects = [record["decision"]["effect"] for record in hub.records() if record["event"] == "decision"]
    assert sorted(effects) == ["allow", "allow", "confirm", "deny"]


async def test_a_view_does_not_lift_the_rules_of_a_tenant(tmp_path: Path) -> None:
    views = {"all": ViewSettings(servers=("box",)), "open": ViewSettings()}
    async with open_attacked_hub(tmp_path, views=views) as hub:
        for view in views:
            assert is_refused(await hub.call(hub.ada, "hidden", f"/mcp/{view}"))
            assert "apr_" in (await hub.call(hub.ada, "wipe", f"/mcp/{view}")).body.decode()
            listed = (await hub.modern(hub.ada, "tools/list", f"/mcp/{view}")).body
            assert b"hidden" not in listed
            assert b'"look"' in listed
        assert hub.executed == []


async def test_the_server_of_another_tenant_does_not_exist(tmp_path: Path) -> None:
    private = Server("private")

    @private.tool
    async def payroll() -> str:
        """Only for beta."""
        return "a secret"

    rules = (PolicyRule(effect="deny", tenants=("acme",), servers=("private",)),)
    async with open_attacked_hub(tmp_path, UpstreamConfig(id="private", server=private), rules=rules) as hub:
        assert not is_refused(await hub.call(hub.bob, "payroll"))
        for name in ("payroll", "private__payroll"):
            stolen = await hub.call(hub.ada, name)
            unknown = await hub.call(hub.ada, "unknown")
            assert stolen.body.replace(name.encode(), b"NAME") == unknown.body.replace(b"unknown", b"NAME")
        status = await hub.call(hub.ada, "hub.status")
        assert b"private" not in status.body


# -- getting around approvals ---------------------------------------------------------------


@pytest.mark.parametrize("via", ["queue", "client", "auto"])
@pytest.mark.parametrize("state", ["bogus", "", "apr_0000000000000000"])
async def test_a_made_up_request_state_does_not_replace_an_approval(tmp_path: Path, via: str, state: str) -> None:
    async with open_attacked_hub(tmp_path, via=via) as hub:
        for capabilities in ({}, FORMS):
            answer = await hub.modern(
                hub.ada, "tools/call", capabilities=capabilities, name="wipe", arguments={}, requestState=state,
                inputResponses={"x": {"action": "accept", "content": {"approve": True}}},
            )  # fmt: skip
            assert is_refused(answer)
        assert hub.executed == []


async def test_a_request_state_of_another_tool_does_not_replace_an_approval(tmp_path: Path) -> None:
    async with open_attacked_hub(tmp_path, via="client") as hub:
        asked = (await hub.call(hub.ada, "wipe", capabilities=FORMS, id="small")).json["result"]
        (key,) = asked["inputRequests"]
        accepted = {key: {"action": "accept", "content": {"approve": True}}}

        async def answer(caller: dict[str, str], **changed: Any) -> Any:
            params = {"name": "wipe", "arguments": {"id": "small"}, "requestState": asked["requestState"]} | changed
            return await hub.modern(caller, "tools/call", capabilities=FORMS, inputResponses=accepted, **params)

        assert is_refused(await answer(hub.ada_admin)), "another credential of the same user"
        assert is_refused(await answer(hub.carol))
        assert is_refused(await answer(hub.bob))
        assert hub.executed == []
        other_arguments = await answer(hub.ada, arguments={"id": "everything"})
        assert "wipe everything" not in hub.executed
        if is_refused(other_arguments):
            assert not is_refused(await answer(hub.ada))
        assert hub.executed == ["wipe small"]
        assert is_refused(await answer(hub.ada)), "a replay"
        assert hub.executed == ["wipe small"]


async def test_nobody_approves_an_own_call_with_another_key_or_a_call_of_another_tenant(tmp_path: Path) -> None:
    async with open_attacked_hub(tmp_path) as hub:
        approval = find_approval(await hub.call(hub.ada, "wipe", id="1"))
        for key in (hub.ada, hub.ada_admin, hub.bob):
            assert is_refused(await hub.decide(key, approval)) or (await hub.decide(key, approval)).status == 404
            assert is_refused(await hub.call(hub.ada, "wipe", id="1"))
        assert approval.encode() not in (await hub.call(hub.bob, "hub.approvals.list", "/mcp/admin")).body
        assert hub.executed == []
        assert not is_refused(await hub.decide(hub.carol, approval))
        for other in (hub.carol, hub.ada_admin, hub.bob):
            assert is_refused(await hub.call(other, "wipe", id="1")), "an approval is for one caller"
        assert is_refused(await hub.call(hub.ada, "wipe", id="2"))
        assert hub.executed == []
        assert not is_refused(await hub.call(hub.ada, "wipe", id="1"))
        assert is_refused(await hub.call(hub.ada, "wipe", id="1")), "a replay"
        assert hub.executed == ["wipe 1"]


async def test_the_admin_tools_are_not_reachable_at_other_paths(tmp_path: Path) -> None:
    async with open_attacked_hub(tmp_path, views={"all": ViewSettings()}) as hub:
        approval = find_approval(await hub.call(hub.ada, "wipe", id="1"))
        for path in ("/mcp", "/mcp/all"):
            for name, arguments in (
                ("hub.approvals.approve", {"id": approval}),
                ("hub.call", {"name": "hub.approvals.approve", "arguments": {"id": approval}}),
            ):
                assert is_refused(await hub.call(hub.carol, name, path, **arguments))
        for path in ("/mcp/Admin", "/mcp/admin/", "/mcp//admin", "/mcp/%61dmin", "/mcp/all/../admin"):
            answer = await hub.call(hub.ada, "hub.approvals.approve", path, id=approval)
            assert answer.status in (400, 403, 404), path
        assert is_refused(await hub.call(hub.ada, "wipe", id="1"))
        assert hub.executed == []


async def test_arguments_with_a_member_twice_are_not_approved(tmp_path: Path) -> None:
    async with open_attacked_hub(tmp_path) as hub:
        body, headers = modern_request("tools/call", {"name": "wipe", "arguments": {"id": "small"}})
        text = json.dumps(body)
        approval = find_approval(await hub.send_raw(hub.ada, text.encode(), headers))
        assert not is_refused(await hub.decide(hub.carol, approval))
        for twice in (
            '{"id": "everything", "id": "small"}',
            '{"id": "small", "id": "everything"}',
            '{"id": "small", "\\u0069d": "all"}',
        ):
            forged = text.replace('{"id": "small"}', twice)
            assert forged != text
            assert is_refused(await hub.send_raw(hub.ada, forged.encode(), headers))
        name_twice = text.replace('"name": "wipe"', '"name": "look", "name": "wipe"')
        assert is_refused(await hub.send_raw(hub.ada, name_twice.encode(), headers)) or hub.executed == ["wipe small"]
        assert "wipe everything" not in hub.executed
        assert "wipe all" not in hub.executed


@pytest.mark.parametrize("answerer", ["carol", "bob", "ada_admin"])
async def test_the_question_of_one_caller_cannot_be_answered_on_the_connection_of_another(
    tmp_path: Path, answerer: str
) -> None:
    async with open_attacked_hub(tmp_path, via="client") as hub:
        ada = await open_session(hub.running.site, capabilities={"elicitation": {}}, headers=hub.ada)
        other = await open_session(hub.running.site, capabilities={"elicitation": {}}, headers=getattr(hub, answerer))
        async with ada.call(call("wipe", {"id": "1"}, id=5)) as stream:
            question = await stream.message()
            assert question["method"] == "elicitation/create"
            answer = {
                "jsonrpc": "2.0",
                "id": question["id"],
                "result": {"action": "accept", "content": {"approve": True}},
            }
            await other.post(answer)
            stolen = {"Mcp-Session-Id": ada.id}
            assert (await other.post(answer, stolen)).status == 404
            assert hub.executed == []
            declined = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
            await ada.post(declined)
            result = await stream.message()
            assert result["id"] == 5
            assert result["result"]["isError"]
        assert hub.executed == []


async def test_a_server_that_drops_its_destructive_annotation_is_decided_about_by_what_it_declares(
    tmp_path: Path,
) -> None:
    """Documented: annotations are claims of the server; rules by name and pins hold against it."""
    executed: list[str] = []

    def make(hint: bool) -> Server:
        server = Server("box")

        @server.tool(annotations=ToolAnnotations(read_only_hint=hint))
        async def wipe() -> str:
            """Delete."""
            executed.append("wipe")
            return "wiped"

        return server

    by_annotation = (PolicyRule(effect="confirm", annotations=("destructive",)),)
    by_name = (PolicyRule(effect="confirm", tools=("box/wipe",)),)
    for number, (rules, hint, runs) in enumerate(
        [(by_annotation, False, False), (by_annotation, True, True), (by_name, True, False)]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        executed.clear()
        async with open_attacked_hub(folder, rules=rules, server=make(hint)) as hub:
            await hub.call(hub.ada, "wipe")
        assert executed == (["wipe"] if runs else [])


# -- injection ------------------------------------------------------------------------------


async def test_names_and_headers_of_an_attacker_stay_one_safe_line_in_the_journal_and_in_commands(
    tmp_path: Path,
) -> None:
    server = Server("box")

    @server.tool(name="odd", description=UNSAFE)
    async def odd() -> str:
        """Raise an error with unsafe characters."""
        raise ValueError(UNSAFE)

    rules = (PolicyRule(effect="deny", tools=("hidden",)), PolicyRule(effect="confirm", tools=("odd",)))
    async with open_attacked_hub(tmp_path, rules=rules, server=server) as hub:
        body, headers = modern_request("tools/call", {"name": "odd", "arguments": {"x": UNSAFE}})
        body["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = {"name": UNSAFE, "version": UNSAFE}
        body["params"]["_meta"]["traceparent"] = UNSAFE
        extra = {"User-Agent": "x\x1b[31mred", "X-Forwarded-For": "1.2.3.4\x1b[2J, \x9b31m"}
        for odd_headers in (extra, {}):
            await hub.post(hub.ada, body, headers=headers | odd_headers)
        await hub.post(hub.ada, call(UNSAFE))
        await hub.post(hub.ada, request(UNSAFE, {}))
        await hub.modern(hub.ada, "resources/read", uri=f"note://{UNSAFE}")
        listed = await hub.call(hub.carol, "hub.approvals.list", "/mcp/admin")
        assert listed.status == 200
    raw = b"".join(path.read_bytes() for path in hub.audit.glob("journal-*")).decode()
    assert not UNSAFE_CHARACTERS.search(raw)
    for line in raw.splitlines():
        json.loads(line)
    for arguments in (["tail"], ["search"], ["export"], ["export", "--format", "csv"]):
        done = subprocess.run(
            [sys.executable, "-m", "hubbub", "audit", *arguments, "--folder", str(hub.audit)],
            capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert not UNSAFE_CHARACTERS.search(done.stdout.decode().replace("\t", " ").replace("\r\n", "\n"))


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "", "a\nb", "A", "x" * 80, "é", "-a", "a.b", "\u202ea"])
def test_names_of_tenants_that_could_be_paths_are_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": name}, TenantSettings)


@pytest.mark.parametrize(
    "id", ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "a/../b", "\x00", "x" * 5000]
)
async def test_ids_of_results_are_not_paths(tmp_path: Path, id: str) -> None:
    async with open_attacked_hub(tmp_path) as hub:
        assert is_refused(await hub.call(hub.ada, "hub.read_result", id=id))
        for answer in (
            await hub.modern(hub.ada, "resources/read", uri=f"hub://results/{id}"),
            await hub.modern(hub.ada, "resources/read", uri=f"hub://results/../{id}"),
        ):
            assert is_refused(answer)
            assert b"root:" not in answer.body


# -- the socket of administration -------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
async def test_the_admin_socket_does_not_serve_other_users(tmp_path: Path) -> None:
    with TemporaryDirectory() as folder:
        state = Path(folder)
        async with open_attacked_hub(tmp_path) as hub:
            socket = AdminSocket(hub.gateway.main_front, state)
            async with socket.running():
                assert socket.path is not None
                # Even if the folder were open to everyone, the kernel reports who connects.
                for path in (state, Path(socket.path).parent, Path(socket.path)):
                    path.chmod(0o777)
                assert int((await connect_as("root", socket.path))[1]) > 0
                code, output = await connect_as("nobody", socket.path)
                assert code != 0 or int(output) == 0, output


CONNECT = """
import os, socket, sys
if sys.argv[2] == "nobody":
    os.setgid(65534)
    os.setuid(65534)
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
link.sendall(b"GET /mcp/admin HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
print(len(link.recv(1000)))
"""


async def connect_as(user: str, path: str) -> tuple[int | None, str]:
    """Send a request as another user; return the exit code, and the number of bytes of the answer or an error."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CONNECT, path, user, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, errors = await process.communicate()
    return process.returncode, (output or errors).decode()


# -- clocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("jump_s", [-1e9, -3600.0, 3600.0, 1e9])
def test_a_jump_of_the_system_clock_neither_extends_nor_ends_an_approval(jump_s: float) -> None:
    monotonic, wall = [100.0], [1.7e9]
    queue = Approvals(ApprovalSettings(expires_s=60), clock=lambda: monotonic[0], wall_clock=lambda: wall[0])
    ada = Principal("acme/ada#1", tenant="acme", user="ada")
    carol = Principal("acme/carol#1", tenant="acme", user="carol")
    marked = MarkedCall(ada, "box", "wipe", b"{}", PolicyDecision("confirm", "policy.rules[0]", version="v1"))
    with pytest.raises(ApprovalRequired):
        queue.require(marked)
    wall[0] += jump_s
    (pending,) = queue.list_pending(carol)
    queue.approve(pending.id, carol)
    wall[0] -= 2 * jump_s
    monotonic[0] += 61
    with pytest.raises(ApprovalRequired):
        queue.require(marked)
