"""Behaviour that every kind of campaign backend shares."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import UNSET
from tests.packs.tabletop.backends import OpenBackend

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.backend import Backend, iterate_all
from hubbub.packs.tabletop.dice import DiceSpec
from hubbub.packs.tabletop.failures import FailedPrecondition, InvalidArgument, NotFound
from hubbub.packs.tabletop.model import (
    ActorChange,
    ActorKind,
    Controller,
    GmMode,
    PageRequest,
    ParticipantChange,
    Role,
    Scene,
    SessionStatus,
)
from hubbub.packs.tabletop.randomness import RngRequest, RollMode


async def test_a_created_campaign_is_stored_with_a_trimmed_name_and_its_exact_theme(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        began = datetime.now(UTC).replace(microsecond=0)
        made = await backend.create_campaign("  The Lost Expedition ", GmMode.HUMAN, " a cursed forest\n")
        assert made.name == "The Lost Expedition"
        assert made.theme_prompt == " a cursed forest\n", "a theme is stored unchanged"
        assert (made.participant_count, made.actor_count) == (0, 0)
        assert made.created_at == made.updated_at
        assert made.created_at.microsecond == 0
        assert began <= made.created_at <= datetime.now(UTC)
        assert made.id.startswith("camp_")
        assert len(made.id) == len("camp_") + 26
        assert await backend.get_campaign(f" {made.id} ") == made


async def test_campaigns_persist_after_the_backend_closes(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        made = await backend.create_campaign("A", GmMode.AI)
    async with open_backend() as backend:
        assert (await backend.list_campaigns()).items == (made,)


async def test_lists_are_paginated_in_creation_order(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        assert (await backend.list_campaigns()).items == ()
        made = [(await backend.create_campaign(f"campaign {number}", GmMode.HYBRID)).id for number in range(7)]
        first = await backend.list_campaigns(PageRequest(3))
        assert [campaign.id for campaign in first.items] == made[:3]
        second = await backend.list_campaigns(PageRequest(4, first.next_page_token))
        assert [campaign.id for campaign in second.items] == made[3:]
        assert second.next_page_token == ""
        assert [campaign.id async for campaign in iterate_all(backend.list_campaigns, 2)] == made


async def test_any_page_size_is_accepted_and_clamped(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("A", GmMode.AI)
        for size in (0, -1, 2**40):
            page = await backend.list_actors(campaign.id, PageRequest(size))
            assert page.items == ()


@pytest.mark.parametrize("token", ["x", "-1", "1.5", "9" * 30, "camp_a"])
async def test_an_invalid_page_token_is_refused(open_backend: OpenBackend, token: str) -> None:
    async with open_backend() as backend:
        with pytest.raises(InvalidArgument, match="page token"):
            await backend.list_campaigns(PageRequest(5, token))


async def test_participants_are_created_updated_and_deleted(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("A", GmMode.HUMAN)
        alice = await backend.create_participant(campaign.id, " Alice ", Role.PLAYER)
        assert (alice.display_name, alice.role, alice.controller) == ("Alice", Role.PLAYER, Controller.HUMAN)
        assert alice.id.startswith("part_")
        robot = await backend.create_participant(campaign.id, "Robot", Role.GM, Controller.AI)
        assert (await backend.get_campaign(campaign.id)).participant_count == 2
        assert (await backend.list_participants(campaign.id)).items == (alice, robot)
        changed = await backend.update_participant(campaign.id, alice.id, ParticipantChange(display_name="Al"))
        assert (changed.display_name, changed.role) == ("Al", Role.PLAYER)
        assert await backend.get_participant(campaign.id, alice.id) == changed
        await backend.update_participant(
            campaign.id, alice.id, ParticipantChange(role=Role.GM, controller=Controller.AI)
        )
        assert (await backend.delete_participant(campaign.id, alice.id)).display_name == "Al"
        assert (await backend.get_campaign(campaign.id)).participant_count == 1
        with pytest.raises(NotFound, match="participant not found"):
            await backend.get_participant(campaign.id, alice.id)


async def test_actors_are_created_updated_and_deleted(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("A", GmMode.HUMAN)
        hero = await backend.create_actor(campaign.id, " Thorin ", ActorKind.PC, " a dwarf ")
        assert (hero.name, hero.kind, hero.notes) == ("Thorin", ActorKind.PC, "a dwarf")
        assert hero.id.startswith("actor_")
        changed = await backend.update_actor(campaign.id, hero.id, ActorChange(notes="", kind=ActorKind.NPC))
        assert (changed.name, changed.notes, changed.kind) == ("Thorin", "", ActorKind.NPC)
        assert await backend.get_actor(campaign.id, hero.id) == changed
        assert (await backend.list_actors(campaign.id)).items == (changed,)
        await backend.delete_actor(campaign.id, hero.id)
        assert (await backend.get_campaign(campaign.id)).actor_count == 0
        assert (await backend.list_actors(campaign.id)).items == ()


async def test_an_update_without_a_valid_change_is_refused(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("A", GmMode.HUMAN)
        hero = await backend.create_actor(campaign.id, "T", ActorKind.PC)
        with pytest.raises(InvalidArgument, match="no change was given; pass name, kind or notes"):
            await backend.update_actor(campaign.id, hero.id, ActorChange())
        with pytest.raises(InvalidArgument, match="actor name is required"):
            await backend.update_actor(campaign.id, hero.id, ActorChange(name="  "))


async def test_an_actor_is_controlled_by_the_gm_or_by_a_participant(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("A", GmMode.HUMAN)
        hero = await backend.create_actor(campaign.id, "T", ActorKind.PC)
        assert (await backend.get_control(campaign.id, hero.id)).controller is None
        assert (await backend.set_control(campaign.id, hero.id, " gm ")).controller == "GM"
        assert (await backend.get_control(campaign.id, hero.id)).controller == "GM"
        alice = await backend.create_participant(campaign.id, "Alice", Role.PLAYER)
        assert (await backend.set_control(campaign.id, hero.id, alice.id)).controller == alice.id
        assert (await backend.get_control(campaign.id, hero.id)).controller == alice.id
        await backend.delete_participant(campaign.id, alice.id)
        assert (await backend.get_control(campaign.id, hero.id)).controller is None
        for controller, failure in ((" ", InvalidArgument), (alice.id, NotFound)):
            with pytest.raises(failure):
                await backend.set_control(campaign.id, hero.id, controller)


async def test_a_campaign_has_at_most_one_active_session(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("A", GmMode.HUMAN)
        first = await backend.start_session(campaign.id, " Session 1 ")
        assert (first.name, first.status, first.ended_at) == ("Session 1", SessionStatus.ACTIVE, UNSET)
        with pytest.raises(FailedPrecondition, match=first.id):
            await backend.start_session(campaign.id)
        ended = await backend.end_session(campaign.id)
        assert (ended.id, ended.status) == (first.id, SessionStatus.ENDED)
        assert ended.ended_at is not UNSET
        with pytest.raises(FailedPrecondition, match="no active session"):
            await backend.end_session(campaign.id)
        with pytest.raises(FailedPrecondition, match="already ended"):
            await backend.end_session(campaign.id, first.id)
        second = await backend.start_session(campaign.id)
        assert (await backend.list_sessions(campaign.id)).items == (ended, second)
        assert await backend.get_session(campaign.id, second.id) == second


async def test_concurrent_session_starts_create_one_session(open_backend: OpenBackend) -> None:
    async with open_backend() as one, open_backend() as other:
        for _ in range(5):
            campaign = await one.create_campaign("A", GmMode.HUMAN)
            starts = [backend.start_session(campaign.id) for backend in (one, other, one, other)]
            outcomes = await asyncio.gather(*starts, return_exceptions=True)
            lost = [outcome for outcome in outcomes if isinstance(outcome, FailedPrecondition)]
            assert len(lost) == 3, outcomes
            assert len((await other.list_sessions(campaign.id)).items) == 1


async def test_unknown_ids_are_not_found_and_ids_of_another_campaign_are_invalid(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        ours, theirs = [await backend.create_campaign(name, GmMode.AI) for name in ("ours", "theirs")]
        person = await backend.create_participant(theirs.id, "P", Role.PLAYER)
        actor = await backend.create_actor(theirs.id, "T", ActorKind.NPC)
        session = await backend.start_session(theirs.id)
        for get, what, there in (
            (backend.get_participant, "participant", person.id),
            (backend.get_actor, "actor", actor.id),
            (backend.get_session, "session", session.id),
            (backend.delete_participant, "participant", person.id),
            (backend.delete_actor, "actor", actor.id),
            (backend.end_session, "session", session.id),
        ):
            with pytest.raises(InvalidArgument, match="another campaign"):
                await get(ours.id, there)
            with pytest.raises(NotFound, match=f"{what} not found"):
                await get(ours.id, "nowhere")
            with pytest.raises(NotFound, match="campaign not found"):
                await get("camp_nowhere", there)
            with pytest.raises(InvalidArgument, match="campaign id is required"):
                await get(" ", there)
        with pytest.raises(InvalidArgument, match="another campaign"):
            await backend.set_control(theirs.id, actor.id, await _create_outsider(backend, ours.id))
        assert (await backend.list_events(ours.id)).items[-1].type == "participant.created", "nothing else was written"


async def _create_outsider(backend: Backend, campaign_id: str) -> str:
    return (await backend.create_participant(campaign_id, "S", Role.PLAYER)).id


async def test_listing_an_unknown_campaign_raises_not_found(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        for listing in (backend.list_participants, backend.list_actors, backend.list_sessions, backend.list_events):
            with pytest.raises(NotFound):
                await listing("camp_nowhere")
            with pytest.raises(InvalidArgument):
                await listing("")


@pytest.mark.parametrize("name", ["", " \n ", "x" * (limits.MAX_NAME_CHARACTERS + 1), "a\0b", "a\ud800b"])
async def test_an_invalid_name_is_refused_and_nothing_is_written(open_backend: OpenBackend, name: str) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("A", GmMode.AI)
        with pytest.raises(InvalidArgument):
            await backend.create_campaign(name, GmMode.AI)
        with pytest.raises(InvalidArgument):
            await backend.create_participant(campaign.id, name, Role.GM)
        with pytest.raises(InvalidArgument):
            await backend.create_actor(campaign.id, name, ActorKind.PC)
        if name.strip():
            with pytest.raises(InvalidArgument):
                await backend.start_session(campaign.id, name)
            with pytest.raises(InvalidArgument):
                await backend.get_campaign(name)
        assert (await backend.list_campaigns()).items == (campaign,)
        assert len((await backend.list_events(campaign.id)).items) == 1


async def test_texts_of_the_maximum_length_are_stored_unchanged(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        name, theme = "🎲" * limits.MAX_NAME_CHARACTERS, "\x01é🎲\n" * (limits.MAX_TEXT_CHARACTERS // 4)
        made = await backend.create_campaign(name, GmMode.AI, theme)
        assert (await backend.get_campaign(made.id)).theme_prompt == theme
        with pytest.raises(InvalidArgument, match="at most"):
            await backend.create_campaign("A", GmMode.AI, theme + "xxxxx")
        with pytest.raises(InvalidArgument, match="at most"):
            await backend.create_actor(made.id, "A", ActorKind.PC, "x" * (limits.MAX_TEXT_CHARACTERS + 1))


async def test_every_change_and_roll_is_recorded_as_an_event(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("A", GmMode.HUMAN)
        alice = await backend.create_participant(campaign.id, "Alice", Role.PLAYER)
        hero = await backend.create_actor(campaign.id, "Thorin", ActorKind.PC)
        await backend.set_control(campaign.id, hero.id, alice.id)
        session = await backend.start_session(campaign.id, "one")
        scene = Scene(campaign_id=campaign.id, session_id=session.id, actor_id=hero.id)
        note = await backend.append_event(scene, "note.added", {"text": "a door opens", "n": 1, "x": 1.5})
        roll = await backend.action_roll(2, 15, scene=scene)
        dice = await backend.roll_dice([DiceSpec(6, 3)], scene=scene)
        await backend.update_actor(campaign.id, hero.id, ActorChange(name="T"))
        await backend.end_session(campaign.id)
        await backend.delete_actor(campaign.id, hero.id)
        events = (await backend.list_events(campaign.id)).items
        assert [event.type for event in events] == [
            "campaign.created",
            "participant.created",
            "actor.created",
            "actor.control_set",
            "session.started",
            "note.added",
            "roll.action",
            "roll.dice",
            "actor.updated",
            "session.ended",
            "actor.deleted",
        ]
        assert [event.seq for event in events] == list(range(1, 12))
        assert events[5] == note
        assert note.data == {"actor_id": hero.id, "text": "a door opens", "n": 1, "x": 1.5}
        assert (roll.event_seq, dice.event_seq) == (7, 8)
        assert events[6].data["rng"]["seed_used"] == roll.rng.seed_used
        assert events[6].data["outcome"] == roll.resolution.outcome
        assert await backend.verify_events(campaign.id) is None
        of_session = await backend.list_events(campaign.id, session_id=session.id)
        assert [event.seq for event in of_session.items] == [5, 6, 7, 8, 10]
        rolls = await backend.list_events(campaign.id, type="roll.action")
        assert [event.seq for event in rolls.items] == [7]


async def test_events_are_paginated_newest_first(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("A", GmMode.HUMAN)
        scene = Scene(campaign_id=campaign.id)
        for number in range(4):
            await backend.append_event(scene, "note", {"number": number})
        seqs, token = [], ""
        while True:
            page = await backend.list_events(campaign.id, PageRequest(2, token), newest_first=True)
            seqs.append([event.seq for event in page.items])
            token = page.next_page_token
            if not token:
                break
        assert seqs == [[5, 4], [3, 2], [1]]


@pytest.mark.parametrize("type", ["", "Note", "a b", "roll", "roll.action", "session.ended", "campaign", "x" * 65])
async def test_callers_cannot_write_reserved_or_invalid_event_types(open_backend: OpenBackend, type: str) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("A", GmMode.HUMAN)
        with pytest.raises(InvalidArgument):
            await backend.append_event(Scene(campaign_id=campaign.id), type, {})
        assert len((await backend.list_events(campaign.id)).items) == 1


@pytest.mark.parametrize("data", [{"n": 2**53}, {"t": "x" * limits.MAX_EVENT_BYTES}, {"t": "\ud800"}])
async def test_event_data_that_is_too_large_or_not_portable_json_is_refused(
    open_backend: OpenBackend, data: dict[str, Any]
) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("A", GmMode.HUMAN)
        with pytest.raises(InvalidArgument):
            await backend.append_event(Scene(campaign_id=campaign.id), "note", data)
        assert len((await backend.list_events(campaign.id)).items) == 1


async def test_an_ended_session_accepts_no_rolls_or_events(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("A", GmMode.HUMAN)
        session = await backend.start_session(campaign.id)
        await backend.end_session(campaign.id)
        scene = Scene(campaign_id=campaign.id, session_id=session.id)
        with pytest.raises(FailedPrecondition, match="ENDED"):
            await backend.action_roll(scene=scene)
        with pytest.raises(FailedPrecondition, match="ENDED"):
            await backend.append_event(scene, "note", {})


async def test_a_replayed_roll_has_the_same_result_and_is_not_recorded(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        campaign = await backend.create_campaign("A", GmMode.HUMAN)
        scene = Scene(campaign_id=campaign.id)
        live = await backend.action_roll(1, 12, scene=scene)
        again = await backend.action_roll(1, 12, rng=RngRequest(seed=live.rng.seed_used), scene=scene)
        assert again.resolution == live.resolution
        assert (again.rng.roll_mode, again.event_seq) == (RollMode.REPLAY, None)
        pool = await backend.roll_dice([DiceSpec(20, 5), DiceSpec(6, 2)])
        seed = RngRequest(seed=pool.rng.seed_used, roll_mode=RollMode.REPLAY)
        assert (await backend.roll_dice([DiceSpec(20, 5), DiceSpec(6, 2)], rng=seed)).rolls == pool.rolls
        assert len((await backend.list_events(campaign.id)).items) == 2


async def test_every_backend_applies_the_same_rules(open_backend: OpenBackend) -> None:
    from hubbub.packs.tabletop import duality

    async with open_backend() as backend:
        assert await backend.rules_version() == duality.RULES
        for difficulty in (None, 0, 15, 30):
            for hope, fear in ((8, 5), (5, 8), (7, 7)):
                assert await backend.resolve(hope, fear, 2, difficulty) == duality.resolve(hope, fear, 2, difficulty)
                explanation = await backend.explain(hope, fear, 2, difficulty, request_id="req_1")
                expected = duality.explain(hope, fear, 2, difficulty)
                assert explanation == expected
                for step, wanted in zip(explanation.steps, expected.steps, strict=True):
                    assert list(step.data) == list(wanted.data), "the keys have the contract's order"
                    assert [type(value) for value in step.data.values()] == [
                        type(value) for value in wanted.data.values()
                    ]
        assert await backend.probability(2, 15) == duality.probability(2, 15)


async def test_numbers_out_of_range_are_refused(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        for modifier, difficulty in ((2**31, 1), (-(2**31) - 1, 1), (0, -1), (0, 2**31), (2**31 - 1, None)):
            with pytest.raises(InvalidArgument):
                await backend.action_roll(modifier, difficulty)
        for hope, fear in ((0, 1), (1, 13), (2**40, 1)):
            with pytest.raises(InvalidArgument):
                await backend.resolve(hope, fear)
            with pytest.raises(InvalidArgument):
                await backend.explain(hope, fear)
        with pytest.raises(InvalidArgument):
            await backend.probability(0, -1)
        for dice in ([], [DiceSpec(6, 1_000_000)], [DiceSpec(6, 600)] * 2, [DiceSpec(2**40, 1)], [DiceSpec(0, 1)]):
            with pytest.raises(InvalidArgument):
                await backend.roll_dice(dice)
        for rng in (RngRequest(seed=-1), RngRequest(seed=2**53), RngRequest(seed=1, roll_mode=RollMode.LIVE)):
            with pytest.raises(InvalidArgument):
                await backend.action_roll(rng=rng)
        highest = await backend.action_roll(2**31 - 1 - 24)
        assert highest.resolution.total <= limits.INT32_MAX


async def test_the_check_of_a_working_backend_passes(open_backend: OpenBackend) -> None:
    async with open_backend() as backend:
        await backend.check()
