"""Every example of contract 004, with its keys in order; odds are the mathematically exact ones."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.packs.tabletop.contract import CONTRACT_TOOLS, EXPLANATION, ODDS, OUTCOME, RULES
from tests.packs.tabletop.players import Player, open_player_and_server
from tests.server.raw_client import ERAS

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def is_exactly(actual: Any, expected: Any) -> bool:
    """Whether two values are equal, with the keys in the same order."""
    return json.dumps(actual) == json.dumps(expected)


def mask_times(record: dict[str, Any], *names: str) -> dict[str, Any]:
    """Check that the times of a record are valid, and replace them with a constant."""
    for name in names:
        assert TIME.fullmatch(record[name]), record
    return {key: "…" if key in names else value for key, value in record.items()}


async def test_every_tool_has_the_arguments_of_the_contract(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        listed = {tool["name"]: tool for tool in (await player.client.result("tools/list"))["tools"]}
        for name, keys in CONTRACT_TOOLS.items():
            assert [key for key in listed[name]["inputSchema"]["properties"] if key in keys] == keys, name
            assert listed[name]["description"]
            assert listed[name]["outputSchema"]["type"] == "object", name
        for name in ("participant_create", "actor_create", "actor_control_set", "session_start"):
            assert "campaign_id" not in listed[name]["inputSchema"].get("required", [])
            assert "context_id" in listed[name]["inputSchema"]["properties"]


@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
async def test_a_game_session_matches_the_contract(tmp_path: Path, dialect: str) -> None:
    async with open_player_and_server(tmp_path, dialect) as player:
        campaign = await make_campaign(player)
        participant = await player.call(
            "participant_create", campaign_id=campaign, display_name="Alice", role="PLAYER", controller="HUMAN"
        )
        assert participant["id"].startswith("part_")
        assert is_exactly(
            mask_times(participant, "created_at", "updated_at"),
            {
                "id": participant["id"],
                "campaign_id": campaign,
                "display_name": "Alice",
                "role": "PLAYER",
                "controller": "HUMAN",
                "created_at": "…",
                "updated_at": "…",
            },
        )
        actor = await make_actor(player, campaign)
        control = {"campaign_id": campaign, "actor_id": actor["id"], "controller": participant["id"]}
        assert is_exactly(await player.call("actor_control_set", **control), control)
        session = await player.call("session_start", campaign_id=campaign, name="Session 1: The Journey Begins")
        assert session["id"].startswith("sess_")
        shown = {
            "id": session["id"],
            "campaign_id": campaign,
            "name": "Session 1: The Journey Begins",
            "status": "ACTIVE",
            "started_at": "…",
            "updated_at": "…",
        }
        assert is_exactly(mask_times(session, "started_at", "updated_at"), shown)
        chosen = {"campaign_id": campaign, "session_id": session["id"], "participant_id": participant["id"]}
        context = await player.call("set_context", **chosen)
        assert is_exactly(context["context"], chosen)
        assert ("context_id" in context) == (dialect == ERAS["modern"])
        await read_everything(player, campaign, participant, actor, session)


async def make_campaign(player: Player) -> str:
    given = {
        "name": "The Lost Expedition",
        "gm_mode": "HUMAN",
        "theme_prompt": "A dark fantasy campaign set in a cursed forest",
    }
    made = await player.call("campaign_create", **given)
    assert made["id"].startswith("camp_")
    shown = {
        "id": made["id"],
        "name": given["name"],
        "gm_mode": "HUMAN",
        "participant_count": 0,
        "actor_count": 0,
        "theme_prompt": given["theme_prompt"],
    }
    assert is_exactly(made, shown)
    return str(made["id"])


async def make_actor(player: Player, campaign: str) -> Any:
    given = {"name": "Thorin Ironforge", "kind": "PC", "notes": "Dwarf warrior with a mysterious past"}
    actor = await player.call("actor_create", campaign_id=campaign, **given)
    assert actor["id"].startswith("actor_")
    shown = {"id": actor["id"], "campaign_id": campaign, **given, "created_at": "…", "updated_at": "…"}
    assert is_exactly(mask_times(actor, "created_at", "updated_at"), shown)
    return actor


async def read_everything(player: Player, campaign: str, participant: Any, actor: Any, session: Any) -> None:
    (listed,) = (await player.read("campaigns://list"))["campaigns"]
    shown = {
        "id": campaign,
        "name": "The Lost Expedition",
        "gm_mode": "HUMAN",
        "participant_count": 1,
        "actor_count": 1,
        "theme_prompt": "A dark fantasy campaign set in a cursed forest",
        "created_at": "…",
        "updated_at": "…",
    }
    assert is_exactly(mask_times(listed, "created_at", "updated_at"), shown)
    assert is_exactly(await player.read(f"campaign://{campaign}"), {"campaign": listed})
    assert is_exactly(await player.read(f"campaign://{campaign}/participants"), {"participants": [participant]})
    assert is_exactly(await player.read(f"campaign://{campaign}/actors"), {"actors": [actor]})
    assert is_exactly(await player.read(f"campaign://{campaign}/sessions"), {"sessions": [session]})


@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
async def test_duality_results_match_the_contract(tmp_path: Path, dialect: str) -> None:
    async with open_player_and_server(tmp_path, dialect) as player:
        dice = {"hope": 8, "fear": 5, "modifier": 2, "difficulty": 15}
        assert is_exactly(await player.call("duality_rules_version"), RULES)
        assert is_exactly(await player.call("duality_outcome", **dice), OUTCOME)
        assert is_exactly(await player.call("duality_explain", **dice, request_id="req_123"), EXPLANATION)
        assert is_exactly(await player.call("duality_probability", modifier=2, difficulty=15), ODDS)
        roll = await player.call("duality_action_roll", modifier=2, difficulty=15)
        assert list(roll) == list(OUTCOME)
        evaluated = await player.call("duality_outcome", **{key: roll[key] for key in dice})
        assert roll == evaluated
        pools = [{"sides": 20, "count": 2}, {"sides": 6, "count": 1}]
        thrown = await player.call("roll_dice", dice=pools)
        assert list(thrown) == ["rolls", "total"]
        assert [list(one) for one in thrown["rolls"]] == [["sides", "results", "total"]] * 2
        assert [(one["sides"], len(one["results"])) for one in thrown["rolls"]] == [(20, 2), (6, 1)]
        assert all(sum(one["results"]) == one["total"] for one in thrown["rolls"])
        assert thrown["total"] == sum(one["total"] for one in thrown["rolls"])


async def test_a_result_without_a_difficulty_omits_the_field(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        roll = await player.call("duality_action_roll")
        assert list(roll) == [key for key in OUTCOME if key != "difficulty"]
        assert roll["modifier"] == 0
        assert roll["meets_difficulty"] is False
        explained = await player.call("duality_explain", hope=3, fear=9)
        assert explained["outcome"] == "ROLL_WITH_FEAR"
        assert explained["steps"][3]["data"] == {"total": 12, "meets_difficulty": False}
        null = await player.call("duality_outcome", hope=3, fear=9, modifier=1, difficulty=None)
        assert "difficulty" not in null


async def test_text_and_structured_content_are_equal(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        result = await player.client.call("duality_probability", {"modifier": 2, "difficulty": 15})
        assert result["structuredContent"] == ODDS == json.loads(result["content"][0]["text"])


async def test_a_request_id_is_returned_only_in_meta(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        assert (await player.meta("duality_explain", hope=1, fear=2, request_id="req_123")) == {
            "dev.hubbub/request_id": "req_123",
            "hubbub/request_id": "req_123",
        }


@pytest.mark.parametrize("dialect", [ERAS["legacy"], ERAS["modern"]])
async def test_every_live_roll_can_be_replayed_from_its_seed(tmp_path: Path, dialect: str) -> None:
    async with open_player_and_server(tmp_path, dialect) as player:
        result = await player.client.call("duality_action_roll", {"modifier": 1})
        rng = result["_meta"]["dev.hubbub/rng"]
        assert result["_meta"]["hubbub/rng"] == rng
        assert (rng["seed_source"], rng["roll_mode"]) == ("SERVER", "LIVE")
        again = await player.call("duality_action_roll", modifier=1, rng={"seed": rng["seed_used"]})
        assert again.pop("rng") == rng | {"seed_source": "CLIENT", "roll_mode": "REPLAY"}
        assert again == result["structuredContent"]
        pool = [{"sides": 20, "count": 5}]
        live = await player.call("roll_dice", dice=pool, rng={})
        replayed = await player.call(
            "roll_dice", dice=pool, rng={"seed": live["rng"]["seed_used"], "roll_mode": "REPLAY"}
        )
        assert replayed["rolls"] == live["rolls"]
        wrong = await player.failure("duality_action_roll", rng={"seed": 1, "roll_mode": "LIVE"})
        assert wrong["code"] == "InvalidArgument"
