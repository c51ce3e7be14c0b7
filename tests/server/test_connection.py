"""One connection: which dialect a message is served in, ids, batches, cancellation, the end."""

import asyncio
import json
from typing import Any

import pytest
from tests.server.raw_client import LEGACY, MODERN, PLAIN, VERSION_KEY, connect_raw_client, modern_meta
from tests.server.raw_transport import RawTransport

from hubbub import Server, bounds


class Gate:
    """A tool that waits until the test releases it."""

    def __init__(self) -> None:
        self.server = Server("gate")
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.runs = 0

        @self.server.tool
        async def wait() -> str:
            self.runs += 1
            self.entered.set()
            try:
                await self.opened.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "done"

        @self.server.tool
        async def quick() -> str:
            return "quick"


WAIT = {"name": "wait", "arguments": {}}
QUICK = {"name": "quick", "arguments": {}}


def request(identifier: object, method: str = "ping", params: object = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identifier, "method": method} | ({} if params is None else {"params": params})


# -- dialects ------------------------------------------------------------------


@pytest.mark.parametrize("version", LEGACY)
async def test_a_known_version_is_accepted(version: str) -> None:
    async with connect_raw_client(Server("s"), version):
        pass


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", "2099-01-01", "nonsense", ""])
async def test_an_unknown_version_is_answered_with_the_newest_legacy_version(version: str) -> None:
    async with connect_raw_client(Server("s")) as client:
        result = await client.result("initialize", {"protocolVersion": version})
    assert result["protocolVersion"] == "2025-11-25"


async def test_a_connection_is_plain_until_initialize() -> None:
    gate = Gate()
    async with connect_raw_client(gate.server) as client:
        assert (await client.error("tools/call", {"name": "no"}))["code"] == -32000
        assert await client.result("quick") == "quick"
        await client.result("initialize", {"protocolVersion": "2025-06-18"})
        assert (await client.error("tools/call", {"name": "no"}))["code"] == -32602
        assert (await client.error("quick"))["code"] == -32601


@pytest.mark.parametrize("dialect", [PLAIN, *LEGACY])
async def test_a_modern_request_is_served_at_any_time(dialect: str) -> None:
    async with connect_raw_client(Gate().server, dialect) as client:
        result = await client.result("tools/call", QUICK, meta=modern_meta())
        assert result["resultType"] == "complete"
        assert "resultType" not in await client.result("tools/list")


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "quick", "no"]
)
async def test_a_method_that_modern_clients_do_not_have_is_not_found(method: str) -> None:
    async with connect_raw_client(Gate().server, MODERN) as client:
        error = await client.error(method, {"protocolVersion": "2025-06-18", "uri": "x:y", "level": "info"})
    assert error["code"] == -32601


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen"])
async def test_a_modern_method_is_not_found_elsewhere(method: str) -> None:
    for dialect in (PLAIN, "2025-11-25"):
        async with connect_raw_client(Gate().server, dialect) as client:
            assert (await client.error(method))["code"] == -32601


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({VERSION_KEY: MODERN}, -32602),
        ({VERSION_KEY: "2025-06-18"}, -32022),
        ({VERSION_KEY: "2030-01-01"}, -32022),
        (modern_meta() | {VERSION_KEY: "2030-01-01"}, -32022),
        (modern_meta() | {VERSION_KEY: "2025-06-18"}, -32022),
        (modern_meta([]), -32602),  # type: ignore[arg-type]
        (modern_meta() | {"io.modelcontextprotocol/clientInfo": 5}, -32602),
        (modern_meta() | {"io.modelcontextprotocol/logLevel": 5}, -32602),
        (modern_meta() | {"io.modelcontextprotocol/logLevel": "loud"}, -32602),
    ],
)
async def test_a_malformed_modern_envelope_gets_a_modern_error(meta: dict[str, Any], code: int) -> None:
    async with connect_raw_client(Gate().server) as client:
        error = await client.error("tools/call", QUICK | {"_meta": meta})
    assert error["code"] == code
    if code == -32022:
        assert error["data"] == {"supported": [MODERN], "requested": meta[VERSION_KEY]}


async def test_a_refused_initialize_leaves_the_session_as_it_was() -> None:
    gate = Gate()
    async with connect_raw_client(gate.server) as client:
        client.send_request("tools/call", WAIT, id=7)
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
        for identifier in (None, 1.5, 7):
            client.send(request(identifier, "initialize", hello))
            assert (await client.next_message())["error"]["code"] == -32600
        assert (await client.error("initialize", {"capabilities": {}}))["code"] == -32602
        assert (await client.error("tools/call", {"name": "no"}))["code"] == -32000


# -- ids -----------------------------------------------------------------------


@pytest.mark.parametrize("identifier", ["1", "0", "-3", "123456789012345678901234567890", '"a"', '""', '"é"', '"1"'])
@pytest.mark.parametrize("dialect", [PLAIN, "2025-11-25", MODERN])
async def test_an_id_is_returned_as_it_was_sent(identifier: str, dialect: str) -> None:
    params = json.dumps({"_meta": modern_meta()} if dialect == MODERN else {})
    async with connect_raw_client(Server("s"), dialect) as client:
        message = f'{{"jsonrpc":"2.0","id":{identifier},"method":"tools/list","params":{params}}}'
        client.send(message.encode())
        answer = (await client.transport.receive()).decode()
    assert answer.startswith(f'{{"jsonrpc":"2.0","id":{identifier},"result":')


@pytest.mark.parametrize("identifier", ["null", "1.5", "1e3", "-1.0"])
async def test_ids_that_mcp_forbids_are_refused_there_and_served_in_plain(identifier: str) -> None:
    message = f'{{"jsonrpc":"2.0","id":{identifier},"method":"ping"}}'.encode()
    async with connect_raw_client(Server("s")) as client:
        client.send(message)
        assert await client.next_message() == {"jsonrpc": "2.0", "id": json.loads(identifier), "result": {}}
    async with connect_raw_client(Server("s"), "2025-11-25") as client:
        client.send(message)
        answer = await client.next_message()
        assert answer["error"]["code"] == -32600
        assert answer["id"] == json.loads(identifier)


async def test_an_id_in_use_is_refused_and_free_again_afterwards() -> None:
    gate = Gate()
    async with connect_raw_client(gate.server) as client:
        client.send(b'{"jsonrpc":"2.0","id":"a","method":"wait"}')
        client.send(rb'{"jsonrpc":"2.0","id":"\u0061","method":"ping"}')
        answer = await client.next_message()
        assert answer["id"] is None
        assert answer["error"]["code"] == -32600
        gate.opened.set()
        assert await client.next_message() == {"jsonrpc": "2.0", "id": "a", "result": "done"}
        assert await client.ask("ping", id="a") == {"jsonrpc": "2.0", "id": "a", "result": {}}
    assert gate.runs == 1


async def test_a_number_and_a_string_are_different_ids() -> None:
    gate = Gate()
    async with connect_raw_client(gate.server) as client:
        client.send_request("wait", id=1)
        assert (await client.ask("ping", id="1"))["id"] == "1"


# -- bad input -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "code", "identifier"),
    [
        (b"{", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}', -32700, None),
        (b"[" * 100_000, -32700, None),
        (b"{}", -32600, None),
        (b"[]", -32600, None),
        (b"5", -32600, None),
        (b'{"jsonrpc":"1.0","id":9,"method":"ping"}', -32600, 9),
        (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":7}', -32600, 9),
        (b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":"x"}', -32600, 9),
        (b'{"jsonrpc":"2.0","id":9,"method":"initialize","params":null}', -32600, 9),
        (b'{"jsonrpc":"2.0","id":9,"method":"no.such","params":7}', -32601, 9),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":9}', -32600, 9),
        (b'{"jsonrpc":"2.0","id":9,"method":"tools/list","params":[]}', -32602, 9),
        (b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":7}}', -32602, 9),
        (b'{"jsonrpc":"2.0","id":9,"method":""}', -32601, 9),
    ],
)
@pytest.mark.parametrize("dialect", [PLAIN, "2025-11-25"])
async def test_bad_input_gets_its_error_and_the_next_message_is_served(
    data: bytes, code: int, identifier: int | None, dialect: str
) -> None:
    async with connect_raw_client(Server("s"), dialect) as client:
        client.send(data)
        answer = await client.next_message()
        assert answer["jsonrpc"] == "2.0"
        assert answer["id"] == identifier
        assert answer["error"]["code"] == code
        assert await client.result("ping") == {}


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "initialized"},
        {"jsonrpc": "2.0", "method": "no/such/thing", "params": [1]},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "quick"}},
        {"jsonrpc": "2.0", "method": "quick"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 999}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {"a": "\\"}}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": None, "reason": 5}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": []},
        {"jsonrpc": "2.0", "id": 999, "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "m"}},
        {"jsonrpc": "2.0", "id": 999, "error": "no object"},
        {"jsonrpc": "2.0", "result": 5},
    ],
)
@pytest.mark.parametrize("dialect", [PLAIN, "2025-11-25"])
async def test_notifications_and_responses_get_no_response(message: dict[str, Any], dialect: str) -> None:
    async with connect_raw_client(Gate().server, dialect) as client:
        client.send(message)
        await client.wait_until_idle()
        assert client.received == []
        assert client.transport.pending_count() == 0


# -- batches -------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [PLAIN, "2025-03-26"])
async def test_a_batch_is_answered_by_one_array(dialect: str) -> None:
    async with connect_raw_client(Gate().server, dialect) as client:
        client.send(
            [
                request(1),
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                request("two", "tools/call", QUICK),
                5,
                [],
                [request(9)],
                {"jsonrpc": "2.0", "id": 6},
                request(7, "no/such"),
                {"jsonrpc": "2.0", "id": 999, "result": {}},
                request(8, "initialize", {"protocolVersion": "2025-06-18"}),
            ]
        )
        answers = await client.next_message()
    by_id = {json.dumps(answer["id"]): answer for answer in answers if answer["id"] is not None}
    assert by_id["1"]["result"] == {}
    assert by_id['"two"']["result"]["content"] == [{"type": "text", "text": "quick"}]
    assert by_id["6"]["error"]["code"] == by_id["8"]["error"]["code"] == -32600
    assert by_id["7"]["error"]["code"] == -32601
    assert [answer["error"]["code"] for answer in answers if answer["id"] is None] == [-32600] * 3
    assert len(answers) == 8


@pytest.mark.parametrize("dialect", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_a_batch_is_refused_where_the_revision_has_none(dialect: str) -> None:
    async with connect_raw_client(Server("s"), dialect) as client:
        client.send([request(1), request(2)])
        answer = await client.next_message()
        assert answer["id"] is None
        assert answer["error"]["code"] == -32600
        await client.wait_until_idle()
        assert client.received == []


async def test_a_batch_of_notifications_is_not_answered() -> None:
    async with connect_raw_client(Server("s")) as client:
        client.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}] * 3)
        await client.wait_until_idle()
        assert client.received == []


async def test_a_batch_waits_for_its_slowest_call_and_other_requests_do_not() -> None:
    gate = Gate()
    async with connect_raw_client(gate.server) as client:
        client.send([request(1, "wait"), request(2, "quick"), request(1, "quick")])
        assert await client.result("ping") == {}
        gate.opened.set()
        answers = await client.next_message()
    assert [(answer["id"], answer.get("result")) for answer in answers] == [(1, "done"), (2, "quick"), (None, None)]


async def test_no_call_of_an_oversized_batch_runs() -> None:
    gate = Gate()
    async with connect_raw_client(gate.server) as client:
        client.send([request(number, "wait") for number in range(bounds.BATCH_ITEMS + 1)])
        assert (await client.next_message())["error"]["code"] == -32600
        await client.wait_until_idle()
    assert gate.runs == 0


async def test_a_cancelled_call_is_missing_from_its_batch() -> None:
    gate = Gate()
    async with connect_raw_client(gate.server) as client:
        client.send([request(1, "wait"), request(2, "quick")])
        client.notify("notifications/cancelled", {"requestId": 1})
        assert await client.next_message() == [{"jsonrpc": "2.0", "id": 2, "result": "quick"}]


async def test_a_batch_whose_calls_are_all_cancelled_is_not_answered() -> None:
    gate = Gate()
    async with connect_raw_client(gate.server) as client:
        client.send([request(1, "wait")])
        await gate.entered.wait()
        client.notify("notifications/cancelled", {"requestId": 1})
        await gate.cancelled.wait()
        await client.wait_until_idle()
        assert client.received == []


# -- cancellation --------------------------------------------------------------


@pytest.mark.parametrize("dialect", [PLAIN, "2024-11-05", "2025-11-25", MODERN])
@pytest.mark.parametrize("has_started", [True, False])
async def test_a_cancelled_call_stops_and_is_not_answered(dialect: str, has_started: bool) -> None:
    gate = Gate()
    async with connect_raw_client(gate.server, dialect) as client:
        client.send_request("tools/call", WAIT, id="c")
        if has_started:
            await gate.entered.wait()
        client.notify("notifications/cancelled", {"requestId": "c", "reason": "changed my mind"})
        await client.wait_until_idle()
        assert gate.cancelled.is_set() or gate.runs == 0
        # Its id is free again, and the answer is that of the new call.
        gate.opened.set()
        assert (await client.ask("tools/call", QUICK, id="c"))["result"]["content"][0]["text"] == "quick"
        assert client.received == []


async def test_a_finished_call_cannot_be_cancelled() -> None:
    async with connect_raw_client(Gate().server) as client:
        identifier = client.send_request("quick")
        assert (await client.response_to(identifier))["result"] == "quick"
        client.notify("notifications/cancelled", {"requestId": identifier})
        assert (await client.ask("quick", id=identifier))["result"] == "quick"


async def test_cancelling_one_call_leaves_the_others() -> None:
    gate = Gate()
    async with connect_raw_client(gate.server) as client:
        client.send_request("wait", id=1)
        client.send_request("wait", id=2)
        client.notify("notifications/cancelled", {"requestId": 1})
        await gate.cancelled.wait()
        gate.opened.set()
        assert await client.next_message() == {"jsonrpc": "2.0", "id": 2, "result": "done"}


# -- concurrency and the end of a connection ----------------------------------------------------


async def test_many_calls_run_at_once() -> None:
    gate = Gate()
    async with connect_raw_client(gate.server) as client:
        for number in range(500):
            client.send_request("wait", id=number)
        assert await client.result("ping") == {}
        gate.opened.set()
        assert {(await client.next_message())["id"] for _ in range(500)} == set(range(500))


async def test_a_full_connection_is_busy_until_calls_finish() -> None:
    gate = Gate()
    async with connect_raw_client(gate.server) as client:
        connection = client.transport.duplex
        resumed = asyncio.Event()
        for number in range(bounds.IN_FLIGHT):
            assert not connection.is_busy
            client.send_request("wait", id=number)
        assert connection.is_busy
        connection.when_ready(resumed.set)
        await gate.entered.wait()
        assert not resumed.is_set()
        gate.opened.set()
        await asyncio.wait_for(resumed.wait(), 60)
        assert not connection.is_busy


async def test_running_calls_are_answered_after_the_end_of_input() -> None:
    gate = Gate()
    async with connect_raw_client(gate.server) as client:
        client.send_request("wait", id=1)
        await gate.entered.wait()
        ending = asyncio.ensure_future(client.transport.finish())
        gate.opened.set()
        await ending
        assert await client.next_message() == {"jsonrpc": "2.0", "id": 1, "result": "done"}


async def test_the_end_of_the_connection_cancels_running_calls() -> None:
    gate = Gate()
    async with connect_raw_client(gate.server) as client:
        client.send_request("wait", id=1)
        await gate.entered.wait()
    assert gate.cancelled.is_set()
    assert client.transport.pending_count() == 0
    assert len(gate.server.broadcaster) == 0


async def test_two_connections_of_one_server_have_their_own_ids_and_dialects() -> None:
    gate = Gate()
    async with connect_raw_client(gate.server, "2025-11-25") as first, RawTransport(gate.server) as second:
        first.send_request("tools/call", WAIT, id=1)
        second.send(b'{"jsonrpc":"2.0","id":1,"method":"quick"}')
        assert json.loads(await second.receive()) == {"jsonrpc": "2.0", "id": 1, "result": "quick"}
        gate.opened.set()
        assert (await first.response_to(1))["result"]["content"] == [{"type": "text", "text": "done"}]
