"""Files of a running hub that many people share are broken, repaired and changed: the last good ones stay in force."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.faults.governed_hub import TENANTS, GovernedHub, digest, error_text, governed_hub, texts
from tests.faults.hub_harness import wait_until
from tests.http.eras import open_session
from tests.http.raw_http import call, request

DENY_WIPE = """
[[policy.rules]]
effect = "deny"
tools = ["wipe"]
"""
DENY_RECORD = DENY_WIPE.replace("wipe", "record")


async def wait_for_tools(hub: GovernedHub, condition: Callable[[set[str]], bool]) -> None:
    while not condition(await hub.tool_names(hub.ada)):
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        pytest.param('[[policy.rules]]\neffect = "dney"\n', "line 15: policy.rules[0].effect", id="effect"),
        pytest.param("[[policy.rules]\n", "line 14", id="syntax"),
        pytest.param('[[policy.rules]]\neffect = "deny"\ntool = ["x"]\n', "line 16: policy.rules[0].tool", id="key"),
        pytest.param('[[quotas]]\nlimit = "many"\n', "line 14", id="limit"),
        pytest.param('[pins]\nmode = "enforce"\n', "restart", id="pins"),
    ],
)
async def test_the_last_good_settings_stay_in_force_and_the_error_names_the_line(
    tmp_path: Path, broken: str, line: str
) -> None:
    with governed_hub(tmp_path, DENY_WIPE) as hub, hub.serving():
        assert "wipe" not in await hub.tool_names(hub.ada)
        hub.write_config(broken)
        await hub.wait_for_log("settings_not_applied")
        found = next(text for text in hub.log().splitlines() if "settings_not_applied" in text)
        assert line in found
        assert str(hub.config) in found or line == "restart"
        assert "wipe" not in await hub.tool_names(hub.ada), "the last good rule is in force"
        assert texts(await hub.call(hub.ada, "record", id="1")) == "1"
        plan = hub.run("plan", "--config", str(hub.config))
        assert line in plan.stdout + plan.stderr
        hub.write_config(DENY_RECORD)
        await wait_for_tools(hub, lambda names: "wipe" in names and "record" not in names)


async def test_a_first_policy_is_not_reported_as_applied_by_a_hub_that_cannot_apply_it(tmp_path: Path) -> None:
    with governed_hub(tmp_path, tenants="") as hub:
        bare = hub.config.read_text().partition("[audit]")[0]
        hub.config.write_text(bare)
        with hub.serving():
            hub.config.write_text(bare + DENY_WIPE)
            await hub.wait_for_log("settings_not_applied")
            assert "restart" in hub.log()
            assert "applied ~" not in hub.log()


async def test_a_changed_or_broken_file_of_cedar_policies_is_noticed(tmp_path: Path) -> None:
    pytest.importorskip("cedarpy")
    cedar = tmp_path / "team.cedar"
    permit = "permit(principal, action, resource);\n"
    cedar.write_text(permit)
    policy = f'[policy]\nengine = "cedar"\nfile = "{cedar}"\n'
    with governed_hub(tmp_path, policy) as hub, hub.serving():
        assert "wipe" in await hub.tool_names(hub.ada)
        cedar.write_text(permit + '\nforbid(principal, action, resource) when { resource.name == "wipe" };\n')
        await wait_for_tools(hub, lambda names: "wipe" not in names)
        cedar.write_text(permit + "\n\npermit(principal, action, resource) whn { true };\n")
        await hub.wait_for_log("settings_not_applied")
        found = next(text for text in hub.log().splitlines() if "settings_not_applied" in text)
        assert f"{cedar} line 4" in found
        assert "wipe" not in await hub.tool_names(hub.ada)
        cedar.unlink()
        await wait_until(lambda: hub.log().count("settings_not_applied") == 2, hub.log)
        assert "wipe" not in await hub.tool_names(hub.ada)
        cedar.write_text(permit)
        await wait_for_tools(hub, lambda names: "wipe" in names)


async def test_a_broken_key_file_keeps_the_last_good_keys(tmp_path: Path) -> None:
    with governed_hub(tmp_path) as hub, hub.serving():
        assert texts(await hub.call(hub.ada, "record", id="1")) == "1"
        good = hub.ring.path.read_text()
        hub.ring.path.write_text(good + "\n[[key]\n")
        while str(hub.ring.path) not in hub.log():
            assert texts(await hub.call(hub.ada, "record", id="1")) == "1"
        assert f"line {len(good.splitlines()) + 2}" in hub.log()
        assert texts(await hub.call(hub.ada, "record", id="2")) == "2"
        eve = hub.ring.add("eve", tenant="beta", user="eve")
        while (await hub.call(eve, "record", id="3")).status == 401:
            await asyncio.sleep(0.05)
        hub.ring.revoke("ada")
        while (await hub.call(hub.ada, "record", id="4")).status != 401:
            await asyncio.sleep(0.05)


async def test_a_broken_lock_file_keeps_what_was_approved_before(tmp_path: Path) -> None:
    lock = tmp_path / "hubbub.lock"
    with governed_hub(tmp_path, '[pins]\nmode = "enforce"\n') as hub, hub.serving():
        assert "record" not in await hub.tool_names(hub.ada)
        approved = hub.run("pins", "approve", "rec", "record")
        assert approved.returncode == 0, approved
        await wait_for_tools(hub, lambda names: "record" in names)
        good = lock.read_bytes()
        lock.write_bytes(good[: len(good) // 2])
        await wait_until(lambda: "hubbub.lock" in hub.log(), hub.log)
        assert "line" in hub.log()
        names = await hub.tool_names(hub.ada)
        assert ("record" in names, "wipe" in names) == (True, False)
        assert texts(await hub.call(hub.ada, "record", id="1")) == "1"
        lock.write_bytes(good)


async def test_calls_in_flight_finish_when_the_policy_changes_and_new_ones_follow_the_new_one(tmp_path: Path) -> None:
    with governed_hub(tmp_path) as hub, hub.serving():
        running = asyncio.create_task(hub.call(hub.ada, "wait_for", file="done"))
        await wait_until(lambda: "waits for done" in hub.executed())
        hub.write_config(DENY_WIPE.replace("wipe", "wait_for"))
        await wait_for_tools(hub, lambda names: "wait_for" not in names)
        assert "error" in (await hub.call(hub.ada, "wait_for", file="other")).json
        (tmp_path / "done").touch()
        assert texts(await running) == "it exists"
        assert hub.executed() == ["waits for done"]

        def find_denied() -> list[dict[str, Any]]:
            return [record for record in hub.records("decision") if record["decision"]["effect"] == "deny"]

        await wait_until(lambda: len(find_denied()) > 0)  # its caller does not wait for this record
        (denied,) = find_denied()
        assert denied["args_sha256"] == digest({"file": "other"})


async def test_a_removed_tenant_is_cut_off_while_it_is_connected(tmp_path: Path) -> None:
    with governed_hub(tmp_path) as hub, hub.serving() as process:
        session = await open_session(process.site, headers=hub.bob)
        assert (await session.post(call("record", {"id": "1"}))).status == 200
        async with session.listen() as stream:
            hub.write_config(tenants=TENANTS.partition('[[tenants]]\nname = "beta"')[0])
            assert await stream.rest() is not None, "the stream ends"
        assert (await session.post(call("record", {"id": "2"}))).status == 401
        assert (await hub.call(hub.bob, "record", id="3")).status == 401
        assert texts(await hub.call(hub.ada, "record", id="4")) == "4"
        assert hub.executed() == ["1", "4"]


async def test_a_subscription_ends_when_a_new_policy_hides_its_resource(tmp_path: Path) -> None:
    with governed_hub(tmp_path) as hub, hub.serving() as process:
        session = await open_session(process.site, headers=hub.ada)
        subscribed = await session.post(request("resources/subscribe", {"uri": "note://secret"}))
        assert subscribed.status == 200
        assert "result" in subscribed.json
        hub.write_config(DENY_WIPE.replace("wipe", "note://secret"))
        while "note://secret" in (await session.post(request("resources/list"))).body.decode():
            await asyncio.sleep(0.05)
        again = await session.post(request("resources/subscribe", {"uri": "note://secret"}))
        assert "error" in again.json
        read = await session.post(request("resources/read", {"uri": "note://secret"}))
        assert "error" in read.json
        assert "secret" not in error_text(read).replace("note://secret", "")
