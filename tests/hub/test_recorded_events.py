"""What a hub records besides calls: lists with their digest, secrets, and connections that the egress rules refuse."""

import msgspec
import pytest
from tests.client.scripted_server import ScriptedRequest, legacy_handler, scripted_server
from tests.governance.echo_upstream import LEGACY, run_echo_upstream
from tests.hub.local_hubs import library, toolbox
from tests.hub.upstream_callers import call_tool, make_caller
from tests.transports.http_configs import make_config

from hubbub import Principal, SecretDenied, ServerConfig, UpstreamConfig, UpstreamUnavailable
from hubbub.governance.audit_events import AuditEvent
from hubbub.governance.secret_provider import SecretProvider
from hubbub.hub.config import HubConfig
from hubbub.hub.gateway import Gateway
from hubbub.hub.recorded_events import RecordedEvents
from hubbub.protocol.revisions import NEWEST_LEGACY
from hubbub.settings.governance import SecretSettings
from hubbub.settings.secret import SecretTemplate

pytestmark = pytest.mark.requirement("A1")


def make_recorded_hub(*upstreams: UpstreamConfig) -> tuple[Gateway, list[AuditEvent]]:
    found: list[AuditEvent] = []
    hub = Gateway(HubConfig(upstreams=upstreams))
    hub.events = RecordedEvents(found.append)
    for upstream in hub.upstreams.values():
        hub.events.watch(upstream)
    return hub, found


async def test_lists_are_recorded_when_they_change_and_not_when_they_are_read_again() -> None:
    server = library()
    hub, found = make_recorded_hub(
        UpstreamConfig(id="books", server=server), UpstreamConfig(id="tools", server=toolbox("tools", "saw"))
    )
    async with hub.running():
        assert hub.catalog.tools.listed
        hub.invalidate_catalog()
        assert hub.catalog.tools.listed
        assert [(event.event, event.server) for event in found] == [
            ("tools.listed", "books"),
            ("tools.listed", "tools"),
        ]
        first = found[0].facts
        assert first is not None
        assert (first["tools"], first["prompts"], first["templates"]) == (2, 1, 1)
        server.tools.unregister("lend_book")
        await hub.upstreams["books"].refresh()
        assert hub.catalog.tools.listed
        assert [(event.event, event.server) for event in found[2:]] == [("tools.listed", "books")]
        last = found[-1].facts
        assert last is not None
        assert last["tools"] == 1
        assert last["sha256"] != first["sha256"]


async def test_each_use_of_a_secret_is_recorded_by_its_name_and_tenant() -> None:
    settings = SecretSettings(env="KEY", tenants=("a",), hub=True)
    provider = SecretProvider({"key": settings}, environ={"KEY": "a-very-secret-value"})
    async with run_echo_upstream() as echo:
        config = ServerConfig(
            id="echo",
            transport="streamable_http",
            url=echo.url,
            headers={"X-Key": SecretTemplate(("", ""), ("key",))},
            secrets=provider,
            protocol_version=NEWEST_LEGACY.version,
        )
        hub, found = make_recorded_hub(UpstreamConfig(id="echo", remote=config))
        async with hub.running():
            await hub.wait_connected()
            stranger = Principal("b/bob#1", tenant="b", user="bob")
            who = msgspec.structs.replace(make_caller(), principal=stranger)
            with pytest.raises((UpstreamUnavailable, SecretDenied)):
                await call_tool(hub.upstreams["echo"], "echo", {}, who)
    secrets = [event for event in found if event.event.startswith("secret.")]
    assert [(event.event, event.tenant, event.server) for event in secrets][:2] == [
        ("secret.read", "", "echo"),
        ("secret.denied", "b", "echo"),
    ]
    assert secrets[0].facts == {"secret": "key", "source": "env"}
    assert "a-very-secret-value" not in str(found)


async def test_a_connection_that_the_egress_rules_refuse_is_recorded_with_its_host() -> None:
    config = ServerConfig(id="meta", transport="streamable_http", url="http://169.254.169.254/mcp")
    hub, found = make_recorded_hub(UpstreamConfig(id="meta", remote=config))
    async with hub.running():
        await hub.wait_connected()
    (event,) = found
    assert (event.event, event.server, event.facts) == ("egress.refused", "meta", {"host": "169.254.169.254"})


async def test_sessions_of_users_are_recorded_when_they_open_when_they_are_renewed_and_when_they_end() -> None:
    sessions: list[str] = []
    lost: set[str] = set()

    async def handle(request: ScriptedRequest) -> None:
        if request.headers.get("mcp-session-id") in lost:
            await request.reply(404)
        elif request.rpc == "initialize":
            sessions.append(f"s{len(sessions)}")
            result = {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": {}}
            await request.result(result, mcp_session_id=sessions[-1])
        elif request.rpc == "tools/call":
            await request.result({"content": []})
        else:
            raise NotImplementedError

    ada = Principal("acme/ada#1", tenant="acme", user="ada", client="laptop", credential="1")
    who = msgspec.structs.replace(make_caller(), principal=ada)
    async with scripted_server(legacy_handler(handle)) as server:
        hub, found = make_recorded_hub(UpstreamConfig(id="there", remote=make_config(server, id="there")))
        async with hub.running():
            await call_tool(hub.upstreams["there"], "echo", {}, who)
            lost.add(sessions[-1])
            with pytest.raises(UpstreamUnavailable, match="no longer knows this session"):
                await call_tool(hub.upstreams["there"], "echo", {}, who)  # It may have run, so it is not sent again.
            await call_tool(hub.upstreams["there"], "echo", {}, who)
    recorded = [event for event in found if event.event.startswith("session.")]
    assert [event.event for event in recorded] == ["session.open", "session.reinit", "session.close"]
    for event in recorded:
        assert (event.tenant, event.user, event.client, event.credential) == ("acme", "ada", "laptop", "1")
        assert event.server == "there"
        assert event.facts is not None
        assert event.facts["transport"] == "streamable_http"
    assert recorded[-1].facts is not None
    assert recorded[-1].facts["reason"] == "stopped"
