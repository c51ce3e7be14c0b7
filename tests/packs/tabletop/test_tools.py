"""Tools beyond the contract: ending sessions, updating and deleting records, events, prompts, schemas."""

import asyncio
from pathlib import Path
from typing import Any

from tests.packs.tabletop.players import Player, make_tabletop_server, open_player, open_player_and_server

from hubbub.packs.tabletop.duality import RULES


async def test_enum_values_are_case_insensitive_and_texts_are_trimmed(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        made = await player.call("campaign_create", name="  Storm  ", gm_mode=" hybrid ")
        assert (made["name"], made["gm_mode"], made["theme_prompt"]) == ("Storm", "HYBRID", "")
        participant = await player.call(
            "participant_create", campaign_id=f" {made['id']} ", display_name=" Al ", role="gm"
        )
        assert (participant["display_name"], participant["role"], participant["controller"]) == ("Al", "GM", "HUMAN")
        robot = await player.call(
            "participant_create", campaign_id=made["id"], display_name="R", role="player", controller="ai"
        )
        assert robot["controller"] == "AI"
        assert (await player.call("roll_dice", dice=[{"sides": 6, "count": 1}], rng={"roll_mode": " live "}))["rng"]


async def test_a_session_can_start_after_the_previous_one_ended(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        campaign = await player.campaign()
        first = await player.call("session_start", campaign_id=campaign, name="One")
        ended = await player.call("session_end", campaign_id=campaign, session_id=first["id"])
        assert list(ended) == ["id", "campaign_id", "name", "status", "started_at", "updated_at", "ended_at"]
        assert ended["status"] == "ENDED"
        again = await player.failure("session_end", campaign_id=campaign, session_id=first["id"])
        assert again["code"] == "FailedPrecondition"
        second = await player.call("session_start", campaign_id=campaign)
        listed = (await player.call("session_list", campaign_id=campaign))["sessions"]
        assert [session["id"] for session in listed] == [first["id"], second["id"]]


async def test_concurrent_session_start_calls_create_one_session(tmp_path: Path) -> None:
    server, _ = make_tabletop_server(tmp_path)
    async with server.running(), open_player(server) as one, open_player(server) as two:
        campaign = await one.campaign()
        answers = await asyncio.gather(
            *(player.client.call("session_start", {"campaign_id": campaign}) for player in (one, two) for _ in range(5))
        )
        assert sum(not answer.get("isError") for answer in answers) == 1
        assert len((await one.call("session_list", campaign_id=campaign))["sessions"]) == 1


async def test_participants_are_updated_and_deleted(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        campaign = await player.campaign()
        alice = await player.call("participant_create", campaign_id=campaign, display_name="Alice", role="PLAYER")
        hero = await player.call("actor_create", campaign_id=campaign, name="Hero", kind="PC")
        where = {"campaign_id": campaign, "participant_id": alice["id"]}
        changed = await player.call("participant_update", **where, display_name="Alicia", controller="AI")
        assert (changed["display_name"], changed["role"], changed["controller"]) == ("Alicia", "PLAYER", "AI")
        assert await player.call("participant_get", **where) == changed
        control = {"campaign_id": campaign, "actor_id": hero["id"]}
        assert await player.call("actor_control_get", **control) == control | {"controller": None}
        await player.call("actor_control_set", **control, controller=alice["id"])
        assert (await player.call("actor_control_get", **control))["controller"] == alice["id"]
        gone = await player.call("participant_delete", **where)
        assert gone["display_name"] == "Alicia"
        assert (await player.call("actor_control_get", **control))["controller"] is None
        assert (await player.failure("participant_get", **where))["code"] == "NotFound"
        assert (await player.call("campaign_get", campaign_id=campaign))["participant_count"] == 0
        assert (await player.call("actor_control_set", **control, controller="gM"))["controller"] == "GM"


async def test_actors_are_updated_and_deleted(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        campaign = await player.campaign()
        hero = await player.call("actor_create", campaign_id=campaign, name="Hero", kind="PC")
        where = {"campaign_id": campaign, "actor_id": hero["id"]}
        changed = await player.call("actor_update", **where, kind="npc", notes="gone to the hills")
        assert (changed["name"], changed["kind"], changed["notes"]) == ("Hero", "NPC", "gone to the hills")
        assert await player.call("actor_get", **where) == changed
        assert (await player.call("actor_delete", **where))["name"] == "Hero"
        assert (await player.call("actor_list", campaign_id=campaign)) == {"actors": []}
        assert (await player.failure("actor_delete", **where))["code"] == "NotFound"


async def test_lists_are_paginated(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        campaign = await player.campaign()
        for number in range(5):
            await player.call("actor_create", campaign_id=campaign, name=f"A{number}", kind="NPC")
            await player.call("participant_create", campaign_id=campaign, display_name=f"P{number}", role="PLAYER")
        actors = await all_pages(player, "actor_list", "actors", campaign_id=campaign)
        assert [actor["name"] for actor in actors] == [f"A{number}" for number in range(5)]
        people = await all_pages(player, "participant_list", "participants", campaign_id=campaign)
        assert [participant["display_name"] for participant in people] == [f"P{number}" for number in range(5)]
        events = await all_pages(player, "events_list", "events", campaign_id=campaign)
        assert [event["seq"] for event in events] == list(range(1, 12))
        backwards = await all_pages(player, "events_list", "events", campaign_id=campaign, newest_first=True)
        assert backwards == events[::-1]
        assert [one["id"] for one in await all_pages(player, "campaign_list", "campaigns")] == [campaign]


async def all_pages(player: Player, tool: str, key: str, **arguments: Any) -> list[Any]:
    found: list[Any] = []
    token = ""
    while True:
        page = await player.call(tool, **arguments, page_size=2, page_token=token)
        assert len(page[key]) <= 2
        found += page[key]
        if "next_page_token" not in page:
            return found
        token = page["next_page_token"]


async def test_rolls_in_a_campaign_are_recorded_and_verifiable(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        campaign = await player.campaign()
        hero = (await player.call("actor_create", campaign_id=campaign, name="Hero", kind="PC"))["id"]
        roll = await player.call("duality_action_roll", campaign_id=campaign, actor_id=hero, difficulty=9)
        (event,) = (await player.call("events_list", campaign_id=campaign, type="roll.action"))["events"]
        assert {key: event["data"][key] for key in roll} == roll
        assert event["data"]["actor_id"] == hero
        seed = event["data"]["rng"]["seed_used"]
        replayed = await player.call("duality_action_roll", difficulty=9, rng={"seed": seed}, campaign_id=campaign)
        assert replayed["hope"] == roll["hope"]
        assert len((await player.call("events_list", campaign_id=campaign, type="roll.action"))["events"]) == 1
        verified = await player.call("events_verify", campaign_id=campaign)
        assert verified == {"campaign_id": campaign, "is_whole": True}


async def test_every_change_is_recorded_as_an_event(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        campaign = await player.campaign()
        alice = (await player.call("participant_create", campaign_id=campaign, display_name="A", role="GM"))["id"]
        hero = (await player.call("actor_create", campaign_id=campaign, name="Hero", kind="PC"))["id"]
        await player.call("actor_control_set", campaign_id=campaign, actor_id=hero, controller=alice)
        await player.call("session_start", campaign_id=campaign)
        await player.call("roll_dice", campaign_id=campaign, dice=[{"sides": 6, "count": 2}])
        await player.call("session_end", campaign_id=campaign)
        await player.call("actor_delete", campaign_id=campaign, actor_id=hero)
        events = (await player.call("events_list", campaign_id=campaign))["events"]
        assert [event["type"] for event in events] == [
            "campaign.created",
            "participant.created",
            "actor.created",
            "actor.control_set",
            "session.started",
            "roll.dice",
            "session.ended",
            "actor.deleted",
        ]
        assert [event["previous_hash"] for event in events[1:]] == [event["hash"] for event in events[:-1]]


async def test_prompts_contain_the_state_of_the_campaign(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        campaign = await player.campaign(theme_prompt="Fog and old debts")
        await player.call("participant_create", campaign_id=campaign, display_name="Alice", role="PLAYER")
        await player.call("actor_create", campaign_id=campaign, name="Thorin", kind="PC", notes="a dwarf")
        await player.call("duality_action_roll", campaign_id=campaign, difficulty=3)
        listed = (await player.client.result("prompts/list"))["prompts"]
        assert [prompt["name"] for prompt in listed] == ["game_master", "session_recap"]
        text = await get_prompt_text(player, "game_master", campaign)
        for part in ("The Lost Expedition", "Fog and old debts", "Alice", "Thorin", "a dwarf", "duality_action_roll"):
            assert part in text
        assert RULES.outcomes[-1] in text
        recap = await get_prompt_text(player, "session_recap", campaign)
        assert "roll.action" in recap
        assert "actor.created" in recap
        error = await player.client.error("prompts/get", {"name": "game_master", "arguments": {"campaign_id": "x"}})
        assert error["data"] == {"code": "NotFound"}


async def get_prompt_text(player: Player, name: str, campaign: str) -> str:
    got = await player.client.result("prompts/get", {"name": name, "arguments": {"campaign_id": campaign}})
    return str(got["messages"][0]["content"]["text"])


async def test_annotations_match_what_a_tool_changes(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        tools = (await player.client.result("tools/list"))["tools"]
        reading = {tool["name"] for tool in tools if tool["annotations"].get("readOnlyHint")}
        assert {"campaign_get", "events_list", "duality_probability", "duality_explain"} <= reading
        assert not reading & {"campaign_create", "set_context", "actor_delete", "duality_action_roll", "roll_dice"}
        destroying = {tool["name"] for tool in tools if tool["annotations"].get("destructiveHint")}
        assert destroying == {"actor_delete", "participant_delete"}


async def test_schemas_contain_the_enum_values_and_limits(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        listed = (await player.client.result("tools/list"))["tools"]
    arguments = {tool["name"]: tool["inputSchema"]["properties"] for tool in listed}
    definitions = {name: entry for tool in listed for name, entry in tool["inputSchema"].get("$defs", {}).items()}
    gm_mode = arguments["campaign_create"]["gm_mode"]
    assert (gm_mode["type"], gm_mode["enum"]) == ("string", ["HUMAN", "AI", "HYBRID"])
    assert arguments["participant_create"]["role"]["enum"] == ["GM", "PLAYER"]
    assert arguments["actor_create"]["kind"]["enum"] == ["PC", "NPC"]
    assert definitions["Controller"]["enum"] == ["HUMAN", "AI"]
    assert definitions["RollMode"]["enum"] == ["LIVE", "REPLAY"]
    for die in ("hope", "fear"):
        shown = arguments["duality_outcome"][die]
        assert (shown["minimum"], shown["maximum"]) == (1, 12)
    assert arguments["duality_probability"]["difficulty"]["minimum"] == 0
    assert (arguments["roll_dice"]["dice"]["minItems"], arguments["roll_dice"]["dice"]["maxItems"]) == (1, 50)
    assert definitions["DiceSpec"]["properties"] == {
        "sides": {"type": "integer", "minimum": 1, "maximum": 1000},
        "count": {"type": "integer", "minimum": 1, "maximum": 1000},
    }
    assert arguments["roll_notation"]["notation"]["maxLength"] == 500
