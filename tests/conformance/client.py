"""The client that the official conformance suite drives: `client.py URL`, started once for every scenario.

The scenario and its wire version arrive in variables of the environment. What the client
does is Hubbub's; here is only what a scenario asks a user to do: list, call, read, answer.
The suite starts dozens of these at once, so nothing is imported that is not needed.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable

from hubbub import (
    Client,
    ElicitationAnswer,
    ElicitationRequest,
    Note,
    ProtocolVersionNotSupported,
    SamplingAnswer,
    SamplingRequest,
    ServerConfig,
)

Scenario = Callable[[Client], Awaitable[object]]
REQUEST_S = 60.0


async def list_tools(client: Client) -> None:
    await client.tools()


async def add_numbers(client: Client) -> None:
    await client.tools()
    await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def answer_a_form(client: Client) -> None:
    await client.tools()
    await client.call_tool("test_client_elicitation_defaults")


async def come_back_for_an_answer(client: Client) -> None:
    await client.tools()
    await client.call_tool("test_reconnection")


async def do_all_that_is_offered(client: Client) -> None:
    """Every method that has a header of its own."""
    for tool in await client.tools():
        await client.call_tool(tool.name)
    for resource in await client.resources():
        await client.read_resource(resource.uri)
    for prompt in await client.prompts():
        await client.get_prompt(prompt.name)
    # The suite wants to see the headers of a handshake too, though its server then speaks of no older version.
    with contextlib.suppress(ProtocolVersionNotSupported):
        await connected(str(client.config.url), "2025-11-25").start()
    await client.notify(Note("notifications/initialized"))


async def replay_calls(client: Client) -> None:
    await client.tools()
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        await client.call_tool(call["name"], call.get("arguments"))


async def call_every_tool(client: Client) -> None:
    for tool in await client.tools():
        await client.call_tool(tool.name, {"region": "here"})


async def answer_in_rounds(client: Client) -> None:
    await client.tools()
    await client.call_tool("test_mrtr_echo_state")
    await client.call_tool("test_mrtr_unrelated")
    await client.call_tool("test_mrtr_no_state")
    await client.call_tool("test_mrtr_no_result_type")


async def give_a_schema_back(client: Client) -> None:
    schemas = {tool.name: tool.input_schema for tool in await client.tools()}
    await client.call_tool("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


SCENARIOS: dict[str, Scenario] = {
    "initialize": list_tools,
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": answer_a_form,
    "sse-retry": come_back_for_an_answer,
    "request-metadata": list_tools,
    "http-standard-headers": do_all_that_is_offered,
    "http-custom-headers": replay_calls,
    "http-invalid-tool-headers": call_every_tool,
    "sep-2322-client-request-state": answer_in_rounds,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": give_a_schema_back,
}


def answer_form(request: ElicitationRequest) -> ElicitationAnswer:
    """Confirm what is to be confirmed; fill any other form with its defaults."""
    if "confirmed" in request.requested_schema.get("properties", {}):
        return ElicitationAnswer("accept", {"confirmed": True})
    if request.mode != "form":
        return ElicitationAnswer("decline")
    properties = request.requested_schema.get("properties", {})
    return ElicitationAnswer(
        "accept", {name: field["default"] for name, field in properties.items() if "default" in field}
    )


def answer_nothing(request: SamplingRequest) -> SamplingAnswer:
    """Declared because a scenario looks for it; none asks."""
    return SamplingAnswer({"type": "text", "text": ""}, model="none")


def connected(url: str, version: str | None) -> Client:
    config = ServerConfig(
        id="conformance",
        transport="streamable_http",
        url=url,
        timeout_s=REQUEST_S,
        protocol_version=version,
        client_info={"name": "hubbub-conformance", "version": "1"},
    )
    return Client(config, elicitation=answer_form, sampling=answer_nothing, roots=[])


async def main(url: str) -> int:
    name = os.environ["MCP_CONFORMANCE_SCENARIO"]
    scenario = SCENARIOS.get(name)
    if scenario is None:
        print(f"there is no scenario {name!r} here", file=sys.stderr)
        return 1
    version = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    # A modern server is found out; an older one is told at once, as the suite does not expect to be probed.
    async with connected(url, None if version == "2026-07-28" else version) as client:
        await scenario(client)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1])))
