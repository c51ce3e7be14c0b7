"""The workshop with the official Python SDK, in both eras: `workshop.py stdio|http ROOM JOURNAL`.

It has everything that a hub must carry from one era into the other: each tool asks, reports and
changes things in the form of the era it is called in. `ROOM` stands in its addresses, so that many
workshops do not collide. `JOURNAL` is a file that outlives the process: a line for each thing that
happened, and the names of what was added, so that tests can count calls and so that two processes
of one workshop have the same lists. Over HTTP it prints its port.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Ctx = ServerRequestContext[Any, Any]
Result = types.CallToolResult | types.InputRequiredResult
Tool = Callable[[Ctx, types.CallToolRequestParams, dict[str, Any]], Awaitable[Result]]

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
PIXEL = "iVBORw0KGgo="
ROOM = f"memo://{sys.argv[2]}"
WATCHED = f"{ROOM}/watched"
journal = Path(sys.argv[3])
bus = InMemorySubscriptionBus()
subscribed: dict[str, dict[str, Any]] = {}
levels: dict[str, str] = {}
versions = {WATCHED: 0}


def write(kind: str, name: str) -> None:
    with journal.open("a") as file:
        file.write(f"{kind} {name}\n")


def added(kind: str) -> list[str]:
    """Return the names that were added of a kind, by any process."""
    lines = journal.read_text().splitlines() if journal.exists() else []
    return [line.split(" ", 1)[1] for line in lines if line.startswith(f"{kind} ")]


def is_modern(ctx: Ctx) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def session_id(ctx: Ctx) -> str:
    """Return the id of the legacy session; on stdio there is only one."""
    return str(ctx.request.headers.get("mcp-session-id")) if ctx.request is not None else ""


def text(value: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=value)], **more)


def structured(value: Any) -> types.CallToolResult:
    return text(json.dumps(value), structured_content=value)


# -- tools ---------------------------------------------------------------------------------------


async def echo(ctx: Ctx, params: types.CallToolRequestParams, given: dict[str, Any]) -> Result:
    return text(given["text"], _meta={"workshop/length": len(given["text"])})


async def add(ctx: Ctx, params: types.CallToolRequestParams, given: dict[str, Any]) -> Result:
    return structured({"total": given["a"] + given["b"], "terms": [given["a"], given["b"]]})


async def series(ctx: Ctx, params: types.CallToolRequestParams, given: dict[str, Any]) -> Result:
    """A list by itself, which only the modern era takes as structured content."""
    numbers = list(range(given["count"]))
    return structured(numbers if is_modern(ctx) else {"result": numbers})


async def gallery(ctx: Ctx, params: types.CallToolRequestParams, given: dict[str, Any]) -> Result:
    inside = types.TextResourceContents(uri=f"{ROOM}/inside", mime_type="text/plain", text="inside")
    return types.CallToolResult(
        content=[
            types.TextContent(type="text", text="all kinds"),
            types.ImageContent(type="image", data=PIXEL, mime_type="image/png"),
            types.AudioContent(type="audio", data="UklGRg==", mime_type="audio/wav"),
            types.EmbeddedResource(type="resource", resource=inside),
            types.ResourceLink(type="resource_link", uri=f"{ROOM}/static", name="static"),
        ]
    )


async def failing(ctx: Ctx, params: types.CallToolRequestParams, given: dict[str, Any]) -> Result:
    return text("the well is dry", is_error=True)


async def slow(ctx: Ctx, params: types.CallToolRequestParams, given: dict[str, Any]) -> Result:
    for step in range(1, given["steps"] + 1):
        await ctx.session.report_progress(step, given["steps"], f"step {step}")
        await asyncio.sleep(given.get("pause_s", 0))
    return text(f"{given['steps']} steps")


async def chatty(ctx: Ctx, params: types.CallToolRequestParams, given: dict[str, Any]) -> Result:
    """Say something at four levels, and report after each."""
    least = LEVELS.index(levels.get(session_id(ctx), "debug"))
    said: tuple[types.LoggingLevel, ...] = ("debug", "info", "warning", "error")
    for number, name in enumerate(said, 1):
        if is_modern(ctx) or LEVELS.index(name) >= least:
            await ctx.session.send_log_message(name, {"said": name}, "workshop", ctx.request_id)
        await ctx.session.report_progress(number, 4)
    return text("said")


async def wait(ctx: Ctx, params: types.CallToolRequestParams, given: dict[str, Any]) -> Result:
    write("started", given["token"])
    await ctx.session.report_progress(1, message="waiting")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        write("cancelled", given["token"])
        raise
    return text("never")


# -- tools that send client requests ------------------------------------------------------------------------------

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 0}},
    "required": ["name"],
}
SURE = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}


def form(message: str, schema: dict[str, Any]) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def poem(topic: str) -> types.CreateMessageRequest:
    words = types.TextContent(type="text", text=f"A haiku about {topic}")
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=[types.SamplingMessage(role="user", content=words)],
            max_tokens=64,
            system_prompt="You are a poet",
            temperature=0.5,
        )
    )


async def elicit(ctx: Ctx, request: types.ElicitRequest) -> types.ElicitResult:
    assert isinstance(request.params, types.ElicitRequestFormParams)
    return await ctx.session.elicit(request.params.message, request.params.requested_schema, ctx.request_id)


async def sample(ctx: Ctx, request: types.CreateMessageRequest) -> types.CreateMessageResult:
    asked = request.params
    return await ctx.session.create_message(
        asked.messages,
        max_tokens=asked.max_tokens,
        system_prompt=asked.system_prompt,
        temperature=asked.temperature,
        related_request_id=ctx.request_id,
    )


def filled_in(answer: object) -> dict[str, Any]:
    """What a person wrote into a form."""
    assert isinstance(answer, types.ElicitResult), answer
    return dict(answer.content or {})


def written(answer: object) -> str:
    """What a model wrote."""
    assert isinstance(answer, types.CreateMessageResult), answer
    assert isinstance(answer.content, types.TextContent), answer
    return answer.content.text


def needs(state: str, **requests: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


async def interview(ctx: Ctx, params: types.CallToolRequestParams, given: dict[str, Any]) -> Result:
    """Ask who it is, report, then ask whether that is sure: two questions, one after the other."""
    answers = params.input_responses or {}
    sure: object
    if not is_modern(ctx):
        who = await elicit(ctx, form("Who are you?", PERSON))
        if who.action != "accept":
            return text(f"{who.action}, then")
        await ctx.session.report_progress(1, 2, "known")
        name = filled_in(who)["name"]
        sure = await elicit(ctx, form(f"Are you sure, {name}?", SURE))
    elif params.request_state is None:
        return needs("who", who=form("Who are you?", PERSON))
    elif params.request_state == "who":
        answer = answers["who"]
        assert isinstance(answer, types.ElicitResult), answer
        if answer.action != "accept":
            return text(f"{answer.action}, then")
        await ctx.session.report_progress(1, 2, "known")
        name = filled_in(answer)["name"]
        return needs(f"sure {name}", sure=form(f"Are you sure, {name}?", SURE))
    else:
        name, sure = params.request_state.removeprefix("sure "), answers["sure"]
    await ctx.session.report_progress(2, 2, "sure")
    return text(f"{name} is {'sure' if filled_in(sure)['sure'] else 'not sure'}")


async def haiku(ctx: Ctx, params: types.CallToolRequestParams, given: dict[str, Any]) -> Result:
    """Let the caller's model write."""
    answer: object
    if not is_modern(ctx):
        answer = await sample(ctx, poem(given["topic"]))
    elif params.input_responses is None:
        return needs("haiku", poem=poem(given["topic"]))
    else:
        answer = params.input_responses["poem"]
    assert isinstance(answer, types.CreateMessageResult), answer
    return text(f"{answer.model}: {written(answer)}")


async def both(ctx: Ctx, params: types.CallToolRequestParams, given: dict[str, Any]) -> Result:
    """Ask a person and a model at once."""
    who: object
    answer: object
    questions: Any = {"who": form("Who are you?", PERSON), "poem": poem("frogs")}
    if not is_modern(ctx):
        who, answer = await asyncio.gather(elicit(ctx, questions["who"]), sample(ctx, questions["poem"]))
    elif params.input_responses is None:
        return needs("both", **questions)
    else:
        who, answer = params.input_responses["who"], params.input_responses["poem"]
    return text(f"{filled_in(who)['name']} reads {written(answer)}")


# -- tools that change things --------------------------------------------------------------------


async def touch(ctx: Ctx, params: types.CallToolRequestParams, given: dict[str, Any]) -> Result:
    """Change the watched memo and tell those who watch it."""
    versions[WATCHED] += 1
    for session in list(subscribed.get(WATCHED, {}).values()):
        await session.send_resource_updated(WATCHED)
    await bus.publish(ResourceUpdated(uri=WATCHED))
    return text(f"version {versions[WATCHED]}")


async def grow(ctx: Ctx, params: types.CallToolRequestParams, given: dict[str, Any]) -> Result:
    """Add a tool, a prompt or a resource, and say that there is one."""
    kind, name = given["kind"], given["name"]
    write(kind, name)
    notifiers: dict[str, tuple[Callable[[], Awaitable[None]], ServerEvent]] = {
        "tool": (ctx.session.send_tool_list_changed, ToolsListChanged()),
        "prompt": (ctx.session.send_prompt_list_changed, PromptsListChanged()),
        "resource": (ctx.session.send_resource_list_changed, ResourcesListChanged()),
    }
    notify, event = notifiers[kind]
    await notify()
    await bus.publish(event)
    return text(name)


async def whose(ctx: Ctx, params: types.CallToolRequestParams, given: dict[str, Any]) -> Result:
    """What this workshop knows of who calls: the capabilities, and what else came along."""
    capabilities = ctx.session.client_capabilities
    known = capabilities.model_dump(by_alias=True, exclude_none=True) if capabilities is not None else None
    extra = {key: value for key, value in (ctx.meta or {}).items() if key.startswith("workshop/")}
    return structured({"capabilities": sorted(known or {}), "meta": extra})


def schema(**properties: Any) -> dict[str, Any]:
    kinds = {str: "string", int: "integer"}
    members = {name: {"type": kinds[kind]} for name, kind in properties.items()}
    return {"type": "object", "properties": members, "required": list(properties)}


SUM = {
    "type": "object",
    "properties": {"total": {"type": "integer"}, "terms": {"type": "array", "items": {"type": "integer"}}},
    "required": ["total", "terms"],
}
NUMBERS = {"type": "array", "items": {"type": "integer"}}
WRAPPED = {"type": "object", "properties": {"result": NUMBERS}, "required": ["result"]}
TOOLS: dict[str, tuple[Tool, dict[str, Any]]] = {
    "echo": (echo, schema(text=str)),
    "add": (add, schema(a=int, b=int)),
    "series": (series, schema(count=int)),
    "gallery": (gallery, schema()),
    "failing": (failing, schema()),
    "slow": (slow, schema(steps=int)),
    "chatty": (chatty, schema()),
    "wait": (wait, schema(token=str)),
    "interview": (interview, schema()),
    "haiku": (haiku, schema(topic=str)),
    "both": (both, schema()),
    "touch": (touch, schema()),
    "grow": (grow, schema(kind=str, name=str)),
    "whose": (whose, schema()),
}


async def list_tools(ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    """Three pages: half of the tools, the others, those that were added."""
    names = list(TOOLS)
    page = int((params.cursor if params is not None else None) or 0)
    listed = [names[:7], names[7:], added("tool")][page]
    tools = [describe(ctx, name) for name in listed]
    return types.ListToolsResult(tools=tools, next_cursor=str(page + 1) if page < 2 else None)


def describe(ctx: Ctx, name: str) -> types.Tool:
    more: dict[str, Any] = {}
    if name == "add":
        more["output_schema"] = SUM
    if name == "series":
        more["output_schema"] = NUMBERS if is_modern(ctx) else WRAPPED
    if name == "echo":
        more["annotations"] = types.ToolAnnotations(title="Echo", read_only_hint=True, open_world_hint=False)
        more["_meta"] = {"workshop/shelf": 3}
    given = TOOLS[name][1] if name in TOOLS else schema(who=str)
    return types.Tool(name=name, title=name.title(), description=f"The tool {name}.", input_schema=given, **more)


async def call_tool(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    given = params.arguments or {}
    write("called", f"{params.name} {json.dumps(given, sort_keys=True)}")
    if params.name in TOOLS:
        return await TOOLS[params.name][0](ctx, params, given)
    if params.name in added("tool"):
        return text(f"{params.name} greets {given['who']}")
    raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name}")


# -- resources, prompts, completion --------------------------------------------------------------


async def list_resources(ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    fixed = [
        types.Resource(uri=f"{ROOM}/static", name="static", title="A memo", mime_type="text/plain", size=11),
        types.Resource(uri=f"{ROOM}/bytes", name="bytes", mime_type="image/png"),
        types.Resource(uri=WATCHED, name="watched", mime_type="text/plain"),
    ]
    grown = [
        types.Resource(uri=f"{ROOM}/added/{name}", name=name, mime_type="text/plain") for name in added("resource")
    ]
    return types.ListResourcesResult(resources=fixed + grown)


async def list_templates(ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
    people = types.ResourceTemplate(uri_template=ROOM + "/people/{name}", name="person", mime_type="text/plain")
    return types.ListResourceTemplatesResult(resource_templates=[people])


async def read_resource(ctx: Ctx, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    found = {f"{ROOM}/static": "static text", WATCHED: f"version {versions[WATCHED]}"}.get(uri)
    if uri == f"{ROOM}/bytes":
        blob = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL)
        return types.ReadResourceResult(contents=[blob])
    for kind in ("people", "added"):
        if uri.startswith(f"{ROOM}/{kind}/"):
            found = f"about {uri.rpartition('/')[2]}"
    if found is None:
        code = types.INVALID_PARAMS if is_modern(ctx) else -32002
        raise MCPError(code, f"There is no resource {uri}", {"uri": uri})
    contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=found)
    return types.ReadResourceResult(contents=[contents])


async def subscribe(ctx: Ctx, params: types.SubscribeRequestParams) -> types.EmptyResult:
    write("subscribed", str(params.uri))
    subscribed.setdefault(str(params.uri), {})[session_id(ctx)] = ctx.session
    return types.EmptyResult()


async def unsubscribe(ctx: Ctx, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    write("unsubscribed", str(params.uri))
    subscribed.get(str(params.uri), {}).pop(session_id(ctx), None)
    return types.EmptyResult()


async def list_prompts(ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    arguments = [
        types.PromptArgument(name="name", description="Whom", required=True),
        types.PromptArgument(name="style", required=False),
    ]
    greeting = types.Prompt(name="greeting", title="Greeting", description="Greet someone.", arguments=arguments)
    return types.ListPromptsResult(prompts=[greeting, *(types.Prompt(name=name) for name in added("prompt"))])


async def get_prompt(ctx: Ctx, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    given = params.arguments or {}
    if params.name == "greeting":
        said = f"Greet {given['name']} in a {given.get('style', 'plain')} style"
    elif params.name in added("prompt"):
        said = f"This is {params.name}"
    else:
        raise MCPError(types.INVALID_PARAMS, f"There is no prompt {params.name}")
    picture = types.ImageContent(type="image", data=PIXEL, mime_type="image/png")
    return types.GetPromptResult(
        description=f"The prompt {params.name}",
        messages=[
            types.PromptMessage(role="user", content=types.TextContent(type="text", text=said)),
            types.PromptMessage(role="assistant", content=picture),
        ],
    )


async def complete(ctx: Ctx, params: types.CompleteRequestParams) -> types.CompleteResult:
    known = {"style": ["formal", "friendly", "plain"], "name": ["ada", "alan", "grace"]}[params.argument.name]
    values = [value for value in known if value.startswith(params.argument.value)]
    if params.context is not None and params.context.arguments:
        values = [f"{value} for {params.context.arguments['name']}" for value in values]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


async def set_level(ctx: Ctx, params: types.SetLevelRequestParams) -> types.EmptyResult:
    write("level", params.level)
    levels[session_id(ctx)] = params.level
    return types.EmptyResult()


server: Server[Any] = Server(
    "workshop",
    version="1.2.3",
    title="The workshop",
    instructions="Knock before you enter.",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscribe_resource=subscribe,
    on_unsubscribe_resource=unsubscribe,
    on_subscriptions_listen=ListenHandler(bus),
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
    on_set_logging_level=set_level,
)


async def on_stdio() -> None:
    changes = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options(changes))


def over_http() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    write("process", sys.argv[1])
    if sys.argv[1] == "stdio":
        asyncio.run(on_stdio())
    else:
        over_http()
