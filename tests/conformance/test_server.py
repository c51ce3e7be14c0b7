"""The server of the conformance suite, called in memory: the same results in both eras, without a network."""

import asyncio
import contextlib
import importlib.util
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.raw_transport import RawTransport

from hubbub import Server

META = "io.modelcontextprotocol/"
EVERYTHING: dict[str, Any] = {"sampling": {}, "elicitation": {}, "roots": {}}
ANSWERS: dict[str, dict[str, Any]] = {
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "Bonjour"}, "model": "m"},
    "roots/list": {"roots": [{"uri": "file:///here"}]},
    "username": {"action": "accept", "content": {"username": "ada", "email": "ada@example.com"}},
    "verified": {"action": "accept", "content": {"name": "Ada", "score": 88}},
    "legacyEnum": {"action": "accept", "content": {"legacyEnum": "opt1", "titledMulti": ["value1"]}},
    "ok": {"action": "accept", "content": {"ok": True}},
    "name": {"action": "accept", "content": {"name": "Ada"}},
    "color": {"action": "accept", "content": {"color": "blue"}},
    "context": {"action": "accept", "content": {"context": "tea"}},
}
QUESTIONS = {
    "test_sampling": ("LLM response: Bonjour", ["sampling/createMessage"]),
    "test_elicitation": ("ada@example.com", ["elicitation/create"]),
    "test_elicitation_sep1034_defaults": ("score=88", ["elicitation/create"]),
    "test_elicitation_sep1330_enums": ('"titledMulti": ["value1"]', ["elicitation/create"]),
    "test_missing_capability": ("Bonjour", ["sampling/createMessage"]),
    "test_streaming_elicitation": ("accept", ["elicitation/create"]),
    "test_input_required_result_elicitation": ("Hello, Ada!", ["elicitation/create"]),
    "test_input_required_result_sampling": ("Bonjour", ["sampling/createMessage"]),
    "test_input_required_result_list_roots": ("file:///here", ["roots/list"]),
    "test_input_required_result_request_state": ("state-ok", ["elicitation/create"]),
    "test_input_required_result_multiple_inputs": (
        "Bonjour Ada, 1 roots",
        ["elicitation/create", "sampling/createMessage", "roots/list"],
    ),
    "test_input_required_result_multi_round": ("blue", ["elicitation/create", "elicitation/create"]),
    "test_input_required_result_tampered_state": ("accept", ["elicitation/create"]),
    "test_input_required_result_capabilities": ("Bonjour", ["elicitation/create", "sampling/createMessage"]),
}
ARGUMENTS = {"test_sampling": {"prompt": "Hello?"}, "test_elicitation": {"message": "Who are you?"}}

Message = dict[str, Any]


class ConformanceClient:
    """A client of either era that answers every client request and records notifications."""

    def __init__(self, link: RawTransport, *, modern: bool, capabilities: Message) -> None:
        self._link = link
        self._modern = modern
        self._capabilities = capabilities
        self._last_id = 0
        self.notifications: list[Message] = []
        self.requests_received: list[Message] = []

    async def open(self) -> None:
        if not self._modern:
            client = {"name": "test", "version": "1"}
            params = {"protocolVersion": "2025-11-25", "capabilities": self._capabilities, "clientInfo": client}
            assert "result" in await self.send("initialize", params)

    async def ask(self, method: str, **params: Any) -> Message:
        """Send a request, answer all client requests, and return the final response."""
        answer = await self.send(method, params)
        while answer.get("result", {}).get("resultType") == "input_required":
            result = answer["result"]
            self.requests_received += result["inputRequests"].values()
            replies = {key: reply_to(question) for key, question in result["inputRequests"].items()}
            state = {"requestState": result["requestState"]} if "requestState" in result else {}
            answer = await self.send(method, {**params, "inputResponses": replies, **state})
        return answer

    async def send(self, method: str, params: Message, **meta: Any) -> Message:
        """Send one request and return its response; a legacy server may send client requests before it."""
        self._last_id += 1
        if self._modern:
            versions = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": self._capabilities}
            meta = versions | meta
        message = {"id": self._last_id, "method": method, "params": {**params, "_meta": meta}}
        self._link.send(encode(message))
        while True:
            answer: Message = json.loads(await self._link.receive())
            if "method" not in answer:
                assert answer["id"] == self._last_id
                return answer
            if "id" in answer:
                assert not self._modern, "a modern server never sends requests"
                self.requests_received.append(answer)
                self._link.send(encode({"id": answer["id"], "result": reply_to(answer)}))
            else:
                self.notifications.append(answer)


def reply_to(question: Message) -> Message:
    if question["method"] in ANSWERS:
        return ANSWERS[question["method"]]
    properties = question["params"]["requestedSchema"]["properties"]
    return next(answer for field, answer in ANSWERS.items() if field in properties)


def encode(message: Message) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def load_server() -> Server:
    """Load a new server for each test."""
    path = Path(__file__).with_name("server.py")
    spec = importlib.util.spec_from_file_location("conformance_server", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server: Server = module.server
    return server


@contextlib.asynccontextmanager
async def connect_client(
    *, modern: bool = True, capabilities: Message | None = None
) -> AsyncIterator[ConformanceClient]:
    server = load_server()
    async with server.running(), RawTransport(server) as link:
        client = ConformanceClient(
            link, modern=modern, capabilities=EVERYTHING if capabilities is None else capabilities
        )
        await client.open()
        yield client


def read_text(answer: Message) -> str:
    return "".join(item.get("text", "") for item in answer["result"]["content"])


in_both_eras = pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])


@in_both_eras
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_tool_gets_the_responses_to_its_client_requests(name: str, modern: bool) -> None:
    text, methods = QUESTIONS[name]

    async def scenario() -> None:
        async with connect_client(modern=modern) as client:
            answer = await client.ask("tools/call", name=name, arguments=ARGUMENTS.get(name, {}))
            assert text in read_text(answer)
            assert [question["method"] for question in client.requests_received] == methods

    asyncio.run(scenario())


@in_both_eras
def test_every_tool_is_listed_with_its_schema_as_given(modern: bool) -> None:
    async def scenario() -> None:
        async with connect_client(modern=modern) as client:
            tools = {tool["name"]: tool for tool in (await client.ask("tools/list"))["result"]["tools"]}
            assert len(tools) == 28
            assert next(iter(tools)) == "test_simple_text"
            assert all(tool["description"] for tool in tools.values())
            contact = tools["json_schema_2020_12_tool"]["inputSchema"]
            assert contact["$defs"]["address"]["$anchor"] == "addressDef"
            assert list(contact) == [
                *("$schema", "type", "$defs", "properties", "allOf", "if", "then", "else", "additionalProperties")
            ]
            assert tools["test_x_mcp_header"]["inputSchema"]["properties"]["region"]["x-mcp-header"] == "Region"

    asyncio.run(scenario())


@in_both_eras
def test_results_hold_every_kind_of_content(modern: bool) -> None:
    async def scenario() -> None:
        async with connect_client(modern=modern) as client:
            mixed = (await client.ask("tools/call", name="test_multiple_content_types"))["result"]["content"]
            assert [item["type"] for item in mixed] == ["text", "image", "resource"]
            audio = (await client.ask("tools/call", name="test_audio_content"))["result"]["content"]
            assert [(item["type"], item["mimeType"]) for item in audio] == [("audio", "audio/wav")]
            failed = (await client.ask("tools/call", name="test_error_handling"))["result"]
            assert failed["isError"] is True
            assert "intentionally" in failed["content"][0]["text"]
            picture = (await client.ask("resources/read", uri="test://static-binary"))["result"]["contents"]
            assert picture[0]["mimeType"] == "image/png"
            data = (await client.ask("resources/read", uri="test://template/123/data"))["result"]["contents"]
            assert json.loads(data[0]["text"])["id"] == "123"

    asyncio.run(scenario())


@in_both_eras
def test_prompts_take_arguments_and_may_send_client_requests(modern: bool) -> None:
    async def scenario() -> None:
        async with connect_client(modern=modern) as client:
            arguments = {"arg1": "one", "arg2": "two"}
            filled = await client.ask("prompts/get", name="test_prompt_with_arguments", arguments=arguments)
            assert "arg1='one', arg2='two'" in filled["result"]["messages"][0]["content"]["text"]
            requests_received = await client.ask("prompts/get", name="test_input_required_result_prompt")
            assert requests_received["result"]["messages"][0]["content"]["text"] == "Context: tea"

    asyncio.run(scenario())


@in_both_eras
def test_progress_arrives_before_the_result_and_grows(modern: bool) -> None:
    async def scenario() -> None:
        async with connect_client(modern=modern) as client:
            await client.send("tools/call", {"name": "test_tool_with_progress"}, progressToken="p")
            assert [note["params"]["progress"] for note in client.notifications] == [0, 50, 100]
            assert {note["params"]["progressToken"] for note in client.notifications} == {"p"}

    asyncio.run(scenario())


def test_a_modern_caller_receives_only_the_log_levels_that_it_set() -> None:
    async def scenario() -> None:
        async with connect_client() as client:
            await client.send("tools/call", {"name": "test_logging_tool"})
            assert client.notifications == []
            await client.send("tools/call", {"name": "test_logging_tool"}, **{META + "logLevel": "info"})
            assert [note["params"]["level"] for note in client.notifications] == ["info", "error"]

    asyncio.run(scenario())


def test_a_missing_capability_is_an_error_that_names_it() -> None:
    async def scenario() -> None:
        async with connect_client(capabilities={}) as client:
            error = (await client.send("tools/call", {"name": "test_missing_capability"}))["error"]
            assert error["code"] == -32021
            assert error["data"] == {"requiredCapabilities": {"sampling": {}}}

    asyncio.run(scenario())


def test_clients_without_the_capability_get_no_client_requests() -> None:
    async def scenario() -> None:
        async with connect_client(capabilities={"sampling": {}}) as client:
            await client.ask("tools/call", name="test_input_required_result_capabilities")
            assert [question["method"] for question in client.requests_received] == ["sampling/createMessage"]

    asyncio.run(scenario())


@pytest.mark.parametrize("responses", [None, {"user_name": 12345}, [], "no"])
def test_input_responses_of_the_wrong_shape_are_refused(responses: Any) -> None:
    async def scenario() -> None:
        async with connect_client() as client:
            params = {"name": "test_input_required_result_elicitation", "inputResponses": responses}
            assert (await client.send("tools/call", params))["error"]["code"] == -32602

    asyncio.run(scenario())


def test_input_responses_with_unknown_keys_are_ignored_and_requested_again() -> None:
    async def scenario() -> None:
        async with connect_client() as client:
            params = {"name": "test_input_required_result_elicitation"}
            wrong = await client.send("tools/call", params | {"inputResponses": {"wrong": ANSWERS["name"]}})
            assert list(wrong["result"]["inputRequests"]) == ["user_name"]
            more = {"user_name": ANSWERS["name"], "more": ANSWERS["color"]}
            right = await client.send("tools/call", params | {"inputResponses": more})
            assert read_text(right) == "Hello, Ada!"

    asyncio.run(scenario())


def test_each_round_has_its_own_request_state_and_a_changed_one_is_refused() -> None:
    async def scenario() -> None:
        async with connect_client() as client:
            params: Message = {"name": "test_input_required_result_multi_round"}
            first = (await client.send("tools/call", params))["result"]["requestState"]
            params["inputResponses"] = {"step1": ANSWERS["name"]}
            changed = await client.send("tools/call", params | {"requestState": first + "-TAMPERED"})
            assert changed["error"]["code"] == -32602
            second = (await client.send("tools/call", params | {"requestState": first}))["result"]
            assert list(second["inputRequests"]) == ["step2"]
            assert second["requestState"] != first
            replayed = await client.send("tools/call", params | {"requestState": first})
            assert replayed["error"]["code"] == -32602

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("tool", "kind"), [("test_trigger_tool_change", "tools"), ("test_trigger_prompt_change", "prompts")]
)
def test_a_change_reaches_only_the_stream_that_listens_for_it(tool: str, kind: str) -> None:
    async def scenario() -> None:
        server = load_server()
        async with server.running(), RawTransport(server) as listener, RawTransport(server) as link:
            for identifier, name in enumerate(("toolsListChanged", "promptsListChanged"), start=1):
                meta = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}
                params = {"notifications": {name: True}, "_meta": meta}
                listener.send(encode({"id": identifier, "method": "subscriptions/listen", "params": params}))
                assert json.loads(await listener.receive())["method"] == "notifications/subscriptions/acknowledged"
            await ConformanceClient(link, modern=True, capabilities={}).ask("tools/call", name=tool)
            received = [message for message in await receive_all(listener) if "id" not in message]
            tags = {(note["method"], note["params"]["_meta"][META + "subscriptionId"]) for note in received}
            assert tags == {(f"notifications/{kind}/list_changed", 1 if kind == "tools" else 2)}

    asyncio.run(scenario())


async def receive_all(link: RawTransport) -> list[Message]:
    """Return everything received until the response to a ping."""
    link.send(encode({"id": "last", "method": "ping"}))
    messages: list[Message] = []
    while not messages or messages[-1].get("id") != "last":
        messages.append(json.loads(await link.receive()))
    return messages
