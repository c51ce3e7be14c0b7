"""The store backend: invariants, schema, event chain, and databases that do not work."""

import asyncio
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs.tabletop.backends import open_store_backend

from hubbub import bounds
from hubbub.pack.store import GENESIS, Chain, open_database, read_url, select, text
from hubbub.packs.tabletop.backend import Backend, iterate_all
from hubbub.packs.tabletop.failures import STORE_UNAVAILABLE, Failure, Unavailable
from hubbub.packs.tabletop.model import ActorChange, ActorKind, GmMode, Role, Scene, SessionStatus
from hubbub.packs.tabletop.sql.tables import SCHEMA, metadata
from hubbub.packs.tabletop.store_backend import StoreBackend
from hubbub.store.migrate import differences

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["join", "leave", "actor", "kill", "control", "start", "end", "roll", "note", "wrong", "rename"]
        ),
        st.integers(0, 4),
    ),
    max_size=25,
)


async def _step(backend: Backend, campaign_id: str, step: str, number: int) -> None:
    people = (await backend.list_participants(campaign_id)).items
    actors = (await backend.list_actors(campaign_id)).items
    person = people[number % len(people)].id if people else "nobody"
    actor = actors[number % len(actors)].id if actors else "nobody"
    steps: dict[str, Callable[[], Awaitable[object]]] = {
        "join": partial(backend.create_participant, campaign_id, f"P{number}", Role.PLAYER),
        "leave": partial(backend.delete_participant, campaign_id, person),
        "actor": partial(backend.create_actor, campaign_id, f"A{number}", ActorKind.NPC),
        "kill": partial(backend.delete_actor, campaign_id, actor),
        "control": partial(backend.set_control, campaign_id, actor, person if number else "GM"),
        "start": partial(backend.start_session, campaign_id, f"S{number}"),
        "end": partial(backend.end_session, campaign_id),
        "roll": partial(backend.action_roll, number, scene=Scene(campaign_id=campaign_id)),
        "note": partial(backend.append_event, Scene(campaign_id=campaign_id), "note", {"number": number}),
        "wrong": partial(backend.create_actor, campaign_id, " ", ActorKind.PC),
        "rename": partial(backend.append_event, Scene(campaign_id=campaign_id), "actor.updated", {}),
    }
    await steps[step]()


async def _check_invariants(backend: Backend, campaign_id: str, done: int) -> None:
    campaign = await backend.get_campaign(campaign_id)
    people = [person async for person in iterate_all(partial(backend.list_participants, campaign_id), 3)]
    actors = [actor async for actor in iterate_all(partial(backend.list_actors, campaign_id), 3)]
    sessions = [session async for session in iterate_all(partial(backend.list_sessions, campaign_id), 3)]
    events = [event async for event in iterate_all(partial(backend.list_events, campaign_id), 3)]
    assert (campaign.participant_count, campaign.actor_count) == (len(people), len(actors))
    assert sum(session.status is SessionStatus.ACTIVE for session in sessions) <= 1
    assert [event.seq for event in events] == list(range(1, done + 2)), "one event for each change, and no other"
    assert await backend.verify_events(campaign_id) is None
    counts = Counter(event.type for event in events)
    assert len(people) == counts["participant.created"] - counts["participant.deleted"]
    assert len(sessions) == counts["session.started"]
    known = {person.id for person in people} | {"GM", None}
    for actor in actors:
        assert (await backend.get_control(campaign_id, actor.id)).controller in known


def test_random_operations_keep_the_records_consistent(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'table.db'}"

    @given(STEPS)
    @settings(max_examples=25)
    def check(steps: list[tuple[str, int]]) -> None:
        async def main() -> None:
            async with open_store_backend(url) as backend:
                campaign, done = await backend.create_campaign("A", GmMode.AI), 0
                for step, number in steps:
                    try:
                        await _step(backend, campaign.id, step, number)
                    except Failure:
                        continue
                    done += 1
                await _check_invariants(backend, campaign.id, done)

        asyncio.run(main())

    check()


async def test_migrations_create_the_declared_schema(database_url: str) -> None:
    database = await open_database(read_url(database_url), SCHEMA)
    try:
        found = await database.write(lambda connection: differences(connection, metadata, SCHEMA.version_table))
        assert found == []
    finally:
        await database.close()


async def test_the_database_enforces_one_active_session(database_url: str) -> None:
    from hubbub import StoreConflict

    async with open_store_backend(database_url) as backend:
        campaign = await backend.create_campaign("A", GmMode.AI)
        await backend.start_session(campaign.id)
    database = await open_database(read_url(database_url), SCHEMA)
    try:
        second = text(
            "INSERT INTO tabletop_sessions (id, campaign_id, name, status, started_at, updated_at) "
            "SELECT 'sess_2', campaign_id, name, status, started_at, updated_at FROM tabletop_sessions"
        )
        with pytest.raises(StoreConflict):
            await database.write(lambda connection: connection.execute(second))
    finally:
        await database.close()


@pytest.mark.parametrize(
    ("tampering", "found"),
    [
        ("UPDATE tabletop_events SET data = '{\"number\": 7}' WHERE seq = 3", 3),
        ("UPDATE tabletop_events SET data = 'no JSON' WHERE seq = 3", 3),
        ("UPDATE tabletop_events SET type = 'other' WHERE seq = 2", 2),
        ("UPDATE tabletop_events SET created_at = created_at + 1 WHERE seq = 1", 1),
        ("UPDATE tabletop_events SET session_id = 'x' WHERE seq = 4", 4),
        ("UPDATE tabletop_events SET hash = previous_hash WHERE seq = 4", 4),
        ("DELETE FROM tabletop_events WHERE seq = 2", 2),
        ("DELETE FROM tabletop_events WHERE seq = 5", 5),
        ("DELETE FROM tabletop_events", 1),
        (
            "INSERT INTO tabletop_events SELECT campaign_id, 6, type, session_id, created_at, data, hash, hash "
            "FROM tabletop_events WHERE seq = 5",
            6,
        ),
        ("UPDATE tabletop_campaigns SET event_count = 4", 5),
    ],
)
async def test_a_modified_event_is_detected(database_url: str, tampering: str, found: int) -> None:
    async with open_store_backend(database_url) as backend:
        campaign = await backend.create_campaign("A", GmMode.AI)
        for number in range(4):
            await backend.append_event(Scene(campaign_id=campaign.id), "note", {"number": number})
        assert await backend.verify_events(campaign.id) is None
    database = await open_database(read_url(database_url), SCHEMA)
    try:
        await database.write(lambda connection: connection.execute(text(tampering)))
    finally:
        await database.close()
    async with open_store_backend(database_url) as backend:
        assert await backend.verify_events(campaign.id) == found


async def test_clients_can_verify_the_event_chain_from_listed_events(database_url: str) -> None:
    import msgspec

    async with open_store_backend(database_url) as backend:
        campaign = await backend.create_campaign("Ä 🎲", GmMode.AI)
        await backend.append_event(Scene(campaign_id=campaign.id), "note", {"x": 1.0, "y": [None, True, "é"]})
        encoded_events = msgspec.json.encode((await backend.list_events(campaign.id)).items)
    chain = Chain()
    assert chain.head == GENESIS
    assert all(chain.holds(entry) for entry in msgspec.json.decode(encoded_events))


async def test_300_concurrently_created_campaigns_are_listed_completely(tmp_path: Path) -> None:
    async with open_store_backend(f"sqlite:///{tmp_path / 'table.db'}") as backend:
        made = await asyncio.gather(*(backend.create_campaign(f"{number}", GmMode.AI) for number in range(300)))
        listed = [campaign.id async for campaign in iterate_all(backend.list_campaigns, 7)]
        assert sorted(listed) == sorted(campaign.id for campaign in made)
        assert len(set(listed)) == 300


async def test_a_cancelled_call_leaves_consistent_records(database_url: str) -> None:
    async with open_store_backend(database_url) as backend:
        campaign = await backend.create_campaign("A", GmMode.AI)
        for number in range(20):
            task = asyncio.create_task(backend.create_participant(campaign.id, f"P{number}", Role.PLAYER))
            for _ in range(number):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        # A started transaction is not interrupted, and the next write waits for it.
        await backend.append_event(Scene(campaign_id=campaign.id), "note", {})
        people = (await backend.list_participants(campaign.id)).items
        assert (await backend.get_campaign(campaign.id)).participant_count == len(people)
        assert await backend.verify_events(campaign.id) is None


async def test_a_file_that_is_not_a_database_is_reported_and_not_modified(tmp_path: Path) -> None:
    path = tmp_path / "table.db"
    path.write_bytes(b"This is not a database, but somebody may need it." * 100)
    before = path.read_bytes()
    async with open_store_backend(f"sqlite:///{path}") as backend:
        with pytest.raises(Unavailable) as raised:
            await backend.check()
    assert "not a database" in raised.value.reason
    assert str(path) not in raised.value.message
    assert path.read_bytes() == before


async def test_a_database_of_a_later_version_is_not_modified(tmp_path: Path) -> None:
    path = tmp_path / "table.db"
    async with open_store_backend(f"sqlite:///{path}") as backend:
        await backend.create_campaign("A", GmMode.AI)
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE {SCHEMA.version_table} SET version_num = '9999'")
    connection.close()
    async with open_store_backend(f"sqlite:///{path}") as backend:
        with pytest.raises(Unavailable) as raised:
            await backend.list_campaigns()
    assert "later version" in raised.value.reason


async def test_an_unreachable_database_is_logged_once_without_its_password_and_hidden_from_callers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_store_backend("postgresql://user:hunter2@127.0.0.1:1/table") as backend:
        for _ in range(2):
            with pytest.raises(Unavailable) as raised:
                await backend.check()
            assert raised.value.message == STORE_UNAVAILABLE
        assert not backend.status.is_ok
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    reason = vars(record)["reason"]
    assert "127.0.0.1:1" in reason
    assert "hunter2" not in reason


async def test_failed_writes_make_the_store_unhealthy_and_recovery_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "SQL_WAIT_S", 0.1)
    path = tmp_path / "table.db"
    async with open_store_backend(f"sqlite:///{path}") as backend:
        await backend.check()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")  # Blocks writes, but not reads.
        with pytest.raises(Unavailable):
            await backend.create_campaign("A", GmMode.AI)
        assert (await backend.list_campaigns()).items == ()
        with pytest.raises(Unavailable):
            await backend.check()
        is_ok = backend.status.is_ok
        assert not is_ok
        other.execute("ROLLBACK")
        other.close()
        await backend.check()
        assert backend.status.is_ok
    assert [record.getMessage() for record in caplog.records] == ["store_failed", "store_recovered"]


async def test_the_check_creates_no_database_and_detects_a_read_only_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    async with open_store_backend(None) as backend:
        await backend.check()
        assert list(tmp_path.iterdir()) == []
        monkeypatch.setattr(os, "access", lambda path, mode: False)  # Root may write to any folder.
        with pytest.raises(Unavailable) as raised:
            await backend.check()
    assert "not writable" in raised.value.reason


async def test_a_clock_set_back_does_not_produce_ends_before_starts(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store_backend(database_url) as backend:
        campaign = await backend.create_campaign("A", GmMode.AI)
        actor = await backend.create_actor(campaign.id, "Ann", ActorKind.PC)
        session = await backend.start_session(campaign.id)
        an_hour_ago = time.time() - 3600
        monkeypatch.setattr(time, "time", lambda: an_hour_ago)
        ended = await backend.end_session(campaign.id)
        changed = await backend.update_actor(campaign.id, actor.id, ActorChange(name="Bea"))
        await backend.create_participant(campaign.id, "Cy", Role.PLAYER)
        monkeypatch.undo()
        assert ended.ended_at
        assert ended.ended_at >= session.started_at
        assert ended.updated_at >= session.started_at
        assert changed.updated_at >= actor.created_at
        now = await backend.get_campaign(campaign.id)
        assert now.updated_at >= campaign.created_at


async def test_a_closed_backend_says_so(database_url: str) -> None:
    backend = StoreBackend(database_url)
    await backend.check()
    await backend.close()
    await backend.close()
    with pytest.raises(Unavailable, match="closed"):
        await backend.check()


async def test_the_database_file_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with open_store_backend(f"sqlite:///{folder / 'table.db'}") as backend:
        await backend.create_campaign("A", GmMode.AI)
        modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == {"table.db": 0o600, "table.db-wal": 0o600, "table.db-shm": 0o600}


async def test_writes_to_sqlite_are_synchronous(tmp_path: Path) -> None:
    database = await open_database(read_url(f"sqlite:///{tmp_path / 'table.db'}"), SCHEMA)
    try:
        for run in (database.read, database.write):
            found = await run(
                lambda connection: [
                    connection.execute(text(f"PRAGMA {name}")).scalar()
                    for name in ("journal_mode", "synchronous", "foreign_keys")
                ]
            )
            assert found == ["wal", 2, 1]
        assert await database.read(lambda connection: connection.execute(select(1)).scalar()) == 1
    finally:
        await database.close()
