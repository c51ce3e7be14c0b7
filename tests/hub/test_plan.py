"""Plans list every difference between two configurations, nothing else, and no secrets."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hubbub import HubSettings, Secret, Server, ServerConfig, ToolSettings, UpstreamConfig, ViewSettings
from hubbub.hub.config import HubConfig
from hubbub.hub.config_description import ConfigDescription, describe_config
from hubbub.hub.plan import Field, Step, compare, diff, diff_settings
from hubbub.hub.reload import summarize_plan
from hubbub.settings.governance import (
    GovernanceSettings,
    PinSettings,
    PolicyRule,
    PolicySettings,
    QuotaSettings,
    SecretSource,
    TenantSettings,
)
from hubbub.settings.oauth import OAuthSettings, ProviderSettings
from hubbub.settings.serve import ServeSettings

KEY = b"0123456789abcdef"
words = st.sampled_from(["a", "b", "c", "d e", "é", ""])
texts = st.sampled_from(["one", "two", "three", "x" * 300])
small = st.integers(1, 3)


@st.composite
def upstreams(draw: st.DrawFn, identifier: str) -> UpstreamConfig:
    way = draw(st.sampled_from(["command", "url", "pack", "target"]))
    fields: dict[str, Any] = {"id": identifier}
    if way == "command":
        fields["remote"] = ServerConfig(
            id=identifier,
            command=draw(texts),
            args=draw(st.lists(texts, max_size=2)),
            env=draw(st.dictionaries(st.sampled_from(["K", "L"]), texts, max_size=2)),
            timeout_s=draw(small),
        )
    elif way == "url":
        fields["remote"] = ServerConfig(
            id=identifier,
            transport="http",
            url=f"http://localhost/{draw(st.sampled_from(['a', 'b']))}",
            headers=draw(st.dictionaries(st.sampled_from(["K", "L"]), texts, max_size=2)),
        )
    else:
        fields[way] = draw(texts)
    return UpstreamConfig(
        **fields,
        max_calls=draw(small),
        prefix=draw(st.sampled_from(["collision", "always"])),
        include=tuple(draw(st.lists(texts, max_size=2))),
        tools=draw(st.dictionaries(texts, st.builds(ToolSettings, hidden=st.booleans()), max_size=1)),
        origin=draw(texts),
    )


@st.composite
def configs(draw: st.DrawFn) -> HubConfig:
    names = draw(st.lists(st.sampled_from(["files", "git", "mail"]), unique=True))
    return HubConfig(
        upstreams=tuple(draw(upstreams(name)) for name in names),
        hub=draw(st.builds(HubSettings, name_limit=st.integers(20, 22), reload=st.booleans())),
        views=draw(
            st.dictionaries(
                st.sampled_from(["reader", "writer"]),
                st.builds(
                    ViewSettings, read_only=st.booleans(), descriptions=st.dictionaries(texts, texts, max_size=1)
                ),
            )
        ),
    )


def flatten_upstream(upstream: UpstreamConfig) -> dict[str, object]:
    """Return every value of an upstream by its key, computed independently of the code under test."""
    remote = upstream.remote
    found: dict[str, object] = {
        "max_calls": upstream.max_calls,
        "prefix": upstream.prefix,
        "include": upstream.include,
        "pack": upstream.pack,
        "target": upstream.target,
    }
    for tool, settings in upstream.tools.items():
        found[f"tools.{tool}.hidden"] = settings.hidden
    if remote is not None:
        found |= {key: getattr(remote, key) for key in ("command", "url", "transport", "timeout_s")}
        found["args"] = remote.args
        found |= {f"env.{key}": value for key, value in remote.env.items()}
        found |= {f"headers.{key}": value for key, value in remote.headers.items()}
    return {key: value for key, value in found.items() if value is not None}


def differing_keys(before: UpstreamConfig, after: UpstreamConfig) -> set[str]:
    old_parts, new_parts = flatten_upstream(before), flatten_upstream(after)
    return {key for key in old_parts.keys() | new_parts.keys() if old_parts.get(key) != new_parts.get(key)}


@given(config=configs())
def test_the_plan_between_equal_configurations_is_empty(config: HubConfig) -> None:
    assert not diff(config, config)
    moved = msgspec.structs.replace(
        config,
        upstreams=tuple(msgspec.structs.replace(one, origin="elsewhere line 9") for one in config.upstreams),
    )
    assert not diff(config, moved)


@given(before=configs(), after=configs())
def test_a_plan_names_exactly_what_changed(before: HubConfig, after: HubConfig) -> None:
    plan = diff(before, after)
    old_parts, new_parts = ({one.id: one for one in config.upstreams} for config in (before, after))
    named = {(step.action, step.name): step for step in plan.steps if step.part == "server"}
    assert {name for action, name in named if action == "add"} == new_parts.keys() - old_parts.keys()
    assert {name for action, name in named if action == "remove"} == old_parts.keys() - new_parts.keys()
    for name in old_parts.keys() & new_parts.keys():
        expected = differing_keys(old_parts[name], new_parts[name])
        step = named.pop(("change", name), None)
        found = set() if step is None else {field.key for field in step.fields}
        # Remote servers of two kinds also differ in the settings that only one of them has.
        assert found >= expected
        if (old_parts[name].remote is None) == (new_parts[name].remote is None):
            assert found == expected
    assert not [key for key in named if key[0] == "change"]
    views = {step.name for step in plan.steps if step.part == "view"}
    assert views == {
        name for name in before.views.keys() | after.views.keys() if before.views.get(name) != after.views.get(name)
    }
    common = old_parts.keys() & new_parts.keys()
    is_reordered = [name for name in old_parts if name in common] != [name for name in new_parts if name in common]
    assert any(step.part == "hub" for step in plan.steps) == (before.hub != after.hub or is_reordered)


@given(before=configs(), after=configs())
def test_a_reversed_plan_reverses_each_step(before: HubConfig, after: HubConfig) -> None:
    there, back = diff(before, after), diff(after, before)
    opposite = {"add": "remove", "remove": "add", "change": "change"}
    assert {(step.part, step.name, step.action) for step in there.steps} == {
        (step.part, step.name, opposite[step.action]) for step in back.steps
    }


@given(config=configs(), other=configs())
def test_a_description_survives_encoding_and_decoding(config: HubConfig, other: HubConfig) -> None:
    written = msgspec.json.encode(describe_config(config, KEY))
    read = msgspec.json.decode(written, type=ConfigDescription)
    assert compare(read, describe_config(other, KEY)) == compare(
        describe_config(config, KEY), describe_config(other, KEY)
    )


def hub_with(**fields: Any) -> HubConfig:
    remote = ServerConfig(**{"id": "files", "command": "serve", **fields})
    return HubConfig(upstreams=(UpstreamConfig(id="files", remote=remote),))


def test_a_changed_secret_is_reported_without_its_value() -> None:
    before, after = hub_with(env={"TOKEN": "hunter2-old"}), hub_with(env={"TOKEN": "hunter2-new", "MORE": "hunter2"})
    plan = diff(before, after)
    assert plan.steps[0].fields == (Field("env.TOKEN", is_secret=True), Field("env.MORE", is_secret=True))
    for encodable in (plan, describe_config(before, KEY), describe_config(after, KEY)):
        assert b"hunter2" not in msgspec.json.encode(encodable)


def test_a_secret_in_a_url_or_an_argument_is_masked() -> None:
    after = hub_with(command=None, transport="http", url="https://example.com/mcp?key=hunter2")
    assert b"hunter2" not in msgspec.json.encode(diff(hub_with(), after))
    after = hub_with(args=["--api-key=hunter2", "--password", "hunter2", "--verbose"])
    encodable = msgspec.json.encode(diff(hub_with(), after))
    assert b"hunter2" not in encodable
    assert b"--verbose" in encodable


@pytest.mark.parametrize("token", ["0a1b2c3d4e5f6a7b8c", "abcdefghijklmnopqrstuvwxyz"])
def test_a_token_in_the_path_of_a_url_is_masked(token: str) -> None:
    after = hub_with(command=None, transport="http", url=f"https://example.com/s/{token}/mcp")
    for encodable in (diff(hub_with(), after), describe_config(after, KEY)):
        assert token.encode() not in msgspec.json.encode(encodable)
    assert "https://example.com/s/***/mcp" in str(describe_config(after, KEY))


def test_urls_that_differ_only_in_masked_parts_are_a_change() -> None:
    one = hub_with(command=None, transport="http", url="https://example.com/mcp?key=hunter1")
    two = hub_with(command=None, transport="http", url="https://example.com/mcp?key=hunter2")
    (step,) = diff(one, two).steps
    assert [field.key for field in step.fields] == ["url"]


def test_digests_depend_on_the_key() -> None:
    config = hub_with(env={"TOKEN": "hunter2"})
    one, other = describe_config(config, b"a" * 16), describe_config(config, b"b" * 16)
    assert one.servers["files"]["env.TOKEN"] != other.servers["files"]["env.TOKEN"]


def test_changing_how_a_server_is_listed_does_not_reconnect_it() -> None:
    before = hub_with()
    shown = msgspec.structs.replace(before.upstreams[0], prefix="always", tools={"a": ToolSettings(hidden=True)})
    (step,) = diff(before, HubConfig(upstreams=(shown,))).steps
    assert (step.action, step.reconnects) == ("change", False)
    reached = msgspec.structs.replace(before.upstreams[0], prefix="always", max_calls=1)
    (step,) = diff(before, HubConfig(upstreams=(reached,))).steps
    assert step.reconnects


def test_another_in_process_server_is_a_change_even_under_the_same_name() -> None:
    one, other = Server("same"), Server("same")
    before, after = (HubConfig(upstreams=(UpstreamConfig(id="x", server=server),)) for server in (one, other))
    assert diff(before, after)
    assert not diff(before, before)


def test_settings_that_need_a_restart_are_listed_separately() -> None:
    before, after = ServeSettings(port=3000), ServeSettings(port=4000, packs=("demo",), mcp_json="a.json")
    assert diff_settings(before, after) == (Field("port", "3000", "4000"),)
    assert not diff_settings(before, before)


def test_the_secrets_of_a_pack_stay_secret() -> None:
    class Own(msgspec.Struct, frozen=True):
        password: Secret
        size: int = 1

    def config(own: Own) -> HubConfig:
        return HubConfig(upstreams=(UpstreamConfig(id="p", pack="p", pack_settings=own),))

    plan = diff(config(Own(Secret("hunter1"))), config(Own(Secret("hunter2"), 2)))
    assert plan.steps == (
        Step(
            action="change",
            part="server",
            name="p",
            fields=(Field("settings.password", is_secret=True), Field("settings.size", "1", "2")),
            target="p",
            reconnects=True,
        ),
    )


def test_changes_of_tenants_and_rules_are_shown_one_by_one_and_fixed_sections_need_a_restart() -> None:
    before = GovernanceSettings(
        tenants=(TenantSettings(name="acme"),), policy=PolicySettings(rules=(PolicyRule(effect="deny", tools=("x",)),))
    )
    after = GovernanceSettings(
        tenants=(TenantSettings(name="acme", max_sessions=3), TenantSettings(name="beta")),
        policy=PolicySettings(rules=(PolicyRule(effect="confirm", tools=("x", "y"), reason="why"),)),
        quotas=(QuotaSettings(limit="3/minute"),),
        pins=PinSettings(mode="enforce"),
    )
    plan = diff(HubConfig(governance=before), HubConfig(governance=after))
    (step,) = plan.steps
    assert {(field.key, field.before, field.after) for field in step.fields} == {
        ("tenants.acme", "defaults", "max_sessions=3"),
        ("tenants.beta", None, "defaults"),
        ("policy.rules[0]", "effect=deny, tools=x", "effect=confirm, tools=x y, reason=why"),
        ("quotas[0]", None, "limit=3/minute"),
    }
    assert plan.restart == (Field("pins.mode", "off", "enforce"),)


def test_only_the_settings_of_oauth_that_were_written_are_listed() -> None:
    url = OAuthSettings(public_url="https://hub.example.com")
    assert diff_settings(ServeSettings(), ServeSettings(), None, url) == (
        Field("oauth.public_url", None, "https://hub.example.com"),
    )
    provider = ProviderSettings(issuer="https://id.example.com", client_id="hub", client_secret=SecretSource(env="S"))
    changed = replace(url, provider=provider)
    assert [field.key for field in diff_settings(ServeSettings(), ServeSettings(), url, changed)] == [
        "oauth.provider.issuer",
        "oauth.provider.client_id",
        "oauth.provider.client_secret.env",
    ]


def test_a_summary_names_the_sections_and_the_tenants() -> None:
    acme, beta = TenantSettings(name="acme"), TenantSettings(name="beta")
    before = HubConfig(governance=GovernanceSettings(tenants=(acme, beta)))
    after = HubConfig(
        hub=HubSettings(search="only"),
        governance=GovernanceSettings(
            tenants=(replace(acme, max_calls=3),),
            policy=PolicySettings(rules=(PolicyRule(effect="deny"), PolicyRule(effect="allow"))),
            quotas=(QuotaSettings(limit="1/minute"),),
        ),
    )
    assert summarize_plan(diff(before, after)) == ["~hub", "~tenants.acme", "-tenants.beta", "~policy", "~quotas"]
