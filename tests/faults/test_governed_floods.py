"""One tenant floods a shared hub in every way that it can; the calls of another tenant all succeed.

Also: unsafe characters that reach the hub's log and the terminal of an administrator.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.faults.governed_hub import GovernedHub, governed_hub, texts
from tests.faults.hub_harness import wait_until
from tests.http.eras import initialize_request, open_session
from tests.http.raw_http import call, request

RULES = """
[[quotas]]
limit = "200/minute"
tenants = ["acme"]

[[policy.rules]]
effect = "confirm"
tools = ["wipe"]

[[policy.rules]]
effect = "deny"
tools = ["wait_for"]

[approvals]
via = "queue"
max_pending = 50
"""
FLOOD = 200
CALLS = 10
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\u200b]")


async def flood_calls(hub: GovernedHub, number: int) -> None:
    await hub.call(hub.ada, "record", id=f"flood {number}")


async def flood_sessions(hub: GovernedHub, number: int) -> None:
    assert hub.process is not None
    await hub.process.site.post(initialize_request(), {"Accept": "application/json, text/event-stream"} | hub.ada)


async def flood_approvals(hub: GovernedHub, number: int) -> None:
    await hub.call(hub.ada, "wipe", id=f"flood {number}")


async def flood_denials(hub: GovernedHub, number: int) -> None:
    await hub.call(hub.ada, "wait_for", file=f"flood {number}")


async def flood_large_messages(hub: GovernedHub, number: int) -> None:
    await hub.call(hub.ada, "record", id="x" * 100_000)


async def flood_searches(hub: GovernedHub, number: int) -> None:
    await hub.call(hub.admin, "hub.audit.search", "/mcp/admin", event="decision", limit=1000)


@pytest.mark.parametrize(
    "flood",
    [flood_calls, flood_sessions, flood_approvals, flood_denials, flood_large_messages, flood_searches],
    ids=lambda flood: flood.__name__,
)
async def test_the_calls_of_another_tenant_succeed_during_a_flood(
    tmp_path: Path, flood: Callable[[GovernedHub, int], Awaitable[None]]
) -> None:
    rules = RULES.replace("acme", "beta") if flood is flood_approvals else RULES
    with governed_hub(tmp_path, rules) as hub, hub.serving():
        numbers = iter(range(FLOOD))

        async def work() -> None:
            for number in numbers:
                try:
                    await flood(hub, number)
                except (OSError, EOFError):
                    continue  # refused in another way

        async def use() -> None:
            session = await open_session(hub.process.site, headers=hub.bob)  # type: ignore[union-attr]
            for number in range(CALLS):
                assert texts(await hub.call(hub.bob, "record", id=f"bob {number}")) == f"bob {number}"
                answer = await session.post(call("record", {"id": f"bob's session {number}"}))
                assert answer.status == 200
            if flood is flood_approvals:
                assert b"approval_required" in (await hub.call(hub.bob, "wipe", id="bob")).body

        await asyncio.gather(use(), *(work() for _ in range(32)))
        executed = hub.executed()
        assert len([line for line in executed if line.startswith("bob")]) == 2 * CALLS
        assert hub.process is not None
        report = hub.verify()
        assert report.returncode == 0, report
        recorded = [record for record in hub.records("decision") if record["tenant"] == "beta"]
        assert len(recorded) >= 2 * CALLS
        if flood is flood_denials:
            denied = [record for record in hub.records("decision") if record["decision"]["effect"] == "deny"]
            assert {record["tool"] for record in denied} == {"wait_for"}
        if flood is flood_searches:
            searches = [record for record in hub.records("call.end") if record["tool"] == "hub.audit.search"]
            assert {record["outcome"] for record in searches} == {"ok"}


async def test_a_tenant_that_offers_fifty_times_its_quota_gets_its_quota_and_another_misses_nothing(
    tmp_path: Path,
) -> None:
    with governed_hub(tmp_path, RULES.replace("200/minute", "20/hour")) as hub, hub.serving():
        numbers = iter(range(50 * 20))
        answers: list[str] = []

        async def flood() -> None:
            for number in numbers:
                answers.append((await hub.call(hub.ada, "record", id=f"flood {number}")).body.decode())

        async def use() -> None:
            for number in range(CALLS):
                assert texts(await hub.call(hub.bob, "record", id=f"bob {number}")) == f"bob {number}"

        await asyncio.gather(use(), *(flood() for _ in range(16)))
        refused = [answer for answer in answers if "quota_exceeded" in answer]
        assert (len(answers), len(refused)) == (1000, 980)
        assert all(re.search(r"retry_?after", answer, re.IGNORECASE) for answer in refused)
        executed = hub.executed()
        assert len([line for line in executed if line.startswith("flood")]) == 20
        assert len([line for line in executed if line.startswith("bob")]) == CALLS
        assert len(hub.records("quota.exceeded")) == 1  # one each minute, not one for each call
        assert hub.verify().returncode == 0


async def test_a_flood_of_one_denied_call_writes_a_bounded_number_of_records(tmp_path: Path) -> None:
    rules = RULES.replace("200/minute", "10000/minute")
    with governed_hub(tmp_path, rules) as hub, hub.serving():
        numbers = iter(range(1000))

        async def flood() -> None:
            for number in numbers:
                await hub.call(hub.ada, "wait_for", file=f"flood {number}")

        def counts() -> list[int]:
            found = [record for record in hub.records("decision") if record["tool"] == "wait_for"]
            return [record.get("facts", {}).get("repeated", 1) for record in found]

        await asyncio.gather(*(flood() for _ in range(16)))
        await wait_until(lambda: sum(counts()) == 1000)  # none is lost
        assert len(counts()) <= 100
        assert hub.verify().returncode == 0


async def test_unsafe_characters_reach_neither_the_log_nor_the_terminal(tmp_path: Path) -> None:
    unsafe = "x\r\nforged line\x1b[31m\u2028\u202e\u200b\x9b31m"
    with governed_hub(tmp_path, RULES) as hub, hub.serving("--log-level", "debug") as process:
        hello = initialize_request()
        hello["params"]["clientInfo"] = {"name": unsafe, "version": unsafe, "title": unsafe}
        headers = {
            "Accept": "application/json, text/event-stream",
            "User-Agent": "a\x1b[31m",
            "X-Forwarded-For": "\x1b[2J",
        }
        greeted = await process.site.post(hello, {"Accept": headers["Accept"]} | hub.ada)
        assert greeted.status == 200
        await process.site.post(hello, headers | hub.ada)
        session = {"Mcp-Session-Id": str(greeted.header("mcp-session-id"))}
        for body in (
            call(unsafe),
            request(unsafe),
            call("wipe", {"id": unsafe}),
            request("resources/read", {"uri": unsafe}),
        ):
            await process.site.post(body, {"Accept": headers["Accept"]} | hub.ada | session)
        await process.site.get("/" + "%0d%0aforged%1b[31m", hub.ada)
        for arguments in (
            ["sessions", "list"],
            ["approvals", "list"],
            ["audit", "tail", "--folder", str(hub.audit)],
            ["audit", "search", "--folder", str(hub.audit)],
            ["keys", "list", "--key-file", str(hub.ring.path)],
            [
                "policy",
                "test",
                "--config",
                str(hub.config),
                "--tenant",
                "acme",
                "--user",
                "a\x1b[31m",
                "call",
                f"rec/{unsafe}",
            ],
        ):
            done = await asyncio.to_thread(hub.run, *arguments)
            assert "Traceback" not in done.stderr
            for text in (done.stdout, done.stderr):
                assert not UNSAFE.search(text), (arguments, text)
                assert not any(line.startswith("forged line") for line in text.splitlines()), arguments
        log = hub.log()
        assert not UNSAFE.search(log), log
        assert not any(line.startswith("forged") for line in log.splitlines())


async def test_unsafe_names_in_a_key_file_are_refused_or_shown_safely(tmp_path: Path) -> None:
    with governed_hub(tmp_path) as hub:
        for name in ("a\nb", "a\x1b[31m", "\u202eabc", "../../x", "a/b", ""):
            done = hub.run("keys", "create", "k1", "--key-file", str(hub.ring.path), "--tenant", "acme", "--user", name)
            assert done.returncode == 2, (name, done)
            assert "Traceback" not in done.stderr
            assert not UNSAFE.search(done.stderr), done.stderr
        for tenant in ("../x", "a\nb", "ACME", "\u202e"):
            done = hub.run("keys", "create", "k2", "--key-file", str(hub.ring.path), "--tenant", tenant, "--user", "u")
            assert done.returncode == 2, (tenant, done)
            assert not UNSAFE.search(done.stderr), done.stderr
        text = hub.ring.path.read_text()
        hub.ring.path.write_text(text.replace('"ada"', '"ada\\u001b[31m\\u202e"'))
        done = hub.run("keys", "list", "--key-file", str(hub.ring.path))
        assert "Traceback" not in done.stderr
        assert not UNSAFE.search(done.stdout + done.stderr), done
