"""How the signalling router handles each message, without a network."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.packs.peers import limits
from hubbub.packs.peers.signalling_router import STREAM_ID_TAKEN, Client, ClientDisconnected, SignalLimits, SignalRouter

OFFER = {"session": "abc", "streamID": "s808d64", "description": "00ff", "vector": "11"}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def router(clock: Clock | None = None, **limits: Any) -> SignalRouter:
    return SignalRouter(SignalLimits(**limits), clock=clock or Clock())


def send(router: SignalRouter, client: Client, **message: Any) -> list[tuple[Client, dict[str, Any]]]:
    return router.receive(client, json.dumps(message))


def join(router: SignalRouter, room: str = "r", stream_id: str | None = None, address: str = "10.0.0.1") -> Client:
    client = router.connect(address)
    send(router, client, request="joinroom", roomid=room)
    if stream_id is not None:
        send(router, client, request="seed", streamID=stream_id)
    return client


def test_each_client_gets_its_own_uuid() -> None:
    signal_router = router()
    assert len({signal_router.connect("a").uuid for _ in range(50)}) == 50


def test_joining_returns_the_listing_and_notifies_the_members() -> None:
    room = router()
    ann = join(room, stream_id="ann")
    bob = join(room)
    carol = room.connect("a")
    outgoing = send(room, carol, request="joinroom", roomid="r")
    assert outgoing[0][0] is carol
    assert outgoing[0][1]["request"] == "listing"
    assert outgoing[0][1]["list"] == [{"UUID": ann.uuid, "streamID": "ann"}, {"UUID": bob.uuid}]
    assert outgoing[1:] == [(other, {"request": "someonejoined", "UUID": carol.uuid}) for other in (ann, bob)]


def test_the_first_member_gets_an_empty_listing() -> None:
    room = router()
    alone = room.connect("a")
    ((to, reply),) = send(room, alone, request="joinroom", roomid="r")
    assert to is alone
    assert reply["list"] == []


def test_a_seeded_stream_id_is_announced_in_its_room_only() -> None:
    room = router()
    ann, bob, outsider = join(room), join(room), join(room, "other")
    outgoing = send(room, ann, request="seed", streamID="ann")
    assert (bob, {"request": "videoaddedtoroom", "UUID": ann.uuid, "streamID": "ann"}) in outgoing
    assert all(to is not outsider for to, _ in outgoing)


def test_a_stream_id_is_unique_within_a_room() -> None:
    room = router()
    join(room, stream_id="ann")
    second, elsewhere = join(room), join(room, "other")
    ((to, reply),) = send(room, second, request="seed", streamID="ann")
    assert (to, reply) == (second, {"request": "alert", "code": "stream_id_taken", "message": STREAM_ID_TAKEN})
    assert send(room, elsewhere, request="seed", streamID="ann")[0][1]["request"] == "seeded"


def test_a_stream_id_is_free_after_its_owner_disconnects() -> None:
    room = router()
    first = join(room, stream_id="ann")
    room.disconnect(first)
    assert send(room, join(room), request="seed", streamID="ann")[0][1]["request"] == "seeded"


def test_a_play_request_is_forwarded_to_the_owner_of_the_stream() -> None:
    room = router()
    ann, bob = join(room, stream_id="ann"), join(room, stream_id="bob")
    assert send(room, bob, request="play", streamID="ann") == [(ann, {"request": "offerSDP", "UUID": bob.uuid})]
    assert send(room, bob, request="play", streamID="an") == []
    assert send(room, bob, request="play", streamID="bob") == []
    assert send(room, join(room, "other"), request="play", streamID="ann") == []
    assert send(room, bob, request="play")[0][1]["code"] == "invalid_stream_id"


def test_a_message_with_a_uuid_is_relayed_with_the_uuid_of_its_sender() -> None:
    room = router()
    ann, bob = join(room), join(room)
    assert send(room, ann, UUID=bob.uuid, **OFFER) == [(bob, {"UUID": ann.uuid, **OFFER})]
    assert room.relayed == 1


@pytest.mark.parametrize("to", ["", "nobody", None, 5, ["x"], {"a": 1}])
def test_a_message_to_an_unknown_uuid_is_dropped(to: Any) -> None:
    room = router()
    assert send(room, join(room), UUID=to, description="x") == []


def test_messages_do_not_cross_rooms() -> None:
    room = router()
    ann, outsider, roomless = join(room, "r"), join(room, "q"), room.connect("a")
    assert send(room, outsider, UUID=ann.uuid, **OFFER) == []
    assert send(room, roomless, UUID=ann.uuid, **OFFER) == []
    assert send(room, ann, UUID=roomless.uuid, **OFFER) == []
    send(room, ann, request="seed", streamID="ann")
    assert send(room, roomless, request="play", streamID="ann") == []


def test_clients_without_a_room_publish_and_play_among_themselves() -> None:
    room = router()
    ann, bob, other = room.connect("a"), room.connect("b"), room.connect("c")
    has_asked = ann.is_active
    assert not has_asked
    assert send(room, ann, request="seed", streamID="ann") == [(ann, {"request": "seeded", "streamID": "ann"})]
    assert send(room, other, request="seed", streamID="ann")[0][1]["code"] == "stream_id_taken"
    assert send(room, bob, request="play", streamID="ann") == [(ann, {"request": "offerSDP", "UUID": bob.uuid})]
    assert ann.is_active
    assert bob.is_active
    assert not other.is_active
    assert send(room, ann, UUID=bob.uuid, **OFFER) == [(bob, {"UUID": ann.uuid, **OFFER})]
    # The room is notified of the stream id that a client had before it joined.
    carol = join(room)
    outgoing = send(room, ann, request="joinroom", roomid="r")
    assert (carol, {"request": "someonejoined", "UUID": ann.uuid, "streamID": "ann"}) in outgoing
    assert send(room, bob, request="play", streamID="ann") == []
    assert send(room, other, request="seed", streamID="ann")[0][1]["request"] == "seeded"


def test_joining_a_room_drops_a_stream_id_that_is_taken_there() -> None:
    room = router()
    ann, second = join(room, stream_id="ann"), room.connect("a")
    send(room, second, request="seed", streamID="ann")
    outgoing = send(room, second, request="joinroom", roomid="r")
    assert (second, {"request": "alert", "code": "stream_id_taken", "message": STREAM_ID_TAKEN}) in outgoing
    assert (ann, {"request": "someonejoined", "UUID": second.uuid}) in outgoing


def test_the_first_client_that_claims_a_room_is_its_director_until_it_leaves() -> None:
    room = router()
    plain, ann, bob = join(room), room.connect("a"), room.connect("b")
    (_, listing), *_ = send(room, ann, request="joinroom", roomid="r", claim=True)
    assert (listing["claim"], listing["director"]) == (True, ann.uuid)
    send(room, ann, request="seed", streamID="ann")
    (_, listing), *_ = send(room, bob, request="joinroom", roomid="r", claim=True)
    assert (listing["claim"], listing["director"]) == (False, ann.uuid)
    (_, listing), *_ = send(room, plain, request="joinroom", roomid="r")
    assert ("claim" in listing, listing["director"]) == (False, ann.uuid)
    room.disconnect(ann)
    (_, listing), *_ = send(room, plain, request="joinroom", roomid="r")
    assert "director" not in listing
    (_, listing), *_ = send(room, bob, request="joinroom", roomid="r", claim=True)
    assert listing["claim"] is True


def test_a_repeated_request_is_answered_but_not_announced_again() -> None:
    room = router()
    ann, bob = join(room, stream_id="ann"), join(room)
    for message in ({"request": "joinroom", "roomid": "r"}, {"request": "seed", "streamID": "ann"}):
        assert [to for to, _ in send(room, ann, **message)] == [ann]
    assert [to for to, _ in send(room, ann, request="seed", streamID="anna")] == [ann, bob]


@pytest.mark.parametrize("request_", ["migrate", "transfer", "", 7, ["seed"], {"a": 1}, True])
def test_an_unsupported_request_is_answered_with_an_error(request_: Any) -> None:
    room = router()
    ((_, reply),) = send(room, join(room), request=request_, UUID="x")
    assert (reply["request"], reply["code"]) == ("error", "unsupported_request")


def test_fallback_broadcasts_go_to_the_other_members_of_the_room_only() -> None:
    room = router()
    ann, bob, carol, _, roomless = join(room), join(room), join(room), join(room, "q"), room.connect("a")
    data = {"pipe": {"x": 1}, "__fallback": True}
    assert send(room, ann, **data) == [(each, {**data, "UUID": ann.uuid}) for each in (bob, carol)]
    assert send(room, ann, UUID=bob.uuid, **data) == [(bob, {**data, "UUID": ann.uuid})]
    assert send(room, roomless, **data) == []
    for other in ({"pipe": 1}, {"pipe": 1, "__fallback": "yes"}, {"__fallback": True}):
        assert send(room, ann, **other) == []


def test_a_fallback_broadcast_counts_once_per_recipient_against_the_rate_limit() -> None:
    room = router(messages=20, bytes=2000)
    ann, *_ = [join(room) for _ in range(10)]
    assert len(send(room, ann, pipe=1, __fallback=True)) == 9
    ((_, reply),) = send(room, ann, pipe=1, __fallback=True)
    assert (reply["request"], reply["code"]) == ("error", "rate_limited")
    room = router(bytes=2000)
    ann, *_ = [join(room) for _ in range(10)]
    assert send(room, ann, pipe="x" * 300, __fallback=True)[0][1]["code"] == "rate_limited"


def test_a_client_that_sends_too_many_bytes_is_disconnected() -> None:
    room = router(bytes=1000)
    ann, bob = join(room), join(room)
    for _ in range(3):
        assert send(room, ann, UUID=bob.uuid, description="x" * 200)
    with pytest.raises(ClientDisconnected, match="too large"):
        send(room, ann, UUID=bob.uuid, description="x" * 200)
    assert limits.SIGNAL_BYTES < limits.SIGNAL_QUEUE_BYTES


def test_leaving_or_joining_another_room_removes_a_client_from_the_first() -> None:
    room = router()
    ann, bob = join(room, stream_id="ann"), join(room)
    send(room, ann, leave=True)
    assert send(room, bob, UUID=ann.uuid, **OFFER) == []
    send(room, bob, request="joinroom", roomid="other")
    assert (room.rooms, room.clients) == (1, 2)
    room.disconnect(bob)
    room.disconnect(bob)
    assert (room.rooms, room.clients) == (0, 1)


def test_joining_a_full_room_is_refused() -> None:
    room = router(clients_per_room=2)
    join(room)
    second = join(room)
    third = room.connect("a")
    ((to, reply),) = send(room, third, request="joinroom", roomid="r")
    assert to is third
    assert (reply["request"], "full" in reply["message"]) == ("error", True)
    assert send(room, second, request="joinroom", roomid="r")[0][1]["request"] == "listing"
    assert send(room, third, request="joinroom", roomid="q")[0][1]["request"] == "listing"


def test_clients_are_limited_in_total_and_per_address() -> None:
    room = router(clients=3, clients_per_address=2)
    first = room.connect("a")
    room.connect("a")
    with pytest.raises(ClientDisconnected, match="address"):
        room.connect("a")
    room.connect("b")
    with pytest.raises(ClientDisconnected, match="later"):
        room.connect("c")
    room.disconnect(first)
    room.connect("a")


def test_a_client_that_sends_too_many_messages_is_disconnected() -> None:
    clock = Clock()
    room = router(clock, messages=3, messages_s=10)
    client = room.connect("a")
    for moment in (0, 5, 9):
        clock.now = moment
        send(room, client)
    clock.now = 10.1
    send(room, client)
    with pytest.raises(ClientDisconnected, match="too many"):
        send(room, client)


@pytest.mark.parametrize("text", ["", "x", "[]", "1", '"x"', "null", "[" * 5000, b"\xff"])
def test_a_message_that_is_not_an_object_disconnects_the_client(text: str | bytes) -> None:
    room = router()
    with pytest.raises(ClientDisconnected):
        room.receive(room.connect("a"), text)


@pytest.mark.parametrize("name", ["", None, 3, ["r"], "n" * (limits.SIGNAL_NAME_CHARACTERS + 1)])
def test_invalid_room_and_stream_ids_are_refused(name: Any) -> None:
    room = router()
    client = join(room)
    assert send(room, client, request="joinroom", roomid=name)[0][1]["request"] == "error"
    assert send(room, client, request="seed", streamID=name)[0][1]["request"] == "error"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(["r", "q", "ann", ""]) | json_values
messages = st.fixed_dictionaries(
    {},
    optional={
        "request": st.sampled_from(["joinroom", "seed", "play", "listing", "offerSDP"]) | json_values,
        "claim": st.booleans(),
        "pipe": json_values,
        "__fallback": st.booleans(),
        "roomid": names,
        "streamID": names,
        "UUID": st.integers(0, 3) | json_values,
        "leave": st.booleans(),
        "description": json_values,
        "from": json_values,
    },
)


@given(script=st.lists(st.tuples(st.integers(0, 3), messages), max_size=30))
def test_arbitrary_messages_keep_rooms_and_stream_ids_consistent(script: list[tuple[int, dict[str, Any]]]) -> None:
    room = router()
    clients = [room.connect(str(number)) for number in range(4)]
    for number, message in script:
        if isinstance(message.get("UUID"), int) and not isinstance(message["UUID"], bool) and 0 <= message["UUID"] < 4:
            message["UUID"] = clients[message["UUID"]].uuid
        for to, outgoing in room.receive(clients[number], json.dumps(message)):
            assert to in clients
            json.dumps(outgoing)
            if outgoing.get("request") != "listing" and to is not clients[number]:
                assert outgoing["UUID"] == clients[number].uuid
                assert to.room == clients[number].room
    held = [(client.room, client.stream_id) for client in clients if client.stream_id is not None]
    assert len(held) == len(set(held))
    rooms = {client.room for client in clients if client.room is not None}
    assert room.rooms == len(rooms)
    for name in rooms:
        members = {client.uuid for client in clients if client.room == name}
        newcomer = room.connect("newcomer")
        [(_, listing), *_] = send(room, newcomer, request="joinroom", roomid=name)
        assert {member["UUID"] for member in listing["list"]} == members
        assert listing.get("director") in {None, *members}
        room.disconnect(newcomer)
    for client in clients:
        room.disconnect(client)
    assert (room.clients, room.rooms) == (0, 0)
    newcomer = room.connect("newcomer")
    for client in clients:
        assert send(room, newcomer, UUID=client.uuid) == []
        if client.stream_id is not None:
            assert send(room, newcomer, request="play", streamID=client.stream_id) == []
