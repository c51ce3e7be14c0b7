"""What a client may get wrong between two rounds: answers that do not fit, and states that were
changed, used before, moved or stolen."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.server.asking_server import Counted, accept, ask_again, call, text
from tests.server.conversation import EVERYTHING, MODERN, Conversation, conversing
from tests.server.raw_link import RawLink

from hubbub import Principal
from hubbub.security.sealed import Sealer

# -- answers ---------------------------------------------------------------------


@pytest.mark.parametrize("responses", [{}, {"other": accept(name="x")}, {"WHO": accept(name="x")}])
async def test_without_the_right_answer_the_question_comes_again(responses: dict[str, Any]) -> None:
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("greet")
        second = (await ask_again(client, call("greet"), first, responses))["result"]
        assert second["resultType"] == "input_required"
        assert second["inputRequests"] == first["inputRequests"]
        assert second["requestState"] != first["requestState"]
        assert text(await ask_again(client, call("greet"), second, {"who": accept(name="Ada")})) == "Hello Ada"
    assert counted.started == ["greet"]


async def test_answers_nobody_asked_for_are_ignored() -> None:
    async with conversing(Counted().server, MODERN) as client:
        first = await client.call("greet")
        responses = {"who": accept(name="Ada"), "extra": {"action": "accept"}}
        assert text(await ask_again(client, call("greet"), first, responses)) == "Hello Ada"


@pytest.mark.parametrize(
    "responses", [None, 5, "text", [], {"who": None}, {"who": 5}, {"who": []}, {"who": "text"}, {"other": None}]
)
async def test_malformed_answers_are_an_error_and_the_question_stays_open(responses: object) -> None:
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("greet")
        answer = await ask_again(client, call("greet"), first, responses)
        assert answer["error"]["code"] == -32602
        assert text(await ask_again(client, call("greet"), first, {"who": accept(name="Ada")})) == "Hello Ada"
    assert counted.started == ["greet"]


@pytest.mark.parametrize(
    "response", [{}, {"action": "maybe"}, {"action": 5}, {"action": "accept"}, accept(name=5), accept()]
)
async def test_an_answer_that_does_not_fit_the_form_is_an_error(response: dict[str, Any]) -> None:
    async with conversing(Counted().server, MODERN) as client:
        first = await client.call("greet")
        assert (await ask_again(client, call("greet"), first, {"who": response}))["error"]["code"] == -32602
        assert len(client.link.server.rounds) == 0


async def test_numbers_beyond_reading_are_refused_before_anything_runs() -> None:
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        client.begin("tools/call", call("greet") | {"n": 1})
        message = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"greet","n":1e999,"_meta":'
        meta = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        meta += b'"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}'
        client.send(message + meta + b"}}")
        assert (await client.answer_to(5))["error"]["code"] == -32602
        assert len(counted.server.rounds) <= 1


# -- states ----------------------------------------------------------------------


@pytest.mark.parametrize("change", [lambda state: state + "-TAMPERED", lambda state: state[:-1], lambda state: "",
                                    lambda state: state.swapcase(), lambda state: Sealer().seal("round", ["x", 1, "anonymous", b""])])  # fmt: skip  # noqa: E501
async def test_a_changed_state_is_refused_and_the_question_stays_open(change: Callable[..., Any]) -> None:
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("greet")
        forged = first | {"requestState": change(first["requestState"])}
        answer = await ask_again(client, call("greet"), forged, {"who": accept(name="Eve")})
        assert answer["error"]["code"] == -32602
        assert text(await ask_again(client, call("greet"), first, {"who": accept(name="Ada")})) == "Hello Ada"
    assert counted.started == ["greet"]


async def test_a_state_that_is_no_text_is_refused() -> None:
    async with conversing(Counted().server, MODERN) as client:
        states: tuple[object, ...] = (5, None, {})
        for state in states:
            error = await client.error("tools/call", call("greet") | {"requestState": state})
            assert error["code"] == -32602


async def test_a_used_state_cannot_be_used_again() -> None:
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("one_by_one")
        (key,) = first["inputRequests"]
        second = (await ask_again(client, call("one_by_one"), first, {key: accept(name="one")}))["result"]
        replayed = await ask_again(client, call("one_by_one"), first, {key: accept(name="evil")})
        assert replayed["error"]["code"] == -32602
        assert "start again" in replayed["error"]["message"]
        assert second["resultType"] == "input_required"
    assert counted.started == ["one_by_one"]


async def test_the_state_of_a_finished_exchange_is_worth_nothing() -> None:
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("greet")
        await ask_again(client, call("greet"), first, {"who": accept(name="Ada")})
        again = await ask_again(client, call("greet"), first, {"who": accept(name="Ada")})
        assert again["error"]["code"] == -32602
    assert counted.started == ["greet"]


async def test_two_repetitions_at_once_run_the_handler_once() -> None:
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("greet")
        more = {"inputResponses": {"who": accept(name="Ada")}, "requestState": first["requestState"]}
        ids = [client.begin("tools/call", call("greet") | more) for _ in range(2)]
        answers = [await client.answer_to(identifier) for identifier in ids]
    assert sorted("error" in answer for answer in answers) == [False, True]
    assert counted.ended == ["greet"]


@pytest.mark.parametrize(
    "params",
    [
        call("greet", greeting="Bye"),
        call("both_at_once"),
        {"name": "greet", "arguments": {}, "more": 1},
    ],
)
async def test_a_state_cannot_be_moved_to_another_request(params: dict[str, Any]) -> None:
    async with conversing(Counted().server, MODERN) as client:
        first = await client.call("greet")
        answer = await ask_again(client, params, first, {"who": accept(name="Eve")})
        assert answer["error"]["code"] == -32602
        assert "another request" in answer["error"]["message"]


async def test_the_order_of_members_and_the_meta_may_change() -> None:
    async with conversing(Counted().server, MODERN) as client:
        first = await client.call("greet", {"greeting": "Hi"})
        params = {"arguments": {"greeting": "Hi"}, "name": "greet"}
        answer = await ask_again(client, params, first, {"who": accept(name="Ada")}, meta={"progressToken": 1})
        assert text(answer) == "Hi Ada"


async def test_a_state_cannot_be_used_by_another_principal() -> None:
    server = Counted().server

    def link_of(name: str) -> RawLink:
        return RawLink(server, principal=Principal(name))

    async with link_of("ada") as ada_link, link_of("eve") as eve_link:
        ada, eve = (Conversation(link, MODERN, EVERYTHING) for link in (ada_link, eve_link))
        first = await ada.call("greet")
        stolen = await ask_again(eve, call("greet"), first, {"who": accept(name="Eve")})
        assert stolen["error"]["code"] == -32602
        assert text(await ask_again(ada, call("greet"), first, {"who": accept(name="Ada")})) == "Hello Ada"


async def test_another_connection_of_the_same_principal_may_go_on() -> None:
    server = Counted().server
    async with conversing(server, MODERN) as one, conversing(server, MODERN) as other:
        first = await one.call("greet")
        assert text(await ask_again(other, call("greet"), first, {"who": accept(name="Ada")})) == "Hello Ada"
