"""What a caller may not use does not exist for it, and its attempts are recorded and counted, whatever it tries."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.hub.governed_hubs import ERAS, LEGACY, connect, decisions, each_era, governed_hub, user
from tests.hub.local_hubs import library
from tests.server.raw_client import MODERN, RawClient

pytestmark = pytest.mark.requirement("A1")

DENY = {"rules": [{"effect": "deny", "tools": ["page://*", "book://*", "hub://*", "review", "hub.search"]}]}
PAGE, BOOK, TEMPLATE = "page://library/3", "book://library/moby", "page://library/{number}"


def completion(**reference: str) -> tuple[str, dict[str, Any]]:
    return "completion/complete", {"ref": reference, "argument": {"name": "title", "value": "M"}}


ATTEMPTS: dict[str, tuple[str, dict[str, Any]]] = {
    "call": ("tools/call", {"name": "hub.search", "arguments": {"query": "x"}}),
    "get": ("prompts/get", {"name": "review", "arguments": {"title": "x"}}),
    "read": ("resources/read", {"uri": BOOK}),
    "read of the hub": ("resources/read", {"uri": "hub://status"}),
    "complete a prompt": completion(type="ref/prompt", name="review"),
    "complete a template": completion(type="ref/resource", uri=TEMPLATE),
    "complete a resource": completion(type="ref/resource", uri=BOOK),
    "subscribe": ("resources/subscribe", {"uri": BOOK}),
    "subscribe to the hub": ("resources/subscribe", {"uri": "hub://status"}),
}
RECORDED = {
    "call": "hub.search", "get": "review", "read": BOOK, "read of the hub": "hub://status",
    "complete a prompt": "review", "complete a template": TEMPLATE, "complete a resource": BOOK,
    "subscribe": BOOK, "subscribe to the hub": "hub://status",
}  # fmt: skip


def attempts() -> list[Any]:
    """Each attempt in each era that has its method."""
    return [
        pytest.param(name, era, id=f"{name}-{era}")
        for name in ATTEMPTS
        for era in ERAS
        if era == LEGACY or not name.startswith("subscribe")
    ]


@pytest.mark.parametrize(("name", "dialect"), attempts())
async def test_each_denied_action_is_recorded(tmp_path: Path, name: str, dialect: str) -> None:
    hub = governed_hub(library(), folder=tmp_path, policy=DENY)
    method, params = ATTEMPTS[name]
    async with connect(hub, user("red"), dialect) as client:
        assert "denied" not in json.dumps(await client.error(method, params))
    assert decisions(tmp_path) == [("red", name.partition(" ")[0], RECORDED[name], "deny")]


async def test_a_denied_tool_of_the_hub_is_recorded_if_it_is_called_through_another(tmp_path: Path) -> None:
    hub = governed_hub(library(), folder=tmp_path, policy=DENY)
    async with connect(hub, user("red")) as client:
        reply = await client.call("hub.call", {"name": "hub.search", "arguments": {"query": "x"}})
        assert reply["isError"]
    assert decisions(tmp_path) == [("red", "call", "hub.search", "deny")]


@pytest.mark.parametrize("uri", [BOOK, PAGE, "hub://status"])
async def test_denied_subscriptions_of_a_stream_are_recorded(tmp_path: Path, uri: str) -> None:
    hub = governed_hub(library(), folder=tmp_path, policy=DENY)
    async with connect(hub, user("red"), MODERN) as client:
        await listen(client, uri)
    assert decisions(tmp_path) == [("red", "subscribe", uri, "deny")]


async def listen(client: RawClient, uri: str) -> Any:
    """Open a stream; return its acknowledgement, or the error."""
    client.send_request("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
    return await client.next_message()


@pytest.mark.parametrize(("name", "dialect"), attempts())
async def test_each_denied_action_counts_towards_quotas(tmp_path: Path, name: str, dialect: str) -> None:
    quotas = [{"limit": "1/hour", "per": ["user"]}]
    hub = governed_hub(library(), folder=tmp_path, policy=DENY, quotas=quotas)
    method, params = ATTEMPTS[name]
    async with connect(hub, user("red"), dialect) as client:
        await client.error(method, params)
        refused = await client.ask(method, params)
        assert "1 per hour" in json.dumps(refused)


async def test_a_stream_over_the_quota_is_refused(tmp_path: Path) -> None:
    hub = governed_hub(library(), folder=tmp_path, quotas=[{"limit": "1/hour", "per": ["user"]}])
    async with connect(hub, user("red"), MODERN) as client:
        assert "acknowledged" in (await listen(client, BOOK))["method"]
        refused = await listen(client, BOOK)
        assert "1 per hour" in refused["error"]["message"]


@each_era
async def test_a_subscription_that_cannot_be_recorded_is_refused(tmp_path: Path, dialect: str) -> None:
    folder = tmp_path / "audit"
    hub = governed_hub(library(), folder=folder)
    async with connect(hub, user("red"), dialect) as client:
        folder.rename(tmp_path / "aside")
        if dialect == MODERN:
            error = (await listen(client, BOOK))["error"]
        else:
            error = await client.error("resources/subscribe", {"uri": BOOK})
        assert "audit journal" in error["message"]
        (tmp_path / "aside").rename(folder)
