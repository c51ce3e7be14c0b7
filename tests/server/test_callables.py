"""Handlers that are not plain functions, and those that are refused when they are registered."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from tests.server.raw_client import MODERN, PLAIN, connect_raw_client

from hubbub import Context, DefinitionError, Server, Tool


def convert(amount: float, rate: float, unit: str = "EUR") -> str:
    """Convert money.

    Args:
        amount: How much.
    """
    return f"{amount * rate} {unit}"


class Greeter:
    """Greets people."""

    def __init__(self, word: str) -> None:
        self.word = word

    async def __call__(self, name: str, context: Context) -> str:
        return f"{self.word} {name}, {context.caller.revision.era}"


async def test_bound_arguments_of_a_partial_cannot_be_set_by_callers() -> None:
    server = Server("s")
    server.tool(functools.partial(convert, rate=2.0))
    async with connect_raw_client(server, PLAIN) as client:
        (entry,) = (await client.result("tools/list"))["tools"]
        assert (entry["name"], entry["description"]) == ("convert", "Convert money.")
        assert list(entry["inputSchema"]["properties"]) == ["amount", "unit"]
        assert entry["inputSchema"]["properties"]["amount"]["description"] == "How much."
        assert await client.result("convert", {"amount": 3.0}) == "6.0 EUR"
        error = await client.error("convert", {"amount": 3.0, "rate": 9.0})
        assert error["message"] == "unknown argument `rate`; allowed arguments: amount, unit"


async def test_a_partial_with_positions_bound_is_a_tool() -> None:
    server = Server("s")
    server.tools.register(Tool(functools.partial(convert, 10.0), name="ten"))
    async with connect_raw_client(server, PLAIN) as client:
        assert await client.result("ten", {"rate": 2.0}) == "20.0 EUR"


async def test_a_callable_object_is_a_tool_with_the_name_of_its_class() -> None:
    server = Server("s")
    server.tool(Greeter("Hello"))
    async with connect_raw_client(server, MODERN) as client:
        (entry,) = (await client.result("tools/list"))["tools"]
        assert (entry["name"], entry["description"]) == ("Greeter", "Greets people.")
        result = await client.call("Greeter", {"name": "Ada"})
        assert result["content"][0]["text"] == "Hello Ada, modern"


class Shop:
    """Has tools that are methods."""

    async def price(self, item: str, count: int = 1) -> str:
        return f"{count} {item}"

    @classmethod
    async def tax(cls, item: str, rate: float) -> str:
        return f"{item} {rate}"


def log_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator whose wrapper takes the arguments only by name."""

    @functools.wraps(function)
    async def call(**arguments: Any) -> str:
        return f"{sorted(arguments)}: {await function(**arguments)}"

    return call


@log_call
async def logged(second: str, first: str) -> str:
    return f"{first} {second}"


async def by_name(second: str, *, first: str = "1") -> str:
    return f"{first} {second}"


async def in_order(second: str, first: str = "1", third: str = "3") -> str:
    return f"{first} {second} {third}"


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (Shop().price, {"item": "tea", "count": 2}, "2 tea"),
        (Shop().price, {"item": "tea"}, "1 tea"),
        (Shop.tax, {"rate": 0.5, "item": "tea"}, "tea 0.5"),
        (logged, {"first": "1", "second": "2"}, "['first', 'second']: 1 2"),
        (by_name, {"first": "0", "second": "2"}, "0 2"),
        (by_name, {"second": "2"}, "1 2"),
        (in_order, {"third": "9", "second": "2"}, "1 2 9"),
        (functools.partial(in_order, first="0"), {"second": "2"}, "0 2 3"),
        (functools.partial(in_order, "b"), {"third": "c"}, "1 b c"),
    ],
)
async def test_arguments_reach_their_parameters_however_a_function_takes_them(
    function: Callable[..., Any], arguments: dict[str, Any], expected: str
) -> None:
    server = Server("s")
    server.tools.register(Tool(function, name="called"))
    async with connect_raw_client(server, PLAIN) as client:
        assert await client.result("called", arguments) == expected
        error = await client.error("called", {**arguments, "unknown": 1})
        assert error["message"].startswith("unknown argument `unknown`")


async def test_partials_and_callable_objects_are_resources_and_prompts() -> None:
    class Write:
        def __call__(self, topic: str) -> str:
            """Write about something."""
            return f"Write about {topic}"

    def page(number: str, book: str) -> str:
        """A page of a book."""
        return f"{book}, page {number}"

    server = Server("s")
    server.prompt(Write())
    server.resource("book://{number}")(functools.partial(page, book="Emma"))
    async with connect_raw_client(server, PLAIN) as client:
        (template,) = (await client.result("resources/templates/list"))["resourceTemplates"]
        assert (template["name"], template["description"]) == ("page", "A page of a book.")
        read = await client.result("resources/read", {"uri": "book://7"})
        assert read["contents"][0]["text"] == "Emma, page 7"
        (prompt,) = (await client.result("prompts/list"))["prompts"]
        assert (prompt["name"], prompt["description"]) == ("Write", "Write about something.")
        got = await client.result("prompts/get", {"name": "Write", "arguments": {"topic": "tea"}})
        assert got["messages"][0]["content"]["text"] == "Write about tea"


async def test_a_failing_partial_fails_like_any_function(caplog: pytest.LogCaptureFixture) -> None:
    def breaks(why: str) -> str:
        raise RuntimeError(why)

    server = Server("s")
    server.tool(name="breaks")(functools.partial(breaks, why="broken"))
    async with connect_raw_client(server, PLAIN) as client:
        assert await client.error("breaks") == {"code": -32002, "message": "broken"}
    assert "breaks failed" in caplog.text


async def test_the_registry_takes_a_function_as_a_tool() -> None:
    server = Server("s")
    server.tools.register(convert)
    assert server.tools.names() == ["convert"]


def numbers() -> Iterator[int]:
    yield 1


async def more_numbers() -> AsyncIterator[int]:
    yield 1


class Numbers:
    def __call__(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize("function", [numbers, more_numbers, Numbers(), functools.partial(numbers)])
def test_generators_are_refused_when_they_are_registered(function: Callable[..., Any]) -> None:
    server = Server("s")
    registrations = (server.tool, server.tools.register, server.prompt, server.resource("numbers://all"))
    for register in registrations:
        with pytest.raises(DefinitionError, match="is a generator, and a handler returns one result; return a list"):
            register(function)


def test_an_object_that_is_not_callable_is_refused_with_advice() -> None:
    server = Server("s")
    with pytest.raises(DefinitionError, match="3 is not a function"):
        server.tools.register(3)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="put the decorator below `@classmethod`"):

        class Tools:
            @server.tool
            @classmethod
            def make(cls) -> str:
                return "made"


def test_a_completion_that_returns_no_list_is_refused() -> None:
    server = Server("s")
    with pytest.raises(DefinitionError, match="a function that returns a list of strings"):
        server.completion("prompt", "argument")(more_numbers)


def test_a_lifespan_that_is_not_a_context_manager_is_refused() -> None:
    with pytest.raises(DefinitionError, match="@asynccontextmanager"):
        Server("s", lifespan=more_numbers)  # type: ignore[arg-type]
