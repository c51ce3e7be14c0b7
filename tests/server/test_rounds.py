"""Questions in the stateless era: the handler runs once, the request is repeated."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

import pytest
from tests.server.conversation import EVERYTHING, LEGACY, MODERN, PLAIN, Conversation, conversing

from hubbub import bounds
from hubbub.protocol.model import Principal
from hubbub.security.sealed import Sealer
from hubbub.server.asking import Ask
from hubbub.server.connection import Connection
from hubbub.server.context import Context
from hubbub.server.rounds import Rounds
from hubbub.server.server import Server
from hubbub.transports.memory import MemoryLink


@dataclass
class Name:
    name: str


@dataclass
class Age:
    age: int


def accept(**content):
    return {"action": "accept", "content": content}


class Counted:
    """A server whose tools ask, and how often each of them started and ended."""

    def __init__(self, **options) -> None:
        self.server = server = Server("asking", **options)
        self.started: list[str] = []
        self.ended: list[str] = []
        self.cancelled = asyncio.Event()

        @server.tool
        async def greet(ctx: Context, greeting: str = "Hello") -> str:
            self.started.append("greet")
            try:
                answer = await ctx.elicit("Your name?", Name, key="who")
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            self.ended.append("greet")
            return f"{greeting} {answer.content.name}" if answer.content else answer.action

        @server.tool
        async def both_at_once(ctx: Context) -> str:
            self.started.append("both")
            name, age = await asyncio.gather(ctx.elicit("Name?", Name, key="name"), ctx.elicit("Age?", Age, key="age"))
            self.ended.append("both")
            return f"{name.content.name} is {age.content.age}"

        @server.tool
        async def one_by_one(ctx: Context) -> str:
            self.started.append("one_by_one")
            parts = [(await ctx.elicit(f"Part {number}?", Name)).content.name for number in range(3)]
            self.ended.append("one_by_one")
            return " ".join(parts)

        @server.tool
        async def everything(ctx: Context) -> str:
            sampled = await ctx.sample("Write a word", max_tokens=5, key="model")
            roots = await ctx.roots(key="roots")
            return f"{sampled.text} {[root.uri for root in roots]}"

        @server.tool
        async def endless(ctx: Context) -> str:
            while True:
                await ctx.elicit("Again?", Name)

        @server.tool
        def in_a_thread(ctx: Context) -> str:
            self.started.append("in_a_thread")
            answer = ctx.wait(ctx.elicit("Name?", Name, key="who"))
            return f"Hello {answer.content.name}"

        @server.tool
        async def book(flight: str, seat: Annotated[Name, Ask("Which seat?")]) -> str:
            self.started.append("book")
            return f"{flight}: {seat.name}"

        @server.tool
        async def declared_and_asked(ctx: Context, who: Annotated[Name, Ask("Who?")]) -> str:
            self.started.append("declared_and_asked")
            age = await ctx.elicit(f"How old is {who.name}?", Age, key="age")
            return f"{who.name} is {age.content.age}"

        @server.tool
        async def steps(ctx: Context) -> str:
            await ctx.progress(1, message="before")
            await ctx.elicit("Go on?", Name, key="who")
            await ctx.progress(2, message="after")
            return "done"

        @server.prompt
        async def poem(ctx: Context) -> str:
            answer = await ctx.elicit("About whom?", Name, key="who")
            return f"A poem about {answer.content.name}"

        @server.resource("diary:today")
        async def diary(ctx: Context) -> str:
            answer = await ctx.elicit("Whose?", Name, key="who")
            return f"Diary of {answer.content.name}"


def call(tool, **arguments):
    return {"name": tool, "arguments": arguments}


async def ask_again(client: Conversation, params, first, responses, **options):
    """Repeat a request with answers and the state that came with the questions."""
    more = {"inputResponses": responses}
    if "requestState" in first:
        more["requestState"] = first["requestState"]
    return await client.ask(options.pop("method", "tools/call"), params | more, **options)


def text(answer):
    return answer["result"]["content"][0]["text"]


# -- the exchange ----------------------------------------------------------------


async def test_a_question_is_a_result_and_its_answer_a_repeated_request():
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("greet", {"greeting": "Hi"})
        assert first.pop("requestState")
        assert first.pop("_meta")
        assert first == {
            "resultType": "input_required",
            "inputRequests": {
                "who": {
                    "method": "elicitation/create",
                    "params": {
                        "mode": "form",
                        "message": "Your name?",
                        "requestedSchema": {
                            "type": "object",
                            "properties": {"name": {"type": "string"}},
                            "required": ["name"],
                        },
                    },
                }
            },
        }
        first = await client.call("greet", {"greeting": "Hi"})
        answer = await ask_again(client, call("greet", greeting="Hi"), first, {"who": accept(name="Ada")})
    assert text(answer) == "Hi Ada"
    assert answer["result"]["resultType"] == "complete"
    assert counted.started == ["greet", "greet"]
    assert counted.ended == ["greet"]


async def test_questions_asked_together_go_out_together():
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("both_at_once")
        assert sorted(first["inputRequests"]) == ["age", "name"]
        responses = {"name": accept(name="Ada"), "age": accept(age=36)}
        assert text(await ask_again(client, call("both_at_once"), first, responses)) == "Ada is 36"
    assert counted.started == counted.ended == ["both"]


async def test_a_part_of_the_answers_leaves_the_rest_to_ask():
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("both_at_once")
        second = (await ask_again(client, call("both_at_once"), first, {"age": accept(age=36)}))["result"]
        assert list(second["inputRequests"]) == ["name"]
        third = await ask_again(client, call("both_at_once"), second, {"name": accept(name="Ada")})
        assert text(third) == "Ada is 36"
    assert counted.started == ["both"]


async def test_each_round_has_its_own_state_and_the_handler_runs_once():
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        result, states = await client.call("one_by_one"), []
        for word in ("one", "two", "three"):
            states.append(result["requestState"])
            (key,) = result["inputRequests"]
            answer = await ask_again(client, call("one_by_one"), result, {key: accept(name=word)})
            result = answer["result"]
        assert text(answer) == "one two three"
        assert len(set(states)) == 3
        assert len(counted.server.rounds) == 0
    assert counted.started == counted.ended == ["one_by_one"]


async def test_models_and_roots_are_asked_in_the_same_way():
    async with conversing(Counted().server, MODERN) as client:
        first = await client.call("everything")
        assert first["inputRequests"] == {
            "model": {
                "method": "sampling/createMessage",
                "params": {
                    "messages": [{"role": "user", "content": {"type": "text", "text": "Write a word"}}],
                    "maxTokens": 5,
                },
            }
        }
        sampled = {"role": "assistant", "content": {"type": "text", "text": "word"}, "model": "m"}
        second = (await ask_again(client, call("everything"), first, {"model": sampled}))["result"]
        assert second["inputRequests"] == {"roots": {"method": "roots/list", "params": {}}}
        roots = {"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]}
        third = await ask_again(client, call("everything"), second, {"roots": roots})
    assert text(third) == "word ['file:///a', 'file:///b']"


async def test_prompts_and_resources_ask_too():
    async with conversing(Counted().server, MODERN) as client:
        first = await client.result("prompts/get", {"name": "poem"})
        assert "ttlMs" not in first
        responses = {"who": accept(name="Ada")}
        answer = await ask_again(client, {"name": "poem"}, first, responses, method="prompts/get")
        assert answer["result"]["messages"][0]["content"]["text"] == "A poem about Ada"
        first = await client.result("resources/read", {"uri": "diary:today"})
        assert "ttlMs" not in first
        answer = await ask_again(client, {"uri": "diary:today"}, first, responses, method="resources/read")
        assert answer["result"]["contents"][0]["text"] == "Diary of Ada"


async def test_a_tool_in_a_thread_asks_too():
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("in_a_thread")
        answer = await ask_again(client, call("in_a_thread"), first, {"who": accept(name="Ada")})
        assert text(answer) == "Hello Ada"
    assert counted.started == ["in_a_thread"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_may_refuse(action):
    async with conversing(Counted().server, MODERN) as client:
        first = await client.call("greet")
        assert text(await ask_again(client, call("greet"), first, {"who": {"action": action}})) == action


async def test_progress_goes_to_the_open_request_under_its_own_token():
    async with conversing(Counted().server, MODERN) as client:
        first = await client.call("steps", meta={"progressToken": "first"})
        await ask_again(client, call("steps"), first, {"who": accept(name="x")}, meta={"progressToken": 2})
        tokens = [(note["progressToken"], note["progress"]) for note in client.notes("notifications/progress")]
        assert tokens == [("first", 1), (2, 2)]
        client.heard.clear()
        first = await client.call("steps", meta={"progressToken": "first"})
        await ask_again(client, call("steps"), first, {"who": accept(name="x")})
        assert [note["progressToken"] for note in client.notes("notifications/progress")] == ["first"]


# -- what a client may get wrong -------------------------------------------------


@pytest.mark.parametrize("responses", [{}, {"other": accept(name="x")}, {"WHO": accept(name="x")}])
async def test_without_the_right_answer_the_question_comes_again(responses):
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("greet")
        second = (await ask_again(client, call("greet"), first, responses))["result"]
        assert second["resultType"] == "input_required"
        assert second["inputRequests"] == first["inputRequests"]
        assert second["requestState"] != first["requestState"]
        assert text(await ask_again(client, call("greet"), second, {"who": accept(name="Ada")})) == "Hello Ada"
    assert counted.started == ["greet"]


async def test_answers_nobody_asked_for_are_ignored():
    async with conversing(Counted().server, MODERN) as client:
        first = await client.call("greet")
        responses = {"who": accept(name="Ada"), "extra": {"action": "accept"}}
        assert text(await ask_again(client, call("greet"), first, responses)) == "Hello Ada"


@pytest.mark.parametrize(
    "responses", [None, 5, "text", [], {"who": None}, {"who": 5}, {"who": []}, {"who": "text"}, {"other": None}]
)
async def test_malformed_answers_are_an_error_and_the_question_stays_open(responses):
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
async def test_an_answer_that_does_not_fit_the_form_is_an_error(response):
    async with conversing(Counted().server, MODERN) as client:
        first = await client.call("greet")
        assert (await ask_again(client, call("greet"), first, {"who": response}))["error"]["code"] == -32602
        assert len(client.link._duplex._server.rounds) == 0


@pytest.mark.parametrize("change", [lambda state: state + "-TAMPERED", lambda state: state[:-1], lambda state: "",
                                    lambda state: state.swapcase(), lambda state: Sealer().seal("round", ["x", 1, "anonymous", b""])])  # fmt: skip  # noqa: E501
async def test_a_changed_state_is_refused_and_the_question_stays_open(change):
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("greet")
        forged = first | {"requestState": change(first["requestState"])}
        answer = await ask_again(client, call("greet"), forged, {"who": accept(name="Eve")})
        assert answer["error"]["code"] == -32602
        assert text(await ask_again(client, call("greet"), first, {"who": accept(name="Ada")})) == "Hello Ada"
    assert counted.started == ["greet"]


async def test_a_state_that_is_no_text_is_refused():
    async with conversing(Counted().server, MODERN) as client:
        for state in (5, None, {}):
            error = await client.error("tools/call", call("greet") | {"requestState": state})
            assert error["code"] == -32602


async def test_a_used_state_cannot_be_used_again():
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


async def test_the_state_of_a_finished_exchange_is_worth_nothing():
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("greet")
        await ask_again(client, call("greet"), first, {"who": accept(name="Ada")})
        again = await ask_again(client, call("greet"), first, {"who": accept(name="Ada")})
        assert again["error"]["code"] == -32602
    assert counted.started == ["greet"]


async def test_two_repetitions_at_once_run_the_handler_once():
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
async def test_a_state_cannot_be_moved_to_another_request(params):
    async with conversing(Counted().server, MODERN) as client:
        first = await client.call("greet")
        answer = await ask_again(client, params, first, {"who": accept(name="Eve")})
        assert answer["error"]["code"] == -32602
        assert "another request" in answer["error"]["message"]


async def test_the_order_of_members_and_the_meta_may_change():
    async with conversing(Counted().server, MODERN) as client:
        first = await client.call("greet", {"greeting": "Hi"})
        params = {"arguments": {"greeting": "Hi"}, "name": "greet"}
        answer = await ask_again(client, params, first, {"who": accept(name="Ada")}, meta={"progressToken": 1})
        assert text(answer) == "Hi Ada"


async def test_a_state_cannot_be_used_by_another_principal():
    server = Counted().server

    def link_of(name):
        return MemoryLink(lambda send, drained: Connection(server, send, principal=Principal(name), drained=drained))

    async with link_of("ada") as ada_link, link_of("eve") as eve_link:
        ada, eve = (Conversation(link, MODERN, EVERYTHING) for link in (ada_link, eve_link))
        first = await ada.call("greet")
        stolen = await ask_again(eve, call("greet"), first, {"who": accept(name="Eve")})
        assert stolen["error"]["code"] == -32602
        assert text(await ask_again(ada, call("greet"), first, {"who": accept(name="Ada")})) == "Hello Ada"


async def test_another_connection_of_the_same_principal_may_go_on():
    server = Counted().server
    async with conversing(server, MODERN) as one, conversing(server, MODERN) as other:
        first = await one.call("greet")
        assert text(await ask_again(other, call("greet"), first, {"who": accept(name="Ada")})) == "Hello Ada"


async def test_numbers_beyond_reading_are_refused_before_anything_runs():
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        client.begin("tools/call", call("greet") | {"n": 1})
        message = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"greet","n":1e999,"_meta":'
        meta = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        meta += b'"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}'
        client.send(message + meta + b"}}")
        assert (await client.answer_to(5))["error"]["code"] == -32602
        assert len(counted.server.rounds) <= 1


# -- limits ----------------------------------------------------------------------


async def test_a_handler_cannot_ask_for_ever():
    async with conversing(Counted().server, MODERN) as client:
        result = await client.call("endless")
        for _ in range(bounds.ROUNDS_OF_ONE_CALL):
            (key,) = result["inputRequests"]
            answer = await ask_again(client, call("endless"), result, {key: accept(name="yes")})
            if "error" in answer:
                break
            result = answer["result"]
        assert answer["error"]["code"] == -32603
        assert answer["error"]["data"]["reason"] == "overloaded"


async def test_a_question_that_nobody_answers_ends_the_handler():
    counted = Counted()
    counted.server.rounds = Rounds(counted.server.sealer, answer_s=0.05)
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("greet")
        async with asyncio.timeout(10):
            while len(counted.server.rounds):
                await asyncio.sleep(0.01)
        late = await ask_again(client, call("greet"), first, {"who": accept(name="Ada")})
        assert late["error"]["code"] == -32602
    assert counted.ended == []


async def test_a_caller_that_leaves_cancels_the_handler():
    counted = Counted()
    running = asyncio.Event()

    @counted.server.tool
    async def slow(ctx: Context) -> str:
        running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            counted.cancelled.set()
            raise
        return "never"

    async with conversing(counted.server, MODERN) as client:
        client.begin("tools/call", call("slow"), id=1)
        await running.wait()
        client.tell("notifications/cancelled", {"requestId": 1})
        await counted.cancelled.wait()
        await client.settle()
        assert len(counted.server.rounds) == 0


async def test_a_stopping_server_ends_suspended_handlers():
    counted = Counted()
    async with counted.server.running(), conversing(counted.server, MODERN) as client:
        await client.call("greet")
        assert len(counted.server.rounds) == 1
    assert counted.cancelled.is_set()
    assert len(counted.server.rounds) == 0


# -- declared inputs -------------------------------------------------------------


async def test_a_declared_input_needs_no_state():
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        (entry,) = [tool for tool in (await client.result("tools/list"))["tools"] if tool["name"] == "book"]
        assert list(entry["inputSchema"]["properties"]) == ["flight"]
        first = await client.call("book", {"flight": "X1"})
        assert first["resultType"] == "input_required"
        assert "requestState" not in first
        assert first["inputRequests"]["seat"]["params"]["message"] == "Which seat?"
        assert counted.started == []
        assert len(counted.server.rounds) == 0
    # Any node can serve the repeated request: here a server that never saw the first.
    other = Counted()
    async with conversing(other.server, MODERN) as client:
        answer = await ask_again(client, call("book", flight="X1"), first, {"seat": accept(name="12A")})
        assert text(answer) == "X1: 12A"
    assert other.started == ["book"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_declined_declared_input_is_a_failed_tool(action):
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("book", {"flight": "X1"})
        answer = await ask_again(client, call("book", flight="X1"), first, {"seat": {"action": action}})
        assert answer["result"]["isError"] is True
    assert counted.started == []


@pytest.mark.parametrize("response", [5, None, {}, {"action": 5}, accept(name=5)])
async def test_a_wrong_declared_input_is_an_error(response):
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        params = call("book", flight="X1") | {"inputResponses": {"seat": response}}
        assert (await client.error("tools/call", params))["code"] == -32602
    assert counted.started == []


async def test_wrong_arguments_are_told_when_the_declared_input_is_there():
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        answer = await ask_again(client, call("book"), {}, {"seat": accept(name="12A")})
        assert answer["result"]["structuredContent"]["error"]["type"] == "validation_error"
    assert counted.started == []


async def test_a_tool_may_declare_and_ask():
    counted = Counted()
    async with conversing(counted.server, MODERN) as client:
        first = await client.call("declared_and_asked")
        second = (await ask_again(client, call("declared_and_asked"), first, {"who": accept(name="Ada")}))["result"]
        assert second["inputRequests"]["age"]["params"]["message"] == "How old is Ada?"
        third = await ask_again(client, call("declared_and_asked"), second, {"age": accept(age=36)})
        assert text(third) == "Ada is 36"
    assert counted.started == ["declared_and_asked"]


@pytest.mark.parametrize(
    ("tool", "arguments", "required"),
    [
        ("greet", {}, {"elicitation": {}}),
        ("book", {"flight": "X1"}, {"elicitation": {}}),
        ("everything", {}, {"sampling": {}}),
    ],
)
@pytest.mark.parametrize("capabilities", [{}, {"roots": {}}])
async def test_a_client_is_told_which_capability_it_lacks(tool, arguments, required, capabilities):
    async with conversing(Counted().server, MODERN, capabilities) as client:
        error = await client.error("tools/call", call(tool, **arguments))
    assert error["code"] == -32021
    assert error["data"] == {"requiredCapabilities": required}


# -- the same tools elsewhere ------------------------------------------------------


def person(**content):
    return lambda message: {"result": accept(**content)}


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_in_a_session_the_client_is_asked_while_the_call_is_open(version):
    counted = Counted()
    async with conversing(counted.server, version) as client:
        client.reply_with = person(name="Ada")
        assert (await client.call("greet"))["content"][0]["text"] == "Hello Ada"
        (question,) = client.heard
        assert question["method"] == "elicitation/create"
        assert ("mode" in question["params"]) == (version == "2025-11-25")
        assert (await client.call("one_by_one"))["content"][0]["text"] == "Ada Ada Ada"
        assert (await client.call("in_a_thread"))["content"][0]["text"] == "Hello Ada"
        assert (await client.call("book", {"flight": "X1"}))["content"][0]["text"] == "X1: Ada"
    assert len(counted.server.rounds) == 0


async def test_in_a_session_questions_asked_together_are_open_together():
    async with conversing(Counted().server, "2025-11-25") as client:
        identifier = client.begin("tools/call", call("both_at_once"))
        questions = [await client.next() for _ in range(2)]
        contents = {"Name?": accept(name="Ada"), "Age?": accept(age=36)}
        for question in reversed(questions):
            client.send({"jsonrpc": "2.0", "id": question["id"], "result": contents[question["params"]["message"]]})
        assert text(await client.answer_to(identifier)) == "Ada is 36"


@pytest.mark.parametrize("version", LEGACY)
async def test_in_a_session_models_and_roots_are_asked(version):
    def reply(message):
        if message["method"] == "roots/list":
            return {"result": {"roots": [{"uri": "file:///a"}]}}
        return {"result": {"role": "assistant", "content": {"type": "text", "text": "word"}, "model": "m"}}

    async with conversing(Counted().server, version) as client:
        client.reply_with = reply
        assert (await client.call("everything"))["content"][0]["text"] == "word ['file:///a']"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_in_a_session_a_person_may_refuse(action):
    async with conversing(Counted().server, "2025-11-25") as client:
        client.reply_with = lambda message: {"result": {"action": action}}
        assert (await client.call("greet"))["content"][0]["text"] == action
        assert (await client.call("book", {"flight": "X1"}))["isError"] is True


@pytest.mark.parametrize(
    "reply",
    [
        {"error": {"code": -1, "message": "User rejected"}},
        {"error": {"code": "x", "message": 5}},
        {"error": "nonsense"},
    ],
)
async def test_in_a_session_an_error_in_reply_fails_the_tool(reply):
    async with conversing(Counted().server, "2025-11-25") as client:
        client.reply_with = lambda message: reply
        assert (await client.call("greet"))["isError"] is True


@pytest.mark.parametrize("result", [None, 5, {}, [], {"action": "maybe"}, accept(name=5), accept()])
async def test_in_a_session_a_wrong_reply_ends_the_call_with_an_error(result):
    async with conversing(Counted().server, "2025-11-25") as client:
        client.reply_with = lambda message: {"result": result}
        answer = await client.ask("tools/call", call("greet"))
        assert "error" in answer or answer["result"]["isError"]


async def test_in_a_session_a_cancelled_call_withdraws_its_question():
    counted = Counted()
    async with conversing(counted.server, "2025-11-25") as client:
        client.begin("tools/call", call("greet"), id="c")
        question = await client.next()
        client.tell("notifications/cancelled", {"requestId": "c"})
        withdrawn = await client.next()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == question["id"]
        assert counted.cancelled.is_set()
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": accept(name="late")})
        await client.settle()
        assert client.heard == []


async def test_in_a_session_a_client_that_leaves_ends_its_questions():
    counted = Counted()
    async with conversing(counted.server, "2025-11-25") as client:
        client.begin("tools/call", call("greet"), id="c")
        await client.next()
        await client.link.finish()
        assert (await client.answer_to("c"))["result"]["isError"] is True


async def test_a_plain_caller_is_told_that_it_cannot_be_asked():
    async with conversing(Counted().server, PLAIN) as client:
        for tool, arguments in (("greet", {}), ("book", {"flight": "X1"}), ("everything", {})):
            assert (await client.error("tools/call", call(tool, **arguments)))["code"] == -32002
