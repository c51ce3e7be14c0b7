"""Resources, templates and providers; prompts and completion."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from tests.server.raw_client import DIALECTS, ERAS, MODERN, PLAIN, Message, RawClient, connect_raw_client

from hubbub import (
    Audio,
    Context,
    DefinitionError,
    Image,
    PromptMessage,
    ProvidedResource,
    ResourceContents,
    ResourceDetails,
    ResourceLink,
    Server,
    Text,
    bounds,
)

MISSING = {PLAIN: -32001, "2025-11-25": -32002, MODERN: -32602}


class Library:
    """A provider that has one text and one image, and raises for some URIs."""

    def list_resources(self) -> list[ResourceDetails]:
        return [ResourceDetails("lib:b", "B", None, "image/png"), ResourceDetails("lib:a", "A", "First", "text/plain")]

    async def get_resource(self, uri: str) -> ProvidedResource | None:
        if uri == "lib:broken":
            raise RuntimeError("shelf fell over")
        held: dict[str, str | bytes] = {"lib:a": "text of a", "lib:b": b"\x89PNG"}
        if uri not in held:
            return None
        return ProvidedResource(uri, "X", mime_type=None if uri == "lib:a" else "image/png", content=held[uri])


class LibraryServer(Server):
    asked: list[str]
    """URIs that were passed to `document`."""


def library_server() -> LibraryServer:
    server = LibraryServer("library")
    server.asked = []

    @server.resource("text:plain", description="Some text", mime_type="text/markdown", title="Text")
    async def plain() -> str:
        return "some text"

    @server.resource("text:sync")
    def synchronous() -> str:
        """Its own description."""
        return "from a thread"

    @server.resource("data:bytes")
    async def binary() -> bytes:
        return b"\x00\xff"

    @server.resource("data:json")
    async def data() -> dict[str, int]:
        return {"a": 1}

    @server.resource("data:several")
    async def several() -> list[ResourceContents]:
        return [ResourceContents("data:several#1", text="one"), ResourceContents("data:several#2", blob=b"two")]

    @server.resource("data:none")
    async def none() -> None:
        return None

    @server.resource("file:///docs/{name}")
    async def document(name: str) -> str | None:
        server.asked.append(name)
        return None if name == "absent" else f"document {name}"

    @server.resource("user:{id}/{+path}")
    async def user(id: str, path: str, ctx: Context) -> str:
        return f"{id} {path} {ctx.caller.principal.name}"

    server.add_resources(Library())
    return server


async def read(client: RawClient, uri: str) -> list[Message]:
    contents: list[Message] = (await client.result("resources/read", {"uri": uri}))["contents"]
    return contents


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_return_value_of_a_resource_function_becomes_contents(dialect: str) -> None:
    async with connect_raw_client(library_server(), dialect) as client:
        assert await read(client, "text:plain") == [
            {"uri": "text:plain", "mimeType": "text/markdown", "text": "some text"}
        ]
        assert (await read(client, "text:sync"))[0]["text"] == "from a thread"
        blob = base64.b64encode(b"\x00\xff").decode()
        assert await read(client, "data:bytes") == [
            {"uri": "data:bytes", "mimeType": "application/octet-stream", "blob": blob}
        ]
        assert await read(client, "data:json") == [
            {"uri": "data:json", "mimeType": "application/json", "text": '{"a":1}'}
        ]
        assert await read(client, "data:several") == [
            {"uri": "data:several#1", "text": "one"},
            {"uri": "data:several#2", "blob": base64.b64encode(b"two").decode()},
        ]


@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
@pytest.mark.parametrize(
    "uri", ["data:none", "no:such", "", "lib:c", "file:///docs/absent", "TEXT:PLAIN", "text:plain/"]
)
async def test_a_missing_resource_is_not_found(dialect: str, uri: str) -> None:
    async with connect_raw_client(library_server(), dialect) as client:
        error = await client.error("resources/read", {"uri": uri})
    assert (error["code"], error["data"]) == (MISSING[dialect], {"uri": uri})


async def test_a_provider_returns_text_and_bytes() -> None:
    async with connect_raw_client(library_server()) as client:
        assert await read(client, "lib:a") == [{"uri": "lib:a", "mimeType": "text/plain", "text": "text of a"}]
        picture = base64.b64encode(b"\x89PNG").decode()
        assert await read(client, "lib:b") == [{"uri": "lib:b", "mimeType": "image/png", "blob": picture}]
        assert (await client.error("resources/read", {"uri": "lib:broken"}))["code"] == -32603


async def test_resources_and_templates_are_listed_separately() -> None:
    async with connect_raw_client(library_server()) as client:
        listed = (await client.result("resources/list"))["resources"]
        templates = (await client.result("resources/templates/list"))["resourceTemplates"]
    assert [entry["uri"] for entry in listed] == [
        "text:plain", "text:sync", "data:bytes", "data:json", "data:several", "data:none", "lib:a", "lib:b",
    ]  # fmt: skip
    assert listed[1] == {"uri": "text:sync", "name": "synchronous", "description": "Its own description."}
    assert listed[6] == {"uri": "lib:a", "name": "A", "description": "First", "mimeType": "text/plain"}
    assert [entry["uriTemplate"] for entry in templates] == ["file:///docs/{name}", "user:{id}/{+path}"]


async def test_a_template_passes_its_variables_to_the_function() -> None:
    async with connect_raw_client(library_server()) as client:
        assert (await read(client, "file:///docs/report.md"))[0] == {
            "uri": "file:///docs/report.md",
            "mimeType": "text/plain",
            "text": "document report.md",
        }
        assert (await read(client, "file:///docs/caf%C3%A9"))[0]["text"] == "document café"
        assert (await read(client, "user:7/a/b"))[0]["text"] == "7 a/b anonymous"


@pytest.mark.parametrize(
    "uri",
    [
        "file:///docs/..",
        "file:///docs/.",
        "file:///docs/../secret",
        "file:///docs/..%2Fsecret",
        "file:///docs/%2e%2e%2fsecret",
        "file:///docs/%252e%252e%252fsecret",
        "file:///docs/..%5Csecret",
        "file:///docs/%2Fetc%2Fpasswd",
        "file:///docs/a%00b",
        "file:///docs/",
        "file:///docs/a/b",
        "user:7/../8/secret",
        "user:7/a/%2e%2e/%2e%2e/secret",
        "user:7//etc/passwd",
        "user:../x",
    ],
)
@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
async def test_path_traversal_in_a_template_variable_is_not_found(dialect: str, uri: str) -> None:
    server = library_server()
    async with connect_raw_client(server, dialect) as client:
        error = await client.error("resources/read", {"uri": uri})
    assert error["code"] == MISSING[dialect]
    assert server.asked == []


@pytest.mark.parametrize(
    ("uri", "function"),
    [
        ("a:{x}", lambda y: y),
        ("a:{x}", lambda: ""),
        ("a:b", lambda x: x),
    ],
)
def test_a_function_must_take_the_variables_of_its_template(uri: str, function: Callable[..., Any]) -> None:
    with pytest.raises(DefinitionError, match="must be the same"):
        Server("s").resource(uri)(function)


async def test_the_last_function_registered_for_a_uri_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "TOOLS", 1)
    server = Server("s")
    server.resource("a:b", name="first")(lambda: "first")
    server.resource("a:b", name="second")(lambda: "second")
    async with connect_raw_client(server) as client:
        assert [entry["name"] for entry in (await client.result("resources/list"))["resources"]] == ["second"]
        assert (await read(client, "a:b"))[0]["text"] == "second"
    with pytest.raises(DefinitionError, match="at most 1"):
        server.resource("c:d")(lambda: "")


# -- prompts -----------------------------------------------------------------------


KEPT = PromptMessage("assistant", Audio(b"sound"))


def prompting_server() -> Server:
    server = Server("prompting")

    @server.prompt(title="Review")
    async def review(code: str, style: str = "strict") -> str:
        """Review code.

        Args:
            code: What to review.
        """
        return f"{style}: {code}"

    @server.prompt
    def messages() -> list[object]:
        return ["one", Text("two"), PromptMessage("assistant", Image(b"picture"))]

    @server.prompt
    async def kept() -> PromptMessage:
        return KEPT

    @server.prompt
    async def linked() -> ResourceLink:
        return ResourceLink("a:b", "thing")

    @server.prompt
    async def wrong() -> int:
        return 5

    return server


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_return_value_of_a_prompt_becomes_messages(dialect: str) -> None:
    async with connect_raw_client(prompting_server(), dialect) as client:
        result = await client.result("prompts/get", {"name": "review", "arguments": {"code": "x = 1"}})
        assert result["description"] == "Review code."
        assert result["messages"] == [{"role": "user", "content": {"type": "text", "text": "strict: x = 1"}}]
        several = (await client.result("prompts/get", {"name": "messages"}))["messages"]
        assert [message["role"] for message in several] == ["user", "user", "assistant"]
        assert several[2]["content"]["data"] == base64.b64encode(b"picture").decode()


async def test_prompts_are_listed_with_their_arguments() -> None:
    async with connect_raw_client(prompting_server(), "2025-11-25") as client:
        first = (await client.result("prompts/list"))["prompts"][0]
    assert first == {
        "name": "review",
        "description": "Review code.",
        "arguments": [
            {"name": "code", "description": "What to review.", "required": True},
            {"name": "style", "required": False},
        ],
        "title": "Review",
    }


@pytest.mark.parametrize("arguments", [{}, {"style": "x"}, {"code": "x", "more": "y"}])
@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
async def test_wrong_arguments_of_a_prompt_are_invalid_params(dialect: str, arguments: dict[str, str]) -> None:
    async with connect_raw_client(prompting_server(), dialect) as client:
        error = await client.error("prompts/get", {"name": "review", "arguments": arguments})
    assert error["code"] == -32602
    assert "review" in error["message"]


async def test_prompt_content_is_converted_for_older_revisions() -> None:
    async with connect_raw_client(prompting_server(), "2024-11-05") as client:
        (audio,) = (await client.result("prompts/get", {"name": "kept"}))["messages"]
        assert audio["content"]["type"] == "resource"
        (link,) = (await client.result("prompts/get", {"name": "linked"}))["messages"]
        assert link["content"] == {"type": "text", "text": "thing: a:b"}
    async with connect_raw_client(prompting_server(), MODERN) as client:
        (audio,) = (await client.result("prompts/get", {"name": "kept"}))["messages"]
        assert audio["content"]["type"] == "audio", "a message that the function keeps must not change"
        (link,) = (await client.result("prompts/get", {"name": "linked"}))["messages"]
        assert link["content"]["type"] == "resource_link"


async def test_a_prompt_with_an_unsupported_return_value_names_the_supported_ones() -> None:
    async with connect_raw_client(prompting_server()) as client:
        error = await client.error("prompts/get", {"name": "wrong"})
    assert "must return text" in error["message"]


# -- completion ----------------------------------------------------------------------


def completing_server(count: int) -> Server:
    server = Server("completing")

    @server.completion("review", "style")
    async def style(value: str) -> list[str]:
        return [f"{value}{number}" for number in range(count)]

    @server.completion("file:///{folder}/{name}", "name")
    def name(value: str, others: dict[str, str]) -> list[str]:
        return [f"{others.get('folder', '?')}/{value}"]

    return server


def complete(kind: str, reference: str, argument: str, value: str = "", **more: object) -> Message:
    ref = {"type": f"ref/{kind}", ("name" if kind == "prompt" else "uri"): reference}
    return {"ref": ref, "argument": {"name": argument, "value": value}, **more}


@pytest.mark.parametrize(
    ("count", "shown", "has_more"), [(0, 0, False), (3, 3, False), (100, 100, False), (101, 100, True)]
)
@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
async def test_completion_returns_at_most_100_values_and_has_more(
    dialect: str, count: int, shown: int, has_more: bool
) -> None:
    async with connect_raw_client(completing_server(count), dialect) as client:
        result = await client.result("completion/complete", complete("prompt", "review", "style", "s"))
    completion = result["completion"]
    assert completion["values"] == [f"s{number}" for number in range(shown)]
    assert (completion["total"], completion["hasMore"]) == (count, has_more)


async def test_completion_receives_the_arguments_already_given() -> None:
    async with connect_raw_client(completing_server(1)) as client:
        params = complete("resource", "file:///{folder}/{name}", "name", "x", context={"arguments": {"folder": "docs"}})
        assert (await client.result("completion/complete", params))["completion"]["values"] == ["docs/x"]
        params = complete("resource", "file:///{folder}/{name}", "name", "x")
        assert (await client.result("completion/complete", params))["completion"]["values"] == ["?/x"]


@pytest.mark.parametrize(
    "params",
    [
        complete("prompt", "other", "style"),
        complete("prompt", "review", "other"),
        complete("resource", "file:///{other}", "name"),
    ],
)
async def test_completion_of_unknown_references_is_empty(params: dict[str, Any]) -> None:
    async with connect_raw_client(completing_server(1)) as client:
        result = await client.result("completion/complete", params)
    assert result["completion"] == {"values": [], "total": 0, "hasMore": False}
