"""Invalid calls fail with a status code and a message in every dialect, and write nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs.tabletop.players import Player, open_player_and_server
from tests.server.raw_client import ERAS

from hubbub.packs.tabletop import limits

LONG_NAME = "n" * (limits.MAX_NAME_CHARACTERS + 1)
LONG_TEXT = "t" * (limits.MAX_TEXT_CHARACTERS + 1)
TOO_BIG = limits.INT32_MAX + 1


class SampleCampaigns:
    """Two campaigns; the first has a participant, an actor and a session."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self.names: dict[str, str] = {}

    async def create(self) -> None:
        call, names = self.player.call, self.names
        names["here"], names["there"] = await self.player.campaign(), await self.player.campaign()
        alice = await call("participant_create", campaign_id=names["here"], display_name="Alice", role="PLAYER")
        hero = await call("actor_create", campaign_id=names["here"], name="Hero", kind="PC")
        session = await call("session_start", campaign_id=names["here"])
        names |= {"alice": alice["id"], "hero": hero["id"], "session": session["id"]}

    async def read_all(self) -> Any:
        """Return everything that a client can read."""
        contents: list[Any] = [await self.player.read("campaigns://list")]
        for campaign in (self.names["here"], self.names["there"]):
            for kind in ("participants", "actors", "sessions"):
                contents.append(await self.player.read(f"campaign://{campaign}/{kind}"))
            contents.append(await self.player.call("events_list", campaign_id=campaign))
        return contents

    def fill_ids(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Replace placeholders such as `@alice` with ids."""
        return {
            key: self.names.get(value[1:], value) if isinstance(value, str) and value.startswith("@") else value
            for key, value in arguments.items()
        }


@asynccontextmanager
async def open_sample_campaigns(folder: Path, dialect: str) -> AsyncIterator[SampleCampaigns]:
    async with open_player_and_server(folder, dialect) as player:
        samples = SampleCampaigns(player)
        await samples.create()
        yield samples


INVALID_CALLS: list[tuple[str, str, dict[str, Any]]] = [
    # enum values
    ("campaign_create", "InvalidArgument", {"name": "x", "gm_mode": "ROBOT"}),
    ("campaign_create", "InvalidArgument", {"name": "x", "gm_mode": ""}),
    ("participant_create", "InvalidArgument", {"campaign_id": "@here", "display_name": "x", "role": "KING"}),
    ("actor_create", "InvalidArgument", {"campaign_id": "@here", "name": "x", "kind": "DRAGON"}),
    (
        "participant_create",
        "InvalidArgument",
        {"campaign_id": "@here", "display_name": "x", "role": "GM", "controller": "CAT"},
    ),
    ("participant_update", "InvalidArgument", {"campaign_id": "@here", "participant_id": "@alice", "role": "KING"}),
    ("actor_update", "InvalidArgument", {"campaign_id": "@here", "actor_id": "@hero", "kind": "DRAGON"}),
    # empty and oversized texts
    ("campaign_create", "InvalidArgument", {"name": "", "gm_mode": "AI"}),
    ("campaign_create", "InvalidArgument", {"name": " \t\n", "gm_mode": "AI"}),
    ("campaign_create", "InvalidArgument", {"name": LONG_NAME, "gm_mode": "AI"}),
    ("campaign_create", "InvalidArgument", {"name": "x", "gm_mode": "AI", "theme_prompt": LONG_TEXT}),
    ("campaign_create", "InvalidArgument", {"name": "x\0y", "gm_mode": "AI"}),
    ("participant_create", "InvalidArgument", {"campaign_id": "@here", "display_name": " ", "role": "GM"}),
    ("participant_create", "InvalidArgument", {"campaign_id": "@here", "display_name": LONG_NAME, "role": "GM"}),
    ("actor_create", "InvalidArgument", {"campaign_id": "@here", "name": "", "kind": "PC"}),
    ("actor_create", "InvalidArgument", {"campaign_id": "@here", "name": "x", "kind": "PC", "notes": LONG_TEXT}),
    ("session_start", "InvalidArgument", {"campaign_id": "@there", "name": LONG_NAME}),
    ("participant_update", "InvalidArgument", {"campaign_id": "@here", "participant_id": "@alice", "display_name": ""}),
    ("participant_update", "InvalidArgument", {"campaign_id": "@here", "participant_id": "@alice"}),
    ("actor_update", "InvalidArgument", {"campaign_id": "@here", "actor_id": "@hero"}),
    # ids: none, blank, unknown, of another campaign
    ("session_start", "InvalidArgument", {}),
    ("session_start", "InvalidArgument", {"campaign_id": ""}),
    ("session_start", "InvalidArgument", {"campaign_id": "x" * 1000}),
    ("session_start", "NotFound", {"campaign_id": "camp_nowhere"}),
    ("session_start", "NotFound", {"campaign_id": "camp_'; DROP TABLE campaigns; --"}),
    ("participant_get", "InvalidArgument", {"campaign_id": "@there", "participant_id": "@alice"}),
    ("participant_get", "NotFound", {"campaign_id": "@here", "participant_id": "part_nobody"}),
    ("participant_delete", "InvalidArgument", {"campaign_id": "@there", "participant_id": "@alice"}),
    ("participant_delete", "InvalidArgument", {"campaign_id": "@here", "participant_id": ""}),
    ("actor_get", "InvalidArgument", {"campaign_id": "@there", "actor_id": "@hero"}),
    ("actor_delete", "NotFound", {"campaign_id": "@here", "actor_id": "actor_nobody"}),
    ("actor_update", "InvalidArgument", {"campaign_id": "@there", "actor_id": "@hero", "notes": "x"}),
    ("actor_control_set", "InvalidArgument", {"campaign_id": "@here", "actor_id": "@hero", "controller": " "}),
    ("actor_control_set", "NotFound", {"campaign_id": "@here", "actor_id": "@hero", "controller": "part_nobody"}),
    ("actor_control_set", "InvalidArgument", {"campaign_id": "@there", "actor_id": "@hero", "controller": "GM"}),
    ("actor_control_get", "InvalidArgument", {"campaign_id": "@there", "actor_id": "@hero"}),
    ("session_end", "InvalidArgument", {"campaign_id": "@there", "session_id": "@session"}),
    ("session_end", "NotFound", {"campaign_id": "@here", "session_id": "sess_nowhere"}),
    ("session_end", "FailedPrecondition", {"campaign_id": "@there"}),
    ("session_start", "FailedPrecondition", {"campaign_id": "@here"}),
    ("events_list", "NotFound", {"campaign_id": "camp_nowhere"}),
    ("events_list", "InvalidArgument", {"campaign_id": "@here", "page_token": "made up"}),
    ("events_list", "InvalidArgument", {"campaign_id": "@there", "session_id": "@session"}),
    ("campaign_list", "InvalidArgument", {"page_token": "-1"}),
    ("campaign_get", "InvalidArgument", {"context_id": "made up"}),
    # numbers
    ("duality_action_roll", "InvalidArgument", {"modifier": TOO_BIG}),
    ("duality_action_roll", "InvalidArgument", {"modifier": -TOO_BIG - 1}),
    ("duality_action_roll", "InvalidArgument", {"modifier": 10**30}),
    ("duality_action_roll", "InvalidArgument", {"modifier": limits.INT32_MAX}),
    ("duality_action_roll", "InvalidArgument", {"difficulty": TOO_BIG}),
    ("duality_action_roll", "InvalidArgument", {"difficulty": -1}),
    ("duality_action_roll", "InvalidArgument", {"modifier": 1.5}),
    ("duality_action_roll", "InvalidArgument", {"modifier": "1"}),
    ("duality_action_roll", "InvalidArgument", {"modifier": True}),
    ("duality_action_roll", "InvalidArgument", {"rng": {"seed": -1}}),
    ("duality_action_roll", "InvalidArgument", {"rng": {"seed": 2**64}}),
    ("duality_action_roll", "InvalidArgument", {"rng": {"roll_mode": "REPLAY"}}),
    ("duality_action_roll", "InvalidArgument", {"rng": {"roll_mode": "LOADED"}}),
    ("duality_action_roll", "InvalidArgument", {"campaign_id": "@here", "rng": {"sede": 7}}),
    ("roll_dice", "InvalidArgument", {"campaign_id": "@here", "dice": [{"sides": 6, "count": 1, "cuont": 2}]}),
    ("duality_action_roll", "NotFound", {"campaign_id": "camp_nowhere"}),
    ("duality_action_roll", "InvalidArgument", {"campaign_id": "@there", "session_id": "@session"}),
    ("duality_action_roll", "InvalidArgument", {"campaign_id": "@there", "actor_id": "@hero"}),
    ("duality_outcome", "InvalidArgument", {"hope": 0, "fear": 5}),
    ("duality_outcome", "InvalidArgument", {"hope": 5, "fear": 13}),
    ("duality_outcome", "InvalidArgument", {"hope": 5}),
    ("duality_explain", "InvalidArgument", {"hope": 5, "fear": 5, "difficulty": -3}),
    ("duality_probability", "InvalidArgument", {"modifier": 1}),
    ("duality_probability", "InvalidArgument", {"modifier": 1, "difficulty": None}),
    ("duality_probability", "InvalidArgument", {"modifier": 1, "difficulty": -1}),
    # dice
    ("duality_explain", "InvalidArgument", {"hope": 1, "fear": 2, "request_id": "r" * 201}),
    ("duality_explain", "InvalidArgument", {"hope": 1, "fear": 2, "request_id": "\0"}),
    ("roll_dice", "InvalidArgument", {"dice": []}),
    ("roll_dice", "InvalidArgument", {"dice": [{"sides": 6, "count": 1_000_000}]}),
    ("roll_dice", "InvalidArgument", {"dice": [{"sides": 6, "count": 0}]}),
    ("roll_dice", "InvalidArgument", {"dice": [{"sides": 0, "count": 1}]}),
    ("roll_dice", "InvalidArgument", {"dice": [{"sides": TOO_BIG, "count": 1}]}),
    ("roll_dice", "InvalidArgument", {"dice": [{"sides": 6, "count": 1}] * 51}),
    ("roll_dice", "InvalidArgument", {"dice": [{"sides": 6, "count": 600}] * 2}),
    ("roll_dice", "InvalidArgument", {"dice": [{"sides": 6}]}),
    ("roll_dice", "InvalidArgument", {"dice": "2d6"}),
    ("roll_dice", "InvalidArgument", {"dice": [{"sides": 6, "count": 1}], "loaded": True}),
]


@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
async def test_invalid_calls_fail_with_their_code_and_write_nothing(tmp_path: Path, dialect: str) -> None:
    async with open_sample_campaigns(tmp_path, dialect) as samples:
        before = await samples.read_all()
        for tool, code, arguments in INVALID_CALLS:
            failure = await samples.player.failure(tool, **samples.fill_ids(arguments))
            error = failure["data"] if dialect == "plain" else failure
            assert error["code"] == code, (tool, arguments, failure)
            assert failure["message"]
        assert await samples.read_all() == before


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("campaign_create", {"name": "x", "gm_mode": "ROBOT"}, "'HUMAN', 'AI', 'HYBRID'"),
        ("participant_create", {"campaign_id": "c", "display_name": "x", "role": "KING"}, "'GM', 'PLAYER'"),
        (
            "participant_create",
            {"campaign_id": "c", "display_name": "x", "role": "GM", "controller": ""},
            "'HUMAN', 'AI'",
        ),
        ("actor_create", {"campaign_id": "c", "name": "x", "kind": "DRAGON"}, "'PC', 'NPC'"),
        ("duality_action_roll", {"rng": {"seed": 1, "roll_mode": "AGAIN"}}, "'LIVE', 'REPLAY'"),
        ("campaign_import", {"document": {"campaign": {"gm_mode": "ROBOT"}}}, "'HUMAN', 'AI', 'HYBRID'"),
        ("campaign_import", {"document": {"sessions": [{"status": "LOST"}]}}, "'ACTIVE', 'PAUSED', 'ENDED'"),
    ],
)
async def test_an_unknown_enum_value_is_refused_with_the_valid_ones(
    tmp_path: Path, tool: str, arguments: dict[str, Any], words: str
) -> None:
    async with open_player_and_server(tmp_path) as player:
        assert words in (await player.failure(tool, **arguments))["message"]


async def test_a_second_session_is_refused_with_the_id_of_the_active_one(tmp_path: Path) -> None:
    async with open_sample_campaigns(tmp_path, ERAS["legacy"]) as samples:
        failure = await samples.player.failure("session_start", campaign_id=samples.names["here"])
        assert samples.names["session"] in failure["message"]


ANY = st.dictionaries(st.sampled_from(["campaign_id", "name", "kind", "notes", "x"]), st.text() | st.none())


@settings(max_examples=10)
@given(attempts=st.lists(ANY, min_size=20, max_size=40))
def test_random_arguments_fail_with_a_status_code(
    attempts: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def main() -> None:
        async with open_player_and_server(tmp_path_factory.mktemp("any")) as player:
            for arguments in attempts:
                failure = await player.failure("actor_create", **arguments)
                assert failure["code"] in ("InvalidArgument", "NotFound")

    asyncio.run(main())
