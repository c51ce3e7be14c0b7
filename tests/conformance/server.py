"""The server that the official conformance suite tests.

    python tests/conformance/server.py PORT [auto|json|sse]

Prints its address once it listens; port 0 means any free port. The suite requires every tool, resource and
prompt here by name, and its scenarios define what each must do. The server uses only Hubbub's public API and
defaults. A tool without arguments comes first, because the suite calls the first tool of the list without any.
"""

import asyncio
import base64
import json
import sys
from typing import Annotated, Any, Literal

import msgspec

from hubbub import Ask, Audio, Context, EmbeddedResource, Image, ResourceContents, Server, ToolError

RED_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
SILENCE = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=")
PAUSE_S = 0.05

server = Server("hubbub-conformance", version="1.0.0", instructions="Everything that the suite asks for.")


# -- tools without client requests ---------------------------------------------


@server.tool
def test_simple_text() -> str:
    """Return one line of text."""
    return "This is a simple text response for testing."


@server.tool
def test_image_content() -> Image:
    """Return a picture."""
    return Image(RED_PIXEL, "image/png")


@server.tool
def test_audio_content() -> Audio:
    """Return a sound."""
    return Audio(SILENCE, "audio/wav")


@server.tool
def test_embedded_resource() -> EmbeddedResource:
    """Return a resource with its contents."""
    return embedded("test://embedded-resource", "This is an embedded resource content.")


@server.tool
def test_multiple_content_types() -> list[str | Image | EmbeddedResource]:
    """Return text, a picture and a resource in one result."""
    data = ResourceContents("test://mixed-content-resource", "application/json", text='{"test":"data","value":123}')
    return ["Multiple content types test:", Image(RED_PIXEL, "image/png"), EmbeddedResource(data)]


@server.tool
def test_error_handling() -> str:
    """Fail, always."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.tool(name="test_x_mcp_header")
def region_in_a_header(
    region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})] = "",
) -> str:
    """Say which region was asked for; the argument travels in a header as well."""
    return f"Region: {region or 'none'}"


CONTACT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@server.tool(input_schema=CONTACT_SCHEMA)
def json_schema_2020_12_tool(**contact: Any) -> str:
    """Take a contact whose schema uses much of JSON Schema 2020-12."""
    return f"Contact: {json.dumps(contact, sort_keys=True)}"


# -- tools that send notifications ------------------------------------


@server.tool
async def test_tool_with_logging(context: Context) -> str:
    """Log three messages on the way."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.info(message)
        await asyncio.sleep(PAUSE_S)
    return "Tool with logging executed successfully"


@server.tool
async def test_logging_tool(context: Context) -> str:
    """Log on every level; a client that set none must get nothing."""
    await context.debug("a detail")
    await context.info("a message")
    await context.error("a fault")
    return "Logged"


@server.tool
async def test_tool_with_progress(context: Context) -> str:
    """Report progress three times."""
    for progress in (0, 50, 100):
        await context.progress(progress, 100, f"Completed step {progress} of 100")
        await asyncio.sleep(PAUSE_S)
    return "Tool with progress executed successfully"


@server.tool
async def test_reconnection(context: Context) -> str:
    """Close the stream in the middle of the call; the client comes back for the result."""
    await context.close_stream()
    await asyncio.sleep(2 * PAUSE_S)
    return "Reconnection test completed successfully"


# -- tools that change the lists ------------------------------------


@server.tool
async def test_trigger_tool_change() -> str:
    """Add a tool and take it away again."""
    server.tool(name="test_temporary_tool")(test_simple_text)
    server.tools.unregister("test_temporary_tool")
    return "The list of tools changed"


@server.tool
async def test_trigger_prompt_change() -> str:
    """Add a prompt and take it away again."""
    server.prompt(name="test_temporary_prompt")(test_simple_prompt)
    server.remove_prompt("test_temporary_prompt")
    return "The list of prompts changed"


# -- tools that send client requests ---------------------


class Name(msgspec.Struct):
    name: str


class Colour(msgspec.Struct):
    color: str


class Confirmation(msgspec.Struct):
    ok: bool


class Account(msgspec.Struct):
    username: Annotated[str, msgspec.Meta(description="User's response")]
    email: Annotated[str, msgspec.Meta(description="User's email address")]


class Profile(msgspec.Struct):
    """SEP-1034: every kind of field can have a default."""

    name: Annotated[str, msgspec.Meta(description="User name")] = "John Doe"
    age: Annotated[int, msgspec.Meta(description="User age")] = 30
    score: Annotated[float, msgspec.Meta(description="User score")] = 95.5
    status: Annotated[Literal["active", "inactive", "pending"], msgspec.Meta(description="User status")] = "active"
    verified: Annotated[bool, msgspec.Meta(description="Verification status")] = True


# SEP-1330: choices with and without titles, one or several, and the form that came before.
CHOICES_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [
                {"const": "value1", "title": "First Option"},
                {"const": "value2", "title": "Second Option"},
                {"const": "value3", "title": "Third Option"},
            ],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"const": "value1", "title": "First Choice"},
                    {"const": "value2", "title": "Second Choice"},
                    {"const": "value3", "title": "Third Choice"},
                ]
            },
        },
    },
    "required": [],
}


@server.tool
async def test_sampling(prompt: str, context: Context) -> str:
    """Let the client's model answer a prompt."""
    answer = await context.sample(prompt, max_tokens=100)
    return f"LLM response: {answer.text}"


@server.tool
async def test_elicitation(message: str, context: Context) -> str:
    """Ask the person for a name and an address."""
    answer = await context.elicit(message, Account)
    return f"User response: action={answer.action}, content={answer.content}"


@server.tool
async def test_elicitation_sep1034_defaults(context: Context) -> str:
    """Ask with a form whose fields have defaults."""
    answer = await context.elicit("Please review and update the form fields with defaults", Profile)
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


@server.tool
async def test_elicitation_sep1330_enums(context: Context) -> str:
    """Ask with a form of choices."""
    answer = await context.elicit_schema("Please choose", CHOICES_SCHEMA)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"


@server.tool
async def test_missing_capability(context: Context) -> str:
    """Need a model, whether the client lends one or not."""
    return (await context.sample("Say anything", max_tokens=10)).text


@server.tool
async def test_streaming_elicitation(context: Context) -> str:
    """Tell something first, then ask."""
    await context.info("about to ask")
    answer = await context.elicit("Go on?", Confirmation)
    return f"Answered: {answer.action}"


@server.tool
async def test_input_required_result_elicitation(user_name: Annotated[Name, Ask("What is your name?")]) -> str:
    """Greet the person; the name is asked for before the function runs."""
    return f"Hello, {user_name.name}!"


@server.tool
async def test_input_required_result_sampling(context: Context) -> str:
    """Let the client's model answer a question."""
    answer = await context.sample("What is the capital of France?", max_tokens=100, key="capital_question")
    return answer.text


@server.tool
async def test_input_required_result_list_roots(context: Context) -> str:
    """Name the client's roots."""
    return f"Roots: {', '.join(root.uri for root in await context.roots(key='client_roots'))}"


@server.tool
async def test_input_required_result_request_state(context: Context) -> str:
    """Ask once; that the same exchange goes on shows that the state came back whole."""
    answer = await context.elicit("Please confirm", Confirmation, key="confirm")
    return f"state-ok: {answer.action}"


@server.tool
async def test_input_required_result_multiple_inputs(context: Context) -> str:
    """Ask the person, the model and the client at once."""
    person, greeting, roots = await asyncio.gather(
        context.elicit("What is your name?", Name, key="user_name"),
        context.sample("Generate a greeting", max_tokens=50, key="greeting"),
        context.roots(key="client_roots"),
    )
    name = person.content.name if person.content is not None else "stranger"
    return f"{greeting.text} {name}, {len(roots)} roots"


@server.tool
async def test_input_required_result_multi_round(context: Context) -> str:
    """Ask twice, the second time after the first answer."""
    person = await context.elicit("Step 1: What is your name?", Name, key="step1")
    colour = await context.elicit("Step 2: What is your favorite color?", Colour, key="step2")
    return f"{person.content} likes {colour.content}"


@server.tool
async def test_input_required_result_tampered_state(context: Context) -> str:
    """Send one client request; a changed request state never gets here."""
    answer = await context.elicit("Please confirm", Confirmation, key="confirm")
    return f"Confirmed: {answer.action}"


@server.tool
async def test_input_required_result_capabilities(context: Context) -> str:
    """Ask only in ways that the client can answer."""
    asked: list[str] = []
    if context.caller.can("elicitation"):
        asked.append((await context.elicit("What is your name?", Name, key="user_name")).action)
    if context.caller.can("sampling"):
        asked.append((await context.sample("Generate a greeting", max_tokens=50, key="greeting")).text)
    return f"Answers: {asked}"


# -- resources -------------------------------------------------------------------


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A resource of text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A resource of bytes."""
    return RED_PIXEL


@server.resource("test://watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """A resource to subscribe to."""
    return "Watched resource content."


@server.resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str) -> str:
    """One resource for each id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


# -- prompts ---------------------------------------------------------------------


@server.prompt
def test_simple_prompt() -> str:
    """One message without arguments."""
    return "This is a simple prompt for testing."


@server.prompt
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """One message with both arguments in it."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:
    """A resource, then what to do with it."""
    return [embedded(resourceUri, "Embedded resource content for testing."), "Please process the resource above."]


@server.prompt
def test_prompt_with_image() -> list[Any]:
    """A picture, then what to do with it."""
    return [Image(RED_PIXEL, "image/png"), "Please analyze the image above."]


class PromptContext(msgspec.Struct):
    context: str


@server.prompt
async def test_input_required_result_prompt(context: Context) -> str:
    """Ask before there is a prompt at all."""
    answer = await context.elicit("What context should the prompt use?", PromptContext, key="user_context")
    return f"Context: {answer.content.context if answer.content is not None else 'none'}"


@server.completion("test_prompt_with_arguments", "arg1")
def suggest_first_argument(value: str) -> list[str]:
    return [word for word in ("paris", "park", "party", "test", "testing") if word.startswith(value)]


def embedded(uri: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(ResourceContents(uri, "text/plain", text=text))


def main(port: str, response: Literal["auto", "json", "sse"] = "auto") -> int:
    from hubbub.app import serve_http
    from hubbub.settings import ServeSettings

    settings = ServeSettings(port=int(port), response=response)
    return serve_http(server, settings, on_started=lambda url: print(f"{url}/mcp", flush=True))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))  # type: ignore[arg-type]
