"""The client that the official conformance suite drives: `client.py URL`, started once for every scenario.

The scenario and the protocol version are passed in environment variables. This file contains only what a
scenario expects of a user of the client: list, call, read, answer.
The suite starts dozens of these at once, so only what is needed is imported.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

import hubbub
from hubbub import (
    Client,
    ElicitationAnswer,
    ElicitationRequest,
    Notification,
    ProtocolVersionNotSupported,
    SamplingAnswer,
    SamplingRequest,
    ServerConfig,
)

Scenario = Callable[[Client], Awaitable[object]]
REQUEST_TIMEOUT_S = 60.0
REDIRECT_URI = "http://localhost:3000/callback"
CLIENT_METADATA_URL = "https://conformance-test.local/client-metadata.json"
"""Never fetched."""


async def list_tools(client: Client) -> None:
    await client.tools()


async def add_numbers(client: Client) -> None:
    await client.tools()
    await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def fill_form(client: Client) -> None:
    await client.tools()
    await client.call_tool("test_client_elicitation_defaults")


async def resume_stream(client: Client) -> None:
    await client.tools()
    await client.call_tool("test_reconnection")


async def use_every_feature(client: Client) -> None:
    """Call every method that has its own header."""
    for tool in await client.tools():
        await client.call_tool(tool.name)
    for resource in await client.resources():
        await client.read_resource(resource.uri)
    for prompt in await client.prompts():
        await client.get_prompt(prompt.name)
    # The suite checks the headers of a handshake too, although its server supports no legacy version.
    with contextlib.suppress(ProtocolVersionNotSupported):
        await make_client(make_config(str(client.config.url), "2025-11-25")).start()
    await client.notify(Notification("notifications/initialized"))


async def replay_calls(client: Client) -> None:
    await client.tools()
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        await client.call_tool(call["name"], call.get("arguments"))


async def call_every_tool(client: Client) -> None:
    for tool in await client.tools():
        await client.call_tool(tool.name, {"region": "here"})


async def complete_rounds(client: Client) -> None:
    await client.tools()
    await client.call_tool("test_mrtr_echo_state")
    await client.call_tool("test_mrtr_unrelated")
    await client.call_tool("test_mrtr_no_state")
    await client.call_tool("test_mrtr_no_result_type")


async def return_schema(client: Client) -> None:
    schemas = {tool.name: tool.input_schema for tool in await client.tools()}
    await client.call_tool("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


async def call_first_tool(client: Client) -> None:
    """The scenarios of authorization: the first call may need more scopes, or a token of another server."""
    tools = await client.tools()
    await client.call_tool(tools[0].name)


SCENARIOS: dict[str, Scenario] = {
    "initialize": list_tools,
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": fill_form,
    "sse-retry": resume_stream,
    "request-metadata": list_tools,
    "http-standard-headers": use_every_feature,
    "http-custom-headers": replay_calls,
    "http-invalid-tool-headers": call_every_tool,
    "sep-2322-client-request-state": complete_rounds,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": return_schema,
}


def answer_form(request: ElicitationRequest) -> ElicitationAnswer:
    """Accept confirmations; fill any other form with its defaults."""
    if "confirmed" in request.requested_schema.get("properties", {}):
        return ElicitationAnswer("accept", {"confirmed": True})
    if request.mode != "form":
        return ElicitationAnswer("decline")
    properties = request.requested_schema.get("properties", {})
    return ElicitationAnswer(
        "accept", {name: field["default"] for name, field in properties.items() if "default" in field}
    )


def sample_nothing(request: SamplingRequest) -> SamplingAnswer:
    """Never called; declared because a scenario checks the capability."""
    return SamplingAnswer({"type": "text", "text": ""}, model="none")


def oauth_of(scenario: str, context: dict[str, Any]) -> hubbub.OAuth:
    match scenario:
        case "auth/client-credentials-basic":
            return hubbub.OAuth(
                grant="client_credentials", client_id=context["client_id"], client_secret=context["client_secret"]
            )
        case "auth/client-credentials-jwt":
            return hubbub.OAuth(
                grant="client_credentials",
                client_id=context["client_id"],
                private_key=context["private_key_pem"],
                private_key_algorithm=context["signing_algorithm"],
            )
        case "auth/enterprise-managed-authorization":
            return hubbub.OAuth(
                grant="enterprise_managed",
                client_id=context["client_id"],
                client_secret=context["client_secret"],
                identity_provider=hubbub.IdentityProvider(
                    issuer=context["idp_issuer"],
                    token_endpoint=context["idp_token_endpoint"],
                    client_id=context["idp_client_id"],
                    id_token=context["idp_id_token"],
                ),
            )
        case "auth/wif-jwt-bearer":
            return hubbub.OAuth(grant="jwt_bearer", client_id=context["client_id"], assertion=context["valid_jwt"])
        case "auth/pre-registration":
            return hubbub.OAuth(
                client_id=context["client_id"],
                client_secret=context["client_secret"],
                redirect_handler=follow,
                redirect_uri=REDIRECT_URI,
            )
    return hubbub.OAuth(client_metadata_url=CLIENT_METADATA_URL, redirect_handler=follow, redirect_uri=REDIRECT_URI)


async def follow(authorization_url: str) -> str:
    """Open the authorization page as a browser does, and return where it redirects to."""
    from hubbub.pack.http import ANY_ADDRESS, HttpClient

    http_client = HttpClient(ANY_ADDRESS)
    try:
        response = await http_client.send("GET", authorization_url, headers={})
        await response.read(65536)
        return response.header("Location")
    finally:
        await http_client.close()


def make_config(url: str, version: str | None) -> ServerConfig:
    return ServerConfig(
        id="conformance",
        transport="streamable_http",
        url=url,
        timeout_s=REQUEST_TIMEOUT_S,
        protocol_version=version,
        client_info={"name": "hubbub-conformance", "version": "1"},
    )


def make_client(config: ServerConfig) -> Client:
    return Client(config, elicitation=answer_form, sampling=sample_nothing, roots=[])


async def main(url: str) -> int:
    name = os.environ["MCP_CONFORMANCE_SCENARIO"]
    is_authorized = name.startswith("auth/")
    scenario = call_first_tool if is_authorized else SCENARIOS.get(name)
    if scenario is None:
        print(f"there is no scenario {name!r} here", file=sys.stderr)
        return 1
    version = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    # A modern server is detected; for an older one the version is pinned, because the suite expects no probe.
    config = make_config(url, None if version == "2026-07-28" else version)
    if is_authorized:
        context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
        config = msgspec.structs.replace(config, auth=oauth_of(name, context))
    async with make_client(config) as client:
        await scenario(client)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1])))
