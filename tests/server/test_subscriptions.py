"""Change notifications: subscriptions of sessions, and `subscriptions/listen` of the stateless era."""

import asyncio
from typing import Any

import pytest
from tests.server.raw_client import LEGACY, MODERN, PLAIN, SUBSCRIPTION_KEY, Message, RawClient, connect_raw_client
from tests.server.raw_transport import RawTransport

from hubbub import ProvidedResource, ResourceDetails, Server, bounds

UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


class ListedResources:
    """A provider of one book."""

    def list_resources(self) -> list[ResourceDetails]:
        return [ResourceDetails("book:1", "One")]

    async def get_resource(self, uri: str) -> ProvidedResource | None:
        return ProvidedResource(uri, "One", content="text") if uri == "book:1" else None


async def nothing() -> None:
    """Does nothing."""


def watched_server() -> Server:
    server = Server("watched")

    @server.resource("file:///a")
    async def a() -> str:
        return "a"

    @server.resource("log:///{name}")
    async def log(name: str) -> str:
        return name

    server.add_resources(ListedResources())
    return server


# -- sessions ----------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [PLAIN, *LEGACY])
@pytest.mark.parametrize("uri", ["file:///a", "log:///today", "book:1"])
async def test_a_subscriber_is_notified_of_its_resource_until_it_unsubscribes(dialect: str, uri: str) -> None:
    server = watched_server()
    async with connect_raw_client(server, dialect) as client, connect_raw_client(server, dialect) as other:
        server.resource_updated(uri)
        assert await client.result("resources/subscribe", {"uri": uri}) == {}
        assert await client.result("resources/subscribe", {"uri": uri}) == {}
        server.resource_updated(uri)
        server.resource_updated("file:///other")
        assert await client.result("resources/unsubscribe", {"uri": uri}) == {}
        server.resource_updated(uri)
        assert await client.result("resources/unsubscribe", {"uri": uri}) == {}
        await other.wait_until_idle()
        assert client.received == [{"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}}]
        assert other.received == []


@pytest.mark.parametrize(("dialect", "code"), [(PLAIN, -32001), ("2025-11-25", -32002)])
async def test_subscribing_to_a_missing_resource_is_refused(dialect: str, code: int) -> None:
    async with connect_raw_client(watched_server(), dialect) as client:
        assert (await client.error("resources/subscribe", {"uri": "no:such"}))["code"] == code


async def test_the_subscriptions_of_a_client_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SUBSCRIPTIONS", 2)
    async with connect_raw_client(watched_server(), "2025-11-25") as client:
        for name in ("a", "b", "a"):
            await client.result("resources/subscribe", {"uri": f"log:///{name}"})
        error = await client.error("resources/subscribe", {"uri": "log:///c"})
        assert error["data"] == {"reason": "overloaded", "limit": 2}


async def test_the_total_length_of_subscribed_uris_is_limited() -> None:
    long = "x" * (bounds.URI_CHARACTERS - 100)
    async with connect_raw_client(watched_server(), "2025-11-25") as client:
        fitting = bounds.SUBSCRIPTION_CHARACTERS // bounds.URI_CHARACTERS
        for number in range(fitting):
            await client.result("resources/subscribe", {"uri": f"log:///{number}{long}"})
        error = await client.error("resources/subscribe", {"uri": f"log:///{fitting}{long}"})
        assert error["data"] == {"reason": "overloaded", "limit": bounds.SUBSCRIPTION_CHARACTERS}


@pytest.mark.parametrize("dialect", [PLAIN, *LEGACY])
async def test_sessions_are_notified_of_list_changes(dialect: str) -> None:
    server = watched_server()
    async with connect_raw_client(server, dialect) as client:
        server.prompt(nothing)
        server.remove_prompt("nothing")
        assert server.remove_prompt("nothing") is False
        server.resource("file:///b")(nothing)
        server.resources.remove("file:///b")
        assert server.resources.remove("file:///b") is False
        await client.wait_until_idle()
        assert [message["method"] for message in client.received] == (
            ["notifications/prompts/list_changed"] * 2 + ["notifications/resources/list_changed"] * 2
        )


async def test_a_disconnected_client_is_not_notified() -> None:
    server = watched_server()
    async with connect_raw_client(server, "2025-11-25") as client:
        await client.result("resources/subscribe", {"uri": "file:///a"})
    server.resource_updated("file:///a")
    assert client.transport.pending_count() == 0
    assert len(server.broadcaster) == 0


# -- subscriptions/listen -------------------------------------------------------------------------


async def open_subscription(client: RawClient, identifier: int | str, **wanted: object) -> Message:
    client.send_request("subscriptions/listen", {"notifications": wanted}, id=identifier)
    acknowledged = await client.next_message()
    assert acknowledged["method"] == ACKNOWLEDGED
    assert acknowledged["params"]["_meta"] == {SUBSCRIPTION_KEY: identifier}
    received: Message = acknowledged["params"]["notifications"]
    return received


def change_everything(server: Server) -> None:
    server.tool(nothing)
    server.prompt(nothing)
    server.resource("file:///new")(nothing)
    server.resource_updated("file:///a")
    server.resource_updated("file:///b")


@pytest.mark.parametrize(
    ("wanted", "methods"),
    [
        ({}, []),
        ({"toolsListChanged": True}, ["notifications/tools/list_changed"]),
        ({"promptsListChanged": True}, ["notifications/prompts/list_changed"]),
        ({"resourcesListChanged": True}, ["notifications/resources/list_changed"]),
        ({"resourceSubscriptions": ["file:///b", "file:///c"]}, [UPDATED]),
        ({"toolsListChanged": False, "resourceSubscriptions": []}, []),
        (
            {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["file:///a"]},
            ["notifications/tools/list_changed", "notifications/prompts/list_changed", UPDATED],
        ),
    ],
)
async def test_a_listen_request_is_acknowledged_first_and_gets_only_the_requested_notifications(
    wanted: dict[str, Any], methods: list[str]
) -> None:
    server = watched_server()
    async with connect_raw_client(server, MODERN) as client:
        accepted = await open_subscription(client, 1, **wanted)
        assert {key: value for key, value in accepted.items() if value} == {k: v for k, v in wanted.items() if v}
        change_everything(server)
        await client.wait_until_idle()
        assert [message["method"] for message in client.received] == methods
        assert all(message["params"]["_meta"] == {SUBSCRIPTION_KEY: 1} for message in client.received)
        if methods == [UPDATED]:
            assert client.received[0]["params"]["uri"] == "file:///b"


@pytest.mark.parametrize("identifier", [1, 9007199254740993, -5, "1", "listen"])
async def test_the_id_of_a_listen_request_keeps_its_type(identifier: int | str) -> None:
    server = watched_server()
    async with connect_raw_client(server, MODERN) as client:
        await open_subscription(client, identifier, toolsListChanged=True)
        server.tool(nothing)
        note = await client.next_message()
        assert note["params"]["_meta"] == {SUBSCRIPTION_KEY: identifier}
        assert type(note["params"]["_meta"][SUBSCRIPTION_KEY]) is type(identifier)


async def test_notifications_carry_the_id_of_their_listen_request() -> None:
    server = watched_server()
    async with connect_raw_client(server, MODERN) as client:
        await open_subscription(client, "tools", toolsListChanged=True)
        await open_subscription(client, "both", toolsListChanged=True, promptsListChanged=True)
        server.tool(nothing)
        server.prompt(nothing)
        await client.wait_until_idle()
        received = {(message["params"]["_meta"][SUBSCRIPTION_KEY], message["method"]) for message in client.received}
        assert received == {
            ("tools", "notifications/tools/list_changed"),
            ("both", "notifications/tools/list_changed"),
            ("both", "notifications/prompts/list_changed"),
        }


async def test_a_cancelled_listen_request_gets_no_notifications_and_no_response() -> None:
    server = watched_server()
    async with connect_raw_client(server, MODERN) as client:
        await open_subscription(client, 5, toolsListChanged=True)
        client.notify("notifications/cancelled", {"requestId": 5})
        await client.wait_until_idle()
        server.tool(nothing)
        await client.wait_until_idle()
        assert client.received == []
        assert len(server.broadcaster) == 1


async def test_listen_requests_end_with_a_result_when_the_server_stops() -> None:
    server = watched_server()
    async with connect_raw_client(server, MODERN) as client:
        await open_subscription(client, "x", toolsListChanged=True)
        await client.transport.stop_server()
        answer = await client.response_to("x")
        assert answer["result"]["resultType"] == "complete"
        assert answer["result"]["_meta"][SUBSCRIPTION_KEY] == "x"
        (cancelled,) = client.notifications("notifications/cancelled")
        assert cancelled["requestId"] == "x"
        assert cancelled["_meta"] == {SUBSCRIPTION_KEY: "x"}


async def test_listen_requests_end_with_a_result_at_the_end_of_input() -> None:
    server = watched_server()
    async with connect_raw_client(server, MODERN) as client, connect_raw_client(server, MODERN) as other:
        await open_subscription(client, 1, toolsListChanged=True)
        await open_subscription(other, 1, toolsListChanged=True)
        await client.transport.finish()
        assert (await client.response_to(1))["result"]["resultType"] == "complete"
        server.tool(nothing)
        assert (await other.next_message())["method"] == "notifications/tools/list_changed"


async def test_a_change_while_the_acknowledgement_waits_is_not_lost() -> None:
    server = watched_server()
    may_read = asyncio.Event()

    class SlowTransport(RawTransport):
        async def drained(self) -> None:
            if self.pending_count():
                await may_read.wait()

    async with SlowTransport(server) as link:
        client = RawClient(link, MODERN, {})
        client.send_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=1)
        assert (await client.next_message())["method"] == ACKNOWLEDGED
        server.tool(nothing)
        may_read.set()
        assert (await client.next_message())["method"] == "notifications/tools/list_changed"


async def test_a_slow_listener_gets_each_change_once_and_its_newest_form() -> None:
    server = watched_server()
    may_read = asyncio.Event()
    may_read.set()

    class SlowTransport(RawTransport):
        async def drained(self) -> None:
            await may_read.wait()

    async with SlowTransport(server) as link:
        client = RawClient(link, MODERN, {})
        await open_subscription(client, 1, resourceSubscriptions=["file:///a", "file:///b"])
        may_read.clear()
        for _ in range(1000):
            server.resource_updated("file:///a")
            server.resource_updated("file:///b")
        may_read.set()
        await client.wait_until_idle()
        assert [note["uri"] for note in client.notifications(UPDATED)] == ["file:///a", "file:///b"]


async def test_listen_requests_of_all_clients_are_limited_and_the_error_names_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "LISTEN_STREAMS", 1)
    server = watched_server()
    async with connect_raw_client(server, MODERN) as one, connect_raw_client(server, MODERN) as two:
        await open_subscription(one, 1)
        error = await two.error("subscriptions/listen", {"notifications": {}})
        assert "`subscriptions/listen` streams of all clients (limit 1)" in error["message"]
        assert error["data"] == {"reason": "overloaded", "limit": 1}


async def test_listen_requests_of_one_connection_are_limited_and_other_requests_are_served() -> None:
    async with connect_raw_client(watched_server(), MODERN) as client:
        for number in range(bounds.LISTEN_STREAMS_PER_CONNECTION):
            client.send_request("subscriptions/listen", {"notifications": {}}, id=number)
        error = await client.error("subscriptions/listen", {"notifications": {}})
        assert error["data"] == {"reason": "overloaded", "limit": bounds.LISTEN_STREAMS_PER_CONNECTION}
        assert not client.transport.duplex.is_busy


@pytest.mark.parametrize("wanted", [5, None, [], {"toolsListChanged": "yes"}, {"resourceSubscriptions": [5]}])
async def test_an_invalid_filter_is_refused(wanted: object) -> None:
    async with connect_raw_client(watched_server(), MODERN) as client:
        assert (await client.error("subscriptions/listen", {"notifications": wanted}))["code"] == -32602
