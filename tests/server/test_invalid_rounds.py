"""Invalid second rounds: responses of the wrong shape, and states that were modified, reused, or sent with
another request or by another principal."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.server.asking_server import AskingServer, accept, call, retry_with_answers, text
from tests.server.raw_client import ALL_CAPABILITIES, MODERN, RawClient, connect_raw_client
from tests.server.raw_transport import RawTransport

from hubbub import Principal
from hubbub.security.sealer import Sealer

# -- input responses ---------------------------------------------------------------------


@pytest.mark.parametrize("responses", [{}, {"other": accept(name="x")}, {"WHO": accept(name="x")}])
async def test_a_retry_without_the_requested_input_gets_the_same_requests_again(responses: dict[str, Any]) -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        first = await client.call("greet")
        second = (await retry_with_answers(client, call("greet"), first, responses))["result"]
        assert second["resultType"] == "input_required"
        assert second["inputRequests"] == first["inputRequests"]
        assert second["requestState"] != first["requestState"]
        assert text(await retry_with_answers(client, call("greet"), second, {"who": accept(name="Ada")})) == "Hello Ada"
    assert asking.started == ["greet"]


async def test_unrequested_input_responses_are_ignored() -> None:
    async with connect_raw_client(AskingServer().server, MODERN) as client:
        first = await client.call("greet")
        responses = {"who": accept(name="Ada"), "extra": {"action": "accept"}}
        assert text(await retry_with_answers(client, call("greet"), first, responses)) == "Hello Ada"


@pytest.mark.parametrize(
    "responses", [None, 5, "text", [], {"who": None}, {"who": 5}, {"who": []}, {"who": "text"}, {"other": None}]
)
async def test_malformed_input_responses_are_an_error_and_the_round_stays_open(responses: object) -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        first = await client.call("greet")
        answer = await retry_with_answers(client, call("greet"), first, responses)
        assert answer["error"]["code"] == -32602
        assert text(await retry_with_answers(client, call("greet"), first, {"who": accept(name="Ada")})) == "Hello Ada"
    assert asking.started == ["greet"]


@pytest.mark.parametrize(
    "response", [{}, {"action": "maybe"}, {"action": 5}, {"action": "accept"}, accept(name=5), accept()]
)
async def test_an_input_response_that_does_not_match_the_form_is_an_error(response: dict[str, Any]) -> None:
    async with connect_raw_client(AskingServer().server, MODERN) as client:
        first = await client.call("greet")
        assert (await retry_with_answers(client, call("greet"), first, {"who": response}))["error"]["code"] == -32602
        assert len(client.transport.server.rounds) == 0


async def test_numbers_out_of_range_are_refused_before_the_handler_starts() -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        client.send_request("tools/call", call("greet") | {"n": 1})
        message = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"greet","n":1e999,"_meta":'
        meta = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        meta += b'"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}'
        client.send(message + meta + b"}}")
        assert (await client.response_to(5))["error"]["code"] == -32602
        assert len(asking.server.rounds) <= 1


# -- request states ----------------------------------------------------------------------


@pytest.mark.parametrize("change", [lambda state: state + "-TAMPERED", lambda state: state[:-1], lambda state: "",
                                    lambda state: state.swapcase(), lambda state: Sealer().seal("round", ["x", 1, "anonymous", b""])])  # fmt: skip  # noqa: E501
async def test_a_changed_request_state_is_refused_and_the_round_stays_open(change: Callable[..., Any]) -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        first = await client.call("greet")
        forged = first | {"requestState": change(first["requestState"])}
        answer = await retry_with_answers(client, call("greet"), forged, {"who": accept(name="Eve")})
        assert answer["error"]["code"] == -32602
        assert text(await retry_with_answers(client, call("greet"), first, {"who": accept(name="Ada")})) == "Hello Ada"
    assert asking.started == ["greet"]


async def test_a_request_state_that_is_not_a_string_is_refused() -> None:
    async with connect_raw_client(AskingServer().server, MODERN) as client:
        states: tuple[object, ...] = (5, None, {})
        for state in states:
            error = await client.error("tools/call", call("greet") | {"requestState": state})
            assert error["code"] == -32602


async def test_a_request_state_can_be_used_only_once() -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        first = await client.call("one_by_one")
        (key,) = first["inputRequests"]
        second = (await retry_with_answers(client, call("one_by_one"), first, {key: accept(name="one")}))["result"]
        replayed = await retry_with_answers(client, call("one_by_one"), first, {key: accept(name="evil")})
        assert replayed["error"]["code"] == -32602
        assert "start again" in replayed["error"]["message"]
        assert second["resultType"] == "input_required"
    assert asking.started == ["one_by_one"]


async def test_the_request_state_of_a_finished_call_is_refused() -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        first = await client.call("greet")
        await retry_with_answers(client, call("greet"), first, {"who": accept(name="Ada")})
        again = await retry_with_answers(client, call("greet"), first, {"who": accept(name="Ada")})
        assert again["error"]["code"] == -32602
    assert asking.started == ["greet"]


async def test_two_simultaneous_retries_run_the_handler_once() -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        first = await client.call("greet")
        more = {"inputResponses": {"who": accept(name="Ada")}, "requestState": first["requestState"]}
        ids = [client.send_request("tools/call", call("greet") | more) for _ in range(2)]
        answers = [await client.response_to(identifier) for identifier in ids]
    assert sorted("error" in answer for answer in answers) == [False, True]
    assert asking.ended == ["greet"]


@pytest.mark.parametrize(
    "params",
    [
        call("greet", greeting="Bye"),
        call("both_at_once"),
        {"name": "greet", "arguments": {}, "more": 1},
    ],
)
async def test_a_request_state_cannot_be_used_for_another_request(params: dict[str, Any]) -> None:
    async with connect_raw_client(AskingServer().server, MODERN) as client:
        first = await client.call("greet")
        answer = await retry_with_answers(client, params, first, {"who": accept(name="Eve")})
        assert answer["error"]["code"] == -32602
        assert "another request" in answer["error"]["message"]


async def test_a_retry_may_change_the_member_order_and_the_meta() -> None:
    async with connect_raw_client(AskingServer().server, MODERN) as client:
        first = await client.call("greet", {"greeting": "Hi"})
        params = {"arguments": {"greeting": "Hi"}, "name": "greet"}
        answer = await retry_with_answers(client, params, first, {"who": accept(name="Ada")}, meta={"progressToken": 1})
        assert text(answer) == "Hi Ada"


async def test_a_request_state_cannot_be_used_by_another_principal() -> None:
    server = AskingServer().server

    def make_transport(name: str) -> RawTransport:
        return RawTransport(server, principal=Principal(name))

    async with make_transport("ada") as ada_link, make_transport("eve") as eve_link:
        ada, eve = (RawClient(link, MODERN, ALL_CAPABILITIES) for link in (ada_link, eve_link))
        first = await ada.call("greet")
        stolen = await retry_with_answers(eve, call("greet"), first, {"who": accept(name="Eve")})
        assert stolen["error"]["code"] == -32602
        assert text(await retry_with_answers(ada, call("greet"), first, {"who": accept(name="Ada")})) == "Hello Ada"


async def test_another_connection_of_the_same_principal_may_retry() -> None:
    server = AskingServer().server
    async with connect_raw_client(server, MODERN) as one, connect_raw_client(server, MODERN) as other:
        first = await one.call("greet")
        assert text(await retry_with_answers(other, call("greet"), first, {"who": accept(name="Ada")})) == "Hello Ada"
