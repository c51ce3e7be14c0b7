"""Advantage, notation, charts, and export and import of campaigns, with every backend and as tools."""

import base64
import json
import struct
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.packs.tabletop.backends import OpenBackend, open_store_backend
from tests.packs.tabletop.players import Player, make_tabletop_server, open_player, open_player_and_server

from hubbub.pack.store import GENESIS, link
from hubbub.packs.tabletop import chart, duality, limits
from hubbub.packs.tabletop.campaign_document import CampaignDocument
from hubbub.packs.tabletop.failures import FailedPrecondition, InvalidArgument, NotFound
from hubbub.packs.tabletop.model import ActorKind, GmMode, Role, Scene
from hubbub.packs.tabletop.randomness import RngRequest

# -- advantage -----------------------------------------------------------------------


@pytest.mark.parametrize("advantage", [1, -1])
def test_advantage_adds_a_die_and_disadvantage_subtracts_one(advantage: int) -> None:
    for seed in range(500):
        plain = duality.action_roll(2, 15, RngRequest(seed=seed)).resolution
        roll = duality.action_roll(2, 15, RngRequest(seed=seed), advantage)
        found = roll.resolution
        assert roll.advantage is not None
        assert 1 <= advantage * roll.advantage <= 6
        assert (found.hope, found.fear, found.modifier) == (plain.hope, plain.fear, 2)
        assert found.total == plain.total + roll.advantage
        assert found.meets_difficulty == (found.is_crit or found.total >= 15)


@pytest.mark.parametrize("advantage", [1, -1])
def test_the_odds_with_advantage_sum_over_the_faces_of_the_extra_die(advantage: int) -> None:
    for difficulty in range(0, 40):
        odds = duality.probability(2, difficulty, advantage)
        assert odds.total_outcomes == 864 == odds.success_count + odds.failure_count
        assert odds.crit_count == 72
        summed = dict.fromkeys((row.outcome for row in odds.outcome_counts), 0)
        for face in range(1, 7):
            for row in duality.probability(2 + advantage * face, difficulty).outcome_counts:
                summed[row.outcome] += row.count
        assert {row.outcome: row.count for row in odds.outcome_counts} == summed


@pytest.mark.parametrize(
    ("modifier", "advantage"),
    [(0, 2), (0, -2), (limits.INT32_MAX - 24, 1), (-limits.INT32_MAX - 1, -1)],
)
def test_advantage_and_totals_out_of_range_are_refused(modifier: int, advantage: int) -> None:
    with pytest.raises(InvalidArgument):
        duality.action_roll(modifier, None, advantage=advantage)
    with pytest.raises(InvalidArgument):
        duality.probability(modifier, 5, advantage)


async def test_every_backend_supports_advantage_and_notation(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("Storm", GmMode.AI)
        scene = Scene(campaign_id=campaign.id)
        rng = RngRequest(seed=7)
        assert await backend.action_roll(1, 9, advantage=-1, rng=rng) == duality.action_roll(1, 9, rng, -1)
        assert await backend.probability(1, 9, 1) == duality.probability(1, 9, 1)
        with pytest.raises(InvalidArgument):
            await backend.probability(1, 9, 3)
        roll = await backend.action_roll(advantage=1, scene=scene)
        rolled = await backend.roll_notation("4d6kh3 - 1", scene=scene)
        assert (roll.event_seq, rolled.event_seq) == (2, 3)
        events = (await backend.list_events(campaign.id)).items
        assert events[1].data["advantage"] == roll.advantage
        assert events[2].type == "roll.notation"
        assert events[2].data["terms"] == json.loads(msgspec.json.encode(rolled.terms))
        assert await backend.verify_events(campaign.id) is None
        again = await backend.roll_notation("4d6kh3-1", rng=RngRequest(seed=rolled.rng.seed_used), scene=scene)
        assert again.terms == rolled.terms
        assert again.event_seq is None
        for wrong in ("", "six", "1001d6", "\ud800"):
            with pytest.raises(InvalidArgument):
                await backend.roll_notation(wrong, scene=scene)
        assert len((await backend.list_events(campaign.id)).items) == 3


async def test_advantage_and_disadvantage_cancel_out(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        assert (await player.call("duality_action_roll", advantage=True))["advantage"] > 0
        assert (await player.call("duality_action_roll", disadvantage=True))["advantage"] < 0
        assert "advantage" not in await player.call("duality_action_roll", advantage=True, disadvantage=True)
        assert (await player.call("duality_probability", difficulty=15, advantage=True))["total_outcomes"] == 864
        both = await player.call("duality_probability", difficulty=15, advantage=True, disadvantage=True)
        assert both["total_outcomes"] == 144


async def test_the_tool_rolls_a_notation(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        rolled = await player.call("roll_notation", notation="2d20kl1 + 3")
        assert list(rolled) == ["notation", "terms", "total"]
        assert [list(term) for term in rolled["terms"]] == [["text", "results", "kept", "total"]] * 2
        assert rolled["total"] == min(rolled["terms"][0]["results"]) + 3
        failure = await player.failure("roll_notation", notation="1000000d6")
        assert failure["code"] == "InvalidArgument"


# -- charts --------------------------------------------------------------------------


async def test_the_odds_are_drawn_as_a_chart(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        result = await player.client.call("duality_chart", {"modifier": 2, "difficulty": 15})
        picture, text = result["content"]
        assert (picture["type"], picture["mimeType"]) == ("image", "image/png")
        data = base64.b64decode(picture["data"])
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        assert struct.unpack(">II", data[16:24])[0] == 800
        assert "- Critical success: 12 · 8.3%" in text["text"]
        other = await player.client.call("duality_chart", {"difficulty": 30, "advantage": True})
        assert other["content"][0]["data"] != picture["data"]
        assert (await player.failure("duality_chart", difficulty=-1))["code"] == "InvalidArgument"


async def test_without_matplotlib_a_chart_is_refused_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    async with open_player_and_server(tmp_path) as player:
        failure = await player.failure("duality_chart", difficulty=15)
        assert failure["code"] == "FailedPrecondition"
        assert "its extra 'charts'" in failure["message"]


def test_every_counted_outcome_is_drawn() -> None:
    odds = duality.probability(0, 0)
    _, text = chart.draw(odds, "Odds")
    drawn = [line.partition(":")[0] for line in text.splitlines()[1:]]
    assert drawn == [f"- {row.outcome.replace('_', ' ').capitalize()}" for row in odds.outcome_counts]
    assert "- Critical success" in drawn


# -- export and import ---------------------------------------------------------------


async def create_full_campaign(player: Player) -> str:
    """Create a campaign with records of every kind and return its id."""
    campaign = await player.campaign(theme_prompt='Fog & "debts"\n– old ones')
    where = {"campaign_id": campaign}
    alice = (await player.call("participant_create", **where, display_name="Alice", role="PLAYER"))["id"]
    gone = (await player.call("participant_create", **where, display_name="Bob", role="PLAYER"))["id"]
    await player.call("participant_delete", **where, participant_id=gone)
    heroes = [(await player.call("actor_create", **where, name=f"Hero {n}", kind="PC"))["id"] for n in range(3)]
    await player.call("actor_control_set", **where, actor_id=heroes[0], controller=alice)
    await player.call("actor_control_set", **where, actor_id=heroes[1], controller="GM")
    await player.call("session_start", **where, name="One")
    await player.call("duality_action_roll", **where, actor_id=heroes[0], difficulty=12)
    await player.call("session_end", **where)
    await player.call("session_start", **where, name="Two")
    return campaign


async def read_campaign(player: Player, campaign: str) -> Any:
    """Return everything that clients can read of a campaign, except its events."""
    kinds = ("", "/participants", "/actors", "/sessions")
    return [await player.read(f"campaign://{campaign}{kind}") for kind in kinds]


async def test_an_exported_campaign_is_imported_completely_on_another_server(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with (
        open_player_and_server(tmp_path / "a") as here,
        open_player_and_server(tmp_path / "b", "2026-07-28") as there,
    ):
        await there.campaign()
        campaign = await create_full_campaign(here)
        document = await here.call("campaign_export", campaign_id=campaign)
        assert list(document)[:2] == ["format", "version"]
        taken = await there.call("campaign_import", document=document)
        assert taken["id"] == campaign
        assert await read_campaign(there, campaign) == await read_campaign(here, campaign)
        events = (await there.call("events_list", campaign_id=campaign))["events"]
        assert events[:-1] == document["events"]
        assert events[-1]["type"] == "campaign.imported"
        assert await there.call("events_verify", campaign_id=campaign) == {"campaign_id": campaign, "is_whole": True}
        again = await there.call("campaign_export", campaign_id=campaign, events=False)
        assert again | {"events": document["events"]} == document
        failure = await there.failure("session_start", campaign_id=campaign)
        assert failure["code"] == "FailedPrecondition"
        await there.call("session_end", campaign_id=campaign)
        assert (await here.failure("campaign_import", document=document))["code"] == "FailedPrecondition"


async def test_a_campaign_imported_without_events_starts_a_new_chain(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with open_player_and_server(tmp_path / "a") as here, open_player_and_server(tmp_path / "b") as there:
        campaign = await create_full_campaign(here)
        document = await here.call("campaign_export", campaign_id=campaign, events=False)
        await there.call("campaign_import", document=document)
        (event,) = (await there.call("events_list", campaign_id=campaign))["events"]
        assert (event["seq"], event["type"]) == (1, "campaign.imported")
        assert (await there.call("events_verify", campaign_id=campaign))["is_whole"]


async def test_every_backend_exports_and_imports_campaigns(open_backend: OpenBackend, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    async with open_player_and_server(tmp_path / "a") as here:
        campaign = await create_full_campaign(here)
        document = msgspec.convert(await here.call("campaign_export", campaign_id=campaign), CampaignDocument)
    async with open_backend() as backend:
        with pytest.raises(NotFound):
            await backend.export_campaign(campaign)
        taken = await backend.import_campaign(document)
        assert msgspec.structs.replace(taken, updated_at=document.campaign.updated_at) == document.campaign
        exported = await backend.export_campaign(campaign)
        assert exported.events[:-1] == document.events
        assert msgspec.structs.replace(exported, events=document.events) == document
        with pytest.raises(FailedPrecondition):
            await backend.import_campaign(document)
        broken = msgspec.structs.replace(document, actors=(*document.actors, document.actors[0]))
        with pytest.raises(InvalidArgument):
            await backend.import_campaign(broken)


def replace_value(document: Any, *path: Any) -> Any:
    """Return a copy of a document with one value replaced."""
    *where, value = path
    copy = json.loads(json.dumps(document))
    place = copy
    for step in where[:-1]:
        place = place[step]
    place[where[-1]] = value
    return copy


def with_hash(event: dict[str, Any]) -> dict[str, Any]:
    """Return a first event with its correct hash."""
    return link({key: value for key, value in event.items() if key != "hash"}, GENESIS)


@pytest.mark.parametrize("character", ["\x01", "🐉"])
async def test_campaigns_with_the_longest_texts_can_be_imported(
    character: str, open_backend: OpenBackend, tmp_path: Path
) -> None:
    longest = character * limits.MAX_TEXT_CHARACTERS
    async with open_store_backend(f"sqlite:///{tmp_path / 'other.db'}") as other:
        campaign = await other.create_campaign("Long", GmMode.AI, longest)
        await other.create_actor(campaign.id, character * limits.MAX_NAME_CHARACTERS, ActorKind.PC, longest)
        document = await other.export_campaign(campaign.id)
    async with open_backend() as backend:
        assert (await backend.import_campaign(document)).theme_prompt == longest
        assert await backend.verify_events(campaign.id) is None


async def test_an_invalid_document_is_refused_completely(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    server, _ = make_tabletop_server(tmp_path)
    async with server.running(), open_player(server) as here, open_player_and_server(tmp_path / "b") as there:
        document = await here.call("campaign_export", campaign_id=await create_full_campaign(here))
        participant = document["participants"][0]
        wrong = [
            {},
            replace_value(document, "format", "something else"),
            replace_value(document, "version", 2),
            replace_value(document, "unknown", 1),
            replace_value(document, "campaign", "id", "a/b"),
            replace_value(document, "campaign", "id", "_"),
            replace_value(document, "campaign", "id", "camp_other"),
            replace_value(document, "campaign", "name", " "),
            replace_value(document, "campaign", "gm_mode", "ROBOT"),
            replace_value(document, "campaign", "theme_prompt", "t" * (limits.MAX_TEXT_CHARACTERS + 1)),
            replace_value(document, "participants", 0, "campaign_id", "camp_other"),
            replace_value(document, "participants", 0, "display_name", ""),
            replace_value(document, "participants", 0, "role", "KING"),
            replace_value(document, "participants", [participant, participant]),
            replace_value(document, "participants", []),  # then the controller of an actor is unknown
            replace_value(document, "actors", 0, "kind", "DRAGON"),
            replace_value(document, "actors", 0, "created_at", "yesterday"),
            replace_value(document, "actors", []),
            replace_value(document, "controls", 0, "controller", "part_nobody"),
            replace_value(document, "controls", 0, "controller", None),
            replace_value(document, "controls", [document["controls"][0]] * 2),
            replace_value(document, "sessions", 0, "status", "ACTIVE"),
            replace_value(document, "sessions", 0, "ended_at", None),
            replace_value(document, "sessions", 1, "ended_at", document["sessions"][0]["ended_at"]),
            replace_value(document, "sessions", []),
            replace_value(document, "events", document["events"][1:]),
            replace_value(document, "events", document["events"][::-1]),
            replace_value(document, "events", 3, "data", {"display_name": "Mallory"}),
            replace_value(document, "events", 3, "hash", "0" * 64),
            replace_value(document, "events", 0, "created_at", "2020-01-01T00:00:00.5Z"),
            replace_value(document, "participants", 0, "id", "gm"),
            replace_value(document, "campaign", "created_at", "2020-01-01T00:00:00"),
            replace_value(document, "campaign", "updated_at", "9999-12-31T23:59:59-23:00"),
            replace_value(document, "actors", 0, "updated_at", "0001-01-01T00:00:00+23:00"),
            replace_value(document, "sessions", 0, "ended_at", "2020-01-01T00:00:00.5Z"),
            replace_value(
                document, "events", [with_hash(document["events"][0] | {"created_at": "2020-01-01T02:00:00+02:00"})]
            ),
            replace_value(
                document, "events", [with_hash(document["events"][0] | {"created_at": "2020-01-01T02:00:00"})]
            ),
        ]
        for number, one in enumerate(wrong):
            failure = await there.failure("campaign_import", document=one)
            assert failure["code"] == "InvalidArgument", number
        assert await there.read("campaigns://list") == {"campaigns": []}
        await there.call("campaign_import", document=document)


async def test_an_import_with_ids_of_another_campaign_is_refused(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("One", GmMode.AI)
        await backend.create_participant(campaign.id, "Alice", Role.GM)
        await backend.create_actor(campaign.id, "Hero", ActorKind.PC)
        document = await backend.export_campaign(campaign.id, without_events=True)
        copy = msgspec.to_builtins(document)
        for records in (copy["participants"], copy["actors"]):
            for record in records:
                record["campaign_id"] = "camp_copy"
        copy["campaign"]["id"] = "camp_copy"
        with pytest.raises(FailedPrecondition):
            await backend.import_campaign(msgspec.convert(copy, CampaignDocument))
        with pytest.raises(NotFound):
            await backend.get_campaign("camp_copy")
