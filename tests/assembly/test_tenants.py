"""Tenants in the settings: what starts, what is refused, and what a reload changes."""

import re
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.http.eras import modern_request
from tests.http.keyring import Keyring
from tests.http.raw_http import TIMEOUT_S
from tests.http.server_process import ServerProcess
from tests.hub.file_hub import wait_until
from tests.hub.upstream_callers import make_caller, request_result

from hubbub import InvalidRequest, Principal, Server, SettingsError
from hubbub.assembly.assemble import assemble
from hubbub.assembly.fixed_sections import refuse_fixed_changes
from hubbub.assembly.serve_settings import read_serve_settings
from hubbub.governance.tenants import Tenants
from hubbub.hub.front import Front
from hubbub.server.http.app import HttpApp
from hubbub.settings import ServeSettings, collect_sources
from hubbub.settings.governance import NO_GOVERNANCE, GovernanceSettings, TenantSettings

TENANTS = '[[tenants]]\nname = "acme"\n\n[[tenants]]\nname = "beta"\n'
PROGRAM = "from hubbub import Server\nserver = Server('one')\n"


def build(folder: Path, text: str, **flags: str | bool) -> Server:
    (folder / "one.py").write_text(PROGRAM)
    path = folder / "own.toml"
    path.write_text(text)
    given = {f"--{name.replace('_', '-')}": value for name, value in flags.items() if name != "target"}
    given |= {"TARGET": flags["target"]} if "target" in flags else {}
    sources = collect_sources({"--config": str(path), **given}, {})
    return assemble(read_serve_settings(sources, lambda line: None), sources)


def hub_text(folder: Path) -> str:
    return f'[servers.one]\ntarget = "{folder / "one.py"}:server"\n'


def test_a_hub_gets_the_tenants_of_its_settings(tmp_path: Path) -> None:
    server = build(tmp_path, hub_text(tmp_path) + TENANTS)
    assert isinstance(server.tenants, Tenants)
    assert server.tenants.names == ("acme", "beta")


def test_a_single_server_over_http_gets_them_too(tmp_path: Path) -> None:
    server = build(tmp_path, TENANTS, target=str(tmp_path / "one.py"))
    assert isinstance(server.tenants, Tenants)


async def test_an_operators_key_can_use_nothing_of_a_single_server(tmp_path: Path) -> None:
    server = build(tmp_path, TENANTS, target=str(tmp_path / "one.py"), alone=True)
    operator = Principal("/root#1", frozenset({"hub:admin"}), user="root")
    ada = Principal("acme/ada#1", tenant="acme", user="ada")
    async with server.running():
        with pytest.raises(InvalidRequest, match="belongs to no tenant"):
            await request_result(server.peer, "tools/list", {}, replace(make_caller(), principal=operator))
        listed = await request_result(server.peer, "tools/list", {}, replace(make_caller(), principal=ada))
        assert listed["tools"] == []


def test_without_tenants_nothing_changes(tmp_path: Path) -> None:
    assert build(tmp_path, hub_text(tmp_path)).tenants is None
    assert build(tmp_path, hub_text(tmp_path) + "[policy]\n").tenants is None


def test_a_hub_with_tenants_is_not_served_on_stdio(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"\[\[tenants\]\] cannot be served on stdio.*--transport http.*--alone"):
        build(tmp_path, hub_text(tmp_path) + TENANTS, transport="stdio")


def test_a_program_alone_on_stdio_has_one_client_and_no_tenants(tmp_path: Path) -> None:
    server = build(tmp_path, TENANTS, target=str(tmp_path / "one.py"), transport="stdio", alone=True)
    assert server.tenants is None


def test_tenants_are_not_switched_on_or_off_by_a_reload() -> None:
    acme = GovernanceSettings(tenants=(TenantSettings(name="acme"),))
    beta = GovernanceSettings(tenants=(TenantSettings(name="beta"),))
    refuse_fixed_changes(acme, beta)
    refuse_fixed_changes(NO_GOVERNANCE, NO_GOVERNANCE)
    with pytest.raises(SettingsError, match="the first tenant was added; restart"):
        refuse_fixed_changes(NO_GOVERNANCE, acme)
    with pytest.raises(SettingsError, match="the last tenant was removed; restart"):
        refuse_fixed_changes(acme, NO_GOVERNANCE)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("", '[pins]\nmode = "enforce"\n', r"\[pins\] changed; restart the hub"),
        ('[pins]\nmode = "enforce"\n', "", r"\[pins\] changed; restart the hub"),
        ("", '[audit]\nsync = "off"\n', r"\[audit\] changed; restart the hub"),
        ("", '[policy]\ndefault = "deny"\n', r"\[policy\] or \[\[quotas\]\] was added; restart the hub"),
        ('[[quotas]]\nlimit = "1/minute"\n', "", r"were removed; restart the hub"),
    ],
)
async def test_a_reload_names_a_section_that_needs_a_restart_and_keeps_the_settings(
    tmp_path: Path, before: str, after: str, problem: str
) -> None:
    path = tmp_path / "own.toml"
    server = build(tmp_path, hub_text(tmp_path) + before)
    assert isinstance(server, Front)
    async with server.running():
        path.write_text(hub_text(tmp_path) + after + '[views.extra]\ninclude = ["*"]\n')
        state = server.hub.reload_state
        assert state is not None
        await wait_until(lambda: state.problem is not None)
        assert re.search(problem, state.problem or "")
        assert "extra" not in server.hub.views


async def test_a_changed_file_of_cedar_policies_is_applied_and_a_broken_one_is_not(tmp_path: Path) -> None:
    pytest.importorskip("cedarpy")
    rules = tmp_path / "team.cedar"
    rules.write_text("permit(principal, action, resource);")
    server = build(tmp_path, hub_text(tmp_path) + f'[policy]\nengine = "cedar"\nfile = "{rules}"\n')
    assert isinstance(server, Front)
    governor = server.hub.governor
    assert governor is not None
    async with server.running():
        first = governor.engine.version
        rules.write_text("forbid(principal, action, resource);")
        await wait_until(lambda: governor.engine.version != first)
        second, state = governor.engine.version, server.hub.reload_state
        assert state is not None
        rules.write_text("forbid(principal, action")
        await wait_until(lambda: state.problem is not None)
        assert "team.cedar line 1" in (state.problem or "")
        assert governor.engine.version == second


@pytest.mark.requirement("S5")
def test_the_egress_rules_apply_to_the_keys_of_tokens(tmp_path: Path) -> None:
    text = hub_text(tmp_path) + '[egress]\nallow = ["keys.example.com"]\n'
    settings = ServeSettings(jwt_keys="https://keys.example.com/jwks", jwt_issuer="i", jwt_audience=("a",))
    server = build(tmp_path, text)
    HttpApp(server, settings)
    with pytest.raises(SettingsError, match=r"jwt_keys: The egress rules do not allow other.example.com:443"):
        HttpApp(server, replace(settings, jwt_keys="https://other.example.com/jwks"))
    server.egress = None
    HttpApp(server, replace(settings, jwt_keys="https://other.example.com/jwks"))


async def test_a_tenant_that_is_removed_from_the_file_of_a_running_hub_is_refused(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.toml")
    ada, bob = ring.add("ada", tenant="acme"), ring.add("bob", tenant="beta")
    (tmp_path / "one.py").write_text(PROGRAM)
    path = tmp_path / "own.toml"
    path.write_text(hub_text(tmp_path) + TENANTS)
    with ServerProcess("--config", str(path), "--key-file", str(ring.path)) as process:
        body, headers = modern_request("tools/list")

        async def status(key: dict[str, str]) -> int:
            return (await process.site.post(body, headers | key)).status

        assert [await status(key) for key in (ada, bob)] == [200, 200]
        path.write_text(hub_text(tmp_path) + TENANTS.partition("\n\n")[2])
        deadline = time.monotonic() + TIMEOUT_S
        while await status(ada) != 401:
            assert time.monotonic() < deadline
        assert await status(bob) == 200
        path.write_text(hub_text(tmp_path))
        while not any("the last tenant was removed" in line for line in process.stderr_lines):
            assert time.monotonic() < deadline
            assert await status(bob) == 200, "the last good settings stay in force"


def test_a_hub_without_keys_or_tokens_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(PROGRAM)
    (tmp_path / "own.toml").write_text(hub_text(tmp_path) + TENANTS)
    with pytest.raises(AssertionError, match=r"\[\[tenants\]\] needs callers that authenticate"):
        ServerProcess("--config", str(tmp_path / "own.toml"))
