"""A result that does not match its type raises `InvalidResponse`, whatever it contains."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.harness import assert_no_leaks
from tests.client.scripted_server import ScriptedRequest, legacy_handler, scripted_server

from hubbub import Client, ServerConfig, ToolResult, TransportError
from hubbub.client import results

KINDS = [
    ToolResult,
    results.ToolsPage,
    results.ResourcesPage,
    results.TemplatesPage,
    results.PromptsPage,
    results.ResourceResult,
    results.PromptResult,
    results.CompletionResult,
]
FIELD_NAMES = st.sampled_from(
    ["content", "messages", "role", "type", "text", "tools", "prompts", "arguments", "name", "uri", "contents"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | FIELD_NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELD_NAMES, inner, max_size=4),
)


@pytest.mark.parametrize("kind", KINDS)
@given(value=JSON)
def test_any_json_gives_a_result_or_our_error(kind: type[Any], value: Any) -> None:
    raw = msgspec.Raw(msgspec.json.encode(value))
    with contextlib.suppress(TransportError):
        assert isinstance(results.decode_result(raw, kind), kind)


@pytest.mark.parametrize("messages", [["a text"], [None], [7], [[]], 7, "text"])
async def test_a_prompt_with_invalid_messages_is_an_invalid_response(messages: Any) -> None:
    async def special(request: ScriptedRequest) -> None:
        if request.rpc != "prompts/get":
            raise NotImplementedError
        await request.result({"messages": messages})

    async with assert_no_leaks(), scripted_server(legacy_handler(special)) as server:
        config = ServerConfig(id="h", transport="http", url=server.url, protocol_version="2025-11-25")
        async with Client(config) as client:
            with pytest.raises(TransportError, match="not a valid PromptResult") as raised:
                await client.get_prompt("p")
    assert raised.value.code == "INVALID_RESPONSE"
