"""Resources of campaigns: complete lists in order, as indented JSON; and notifications of changes."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.packs.tabletop.players import Player, make_tabletop_server, open_player, open_player_and_server
from tests.server.raw_client import ERAS, MODERN

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.model import GmMode, Page, PageRequest
from hubbub.packs.tabletop.resources import format_json, format_list

UPDATED = "notifications/resources/updated"
TEMPLATES = [
    ("campaign://{campaign_id}", "campaign"),
    ("campaign://{campaign_id}/participants", "participant_list"),
    ("campaign://{campaign_id}/actors", "actor_list"),
    ("campaign://{campaign_id}/sessions", "session_list"),
]


async def test_two_resources_and_four_templates_are_listed(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        listed = (await player.client.result("resources/list"))["resources"]
        assert [(entry["uri"], entry["name"], entry["mimeType"]) for entry in listed] == [
            ("campaigns://list", "campaign_list", "application/json"),
            ("context://current", "context_current", "application/json"),
        ]
        templates = (await player.client.result("resources/templates/list"))["resourceTemplates"]
        assert [(entry["uriTemplate"], entry["name"]) for entry in templates] == TEMPLATES
        assert {entry["mimeType"] for entry in templates} == {"application/json"}


async def test_text_is_json_with_an_indent_of_two_spaces(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        campaign = await player.campaign()
        for uri in ("campaigns://list", f"campaign://{campaign}", f"campaign://{campaign}/actors", "context://current"):
            text = (await player.client.result("resources/read", {"uri": uri}))["contents"][0]["text"]
            assert text == json.dumps(json.loads(text), indent=2), uri


@pytest.mark.parametrize("count", [0, 1, 2, 7])
@pytest.mark.parametrize("size", [1, 2, 3])
async def test_a_list_of_many_pages_is_read_as_one_text(count: int, size: int) -> None:
    things = [{"name": f'"{number}\n, {{}}', "more": [number, {}]} for number in range(count)]
    asked: list[PageRequest] = []

    async def fetch(page: PageRequest) -> Page[Any]:
        asked.append(page)
        start = int(page.token or 0)
        more = start + size < count
        return Page(tuple(things[start : start + size]), str(start + size) if more else "")

    text = await format_list("things", fetch)
    assert text == format_json({"things": things}) == json.dumps({"things": things}, indent=2)
    assert len(asked) == max(1, -(-count // size))


async def test_lists_are_complete_and_in_creation_order(tmp_path: Path) -> None:
    server, service = make_tabletop_server(tmp_path)
    count = limits.MAX_PAGE_SIZE + 20
    async with server.running(), open_player(server) as player:
        made = [await service.backend.create_campaign(f"Campaign {number}", GmMode.AI) for number in range(count)]
        read = (await player.read("campaigns://list"))["campaigns"]
        assert [campaign["id"] for campaign in read] == [campaign.id for campaign in made]
        one = made[0].id
        for number in range(60):
            await player.call("actor_create", campaign_id=one, name=f"Actor {number}", kind="NPC")
            await player.call("participant_create", campaign_id=one, display_name=f"P {number}", role="PLAYER")
        for number in range(3):
            await player.call("session_start", campaign_id=one, name=f"Session {number}")
            await player.call("session_end", campaign_id=one)
        actors = (await player.read(f"campaign://{one}/actors"))["actors"]
        assert [actor["name"] for actor in actors] == [f"Actor {number}" for number in range(60)]
        people = (await player.read(f"campaign://{one}/participants"))["participants"]
        assert [who["display_name"] for who in people] == [f"P {number}" for number in range(60)]
        sessions = (await player.read(f"campaign://{one}/sessions"))["sessions"]
        assert [(session["name"], session["status"]) for session in sessions] == [
            (f"Session {number}", "ENDED") for number in range(3)
        ]
        assert all(session["ended_at"] >= session["started_at"] for session in sessions)


@pytest.mark.parametrize(("dialect", "code"), [("plain", -32001), ("2025-11-25", -32002), (MODERN, -32602)])
@pytest.mark.parametrize("path", ["", "/participants", "/actors", "/sessions"])
async def test_an_unknown_campaign_is_not_found(tmp_path: Path, dialect: str, code: int, path: str) -> None:
    async with open_player_and_server(tmp_path, dialect) as player:
        uri = f"campaign://camp_nowhere{path}"
        error = await player.client.error("resources/read", {"uri": uri})
        assert error == {"code": code, "message": "campaign not found", "data": {"uri": uri, "code": "NotFound"}}


MALFORMED = [
    "campaign://",
    "campaign://_",
    "campaign:///participants",
    "campaign://_/participants",
    "campaign://_/actors",
    "campaign://camp_a/b",
    "campaign://camp_a/participants/more",
    "campaign://camp_a/b/participants",
    "campaign://camp_a?x=1",
    "campaign://camp_a#top",
    "campaign://camp_a/sessions?x=1",
    "campaign://camp a",
    "campaign://camp%20a",
    "campaign://camp%2Fa",
    "campaign://..",
    "campaign://camp_a/../camp_b",
    "campaign://camp.a",
    "campaign://kampagne_ä",
    "campaign://camp_a\x00",
    f"campaign://{'a' * 129}",
    f"campaign://{'a' * 5000}/actors",
]


@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
async def test_a_malformed_uri_is_an_invalid_argument(tmp_path: Path, dialect: str) -> None:
    async with open_player_and_server(tmp_path, dialect) as player:
        for uri in MALFORMED:
            error = await player.client.error("resources/read", {"uri": uri})
            assert (error["code"], error["data"]["code"]) == (-32602, "InvalidArgument"), uri
            assert error["data"]["uri"], uri


async def test_other_uris_are_not_found(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        for uri in ("campaigns://", "campaigns://other", "context://", "context://other", "session://x", "x"):
            assert (await player.client.error("resources/read", {"uri": uri}))["code"] == -32002, uri


async def test_campaign_ids_are_completed(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        first = await player.campaign(name="The Lost Expedition")
        second = await player.campaign(name="Storm over Ys")
        references = [{"type": "ref/resource", "uri": uri} for uri, _ in TEMPLATES]
        references += [{"type": "ref/prompt", "name": name} for name in ("game_master", "session_recap")]
        for reference in references:
            assert await complete_campaign_id(player, reference, "") == [first, second]
            assert await complete_campaign_id(player, reference, second[:12]) == [second]
            assert await complete_campaign_id(player, reference, "lost") == [first]
            assert await complete_campaign_id(player, reference, "nothing like it") == []


async def complete_campaign_id(player: Player, reference: Any, value: str) -> list[str]:
    argument = {"name": "campaign_id", "value": value}
    result = await player.client.result("completion/complete", {"ref": reference, "argument": argument})
    return list(result["completion"]["values"])


# -- notifications -----------------------------------------------------------------


class ResourceSubscriber:
    """A client that subscribes to some URIs."""

    def __init__(self, player: Player, uris: list[str]) -> None:
        self.player = player
        self.uris = uris

    async def open(self) -> None:
        client = self.player.client
        if client.dialect == MODERN:
            client.send_request(
                "subscriptions/listen", {"notifications": {"resourceSubscriptions": self.uris}}, id="listen"
            )
            await client.wait_until_idle()
        else:
            for uri in self.uris:
                await client.result("resources/subscribe", {"uri": uri})

    async def updated_uris(self) -> list[str]:
        """Return the URIs of the notifications since the last call."""
        await self.player.client.wait_until_idle()
        uris = [note["uri"] for note in self.player.client.notifications(UPDATED)]
        self.player.client.received.clear()
        return sorted(uris)


@pytest.mark.parametrize("dialect", [ERAS["legacy"], ERAS["modern"]])
async def test_subscribers_are_notified_of_every_change(tmp_path: Path, dialect: str) -> None:
    server, _ = make_tabletop_server(tmp_path)
    async with server.running(), open_player(server) as actor, open_player(server, dialect) as watcher:
        campaign = await actor.campaign()
        root = f"campaign://{campaign}"
        people, actors, sessions = f"{root}/participants", f"{root}/actors", f"{root}/sessions"
        subscriber = ResourceSubscriber(watcher, ["campaigns://list", root, people, actors, sessions])
        await subscriber.open()
        await actor.campaign()
        assert await subscriber.updated_uris() == ["campaigns://list"]
        alice = (await actor.call("participant_create", campaign_id=campaign, display_name="A", role="GM"))["id"]
        assert await subscriber.updated_uris() == [root, people, "campaigns://list"]
        hero = (await actor.call("actor_create", campaign_id=campaign, name="Hero", kind="PC"))["id"]
        assert await subscriber.updated_uris() == [root, actors, "campaigns://list"]
        await actor.call("actor_control_set", campaign_id=campaign, actor_id=hero, controller="gm")
        assert await subscriber.updated_uris() == [actors]
        await actor.call("actor_update", campaign_id=campaign, actor_id=hero, notes="brave")
        assert await subscriber.updated_uris() == [actors]
        await actor.call("participant_update", campaign_id=campaign, participant_id=alice, display_name="B")
        assert await subscriber.updated_uris() == [people]
        await actor.call("session_start", campaign_id=campaign)
        assert await subscriber.updated_uris() == [root, sessions]
        await actor.call("session_end", campaign_id=campaign)
        assert await subscriber.updated_uris() == [root, sessions]
        await actor.call("actor_delete", campaign_id=campaign, actor_id=hero)
        assert await subscriber.updated_uris() == [root, actors, "campaigns://list"]
        await actor.call("participant_delete", campaign_id=campaign, participant_id=alice)
        assert await subscriber.updated_uris() == [root, actors, people, "campaigns://list"]


async def test_failed_calls_notify_no_subscriber(tmp_path: Path) -> None:
    server, _ = make_tabletop_server(tmp_path)
    async with server.running(), open_player(server) as actor, open_player(server) as watcher:
        campaign = await actor.campaign()
        subscriber = ResourceSubscriber(watcher, ["campaigns://list", f"campaign://{campaign}/actors"])
        await subscriber.open()
        await actor.failure("campaign_create", name="", gm_mode="AI")
        await actor.failure("actor_create", campaign_id=campaign, name="x", kind="DRAGON")
        assert await subscriber.updated_uris() == []


async def test_concurrent_writes_do_not_break_lists(tmp_path: Path) -> None:
    server, _ = make_tabletop_server(tmp_path)
    async with server.running(), open_player(server) as writer, open_player(server) as reader:
        made: list[str] = []

        async def write() -> None:
            for _ in range(30):
                made.append(await writer.campaign())

        async def read() -> None:
            known: list[str] = []
            while len(known) < 30:
                ids = [campaign["id"] for campaign in (await reader.read("campaigns://list"))["campaigns"]]
                assert ids[: len(known)] == known
                known = ids

        await asyncio.gather(write(), read())
        assert [campaign["id"] for campaign in (await reader.read("campaigns://list"))["campaigns"]] == made
