"""Results and list entries as they go on the wire, newest revision first.

Older revisions get the same structs with fewer fields; `shape` removes the others.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub.protocol.calls import Implementation, RawReply, Reply
from hubbub.protocol.content import Annotations, Content, ResourceContents, Text


class Icon(msgspec.Struct, rename="camel"):
    """A picture a client may show beside a name."""

    src: str
    mime_type: str | UnsetType = UNSET
    sizes: list[str] | UnsetType = UNSET


class ToolAnnotations(msgspec.Struct, frozen=True, rename="camel"):
    """Hints on what a tool does; a client must not trust them from untrusted servers."""

    title: str | UnsetType = UNSET
    read_only_hint: bool | UnsetType = UNSET
    destructive_hint: bool | UnsetType = UNSET
    idempotent_hint: bool | UnsetType = UNSET
    open_world_hint: bool | UnsetType = UNSET


class ToolEntry(msgspec.Struct, rename="camel"):
    """One tool in `tools/list`. The first three fields are in the order of contract 001."""

    name: str
    description: str | UnsetType = UNSET
    input_schema: Any = UNSET
    title: str | UnsetType = UNSET
    output_schema: Any = UNSET
    annotations: ToolAnnotations | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


class ResourceEntry(msgspec.Struct, rename="camel"):
    """One resource in `resources/list`."""

    uri: str
    name: str
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    size: int | UnsetType = UNSET
    annotations: Annotations | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


class TemplateEntry(msgspec.Struct, rename="camel"):
    """One template in `resources/templates/list`."""

    uri_template: str
    name: str
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    annotations: Annotations | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


class PromptArgument(msgspec.Struct):
    """One argument of a prompt."""

    name: str
    description: str | UnsetType = UNSET
    required: bool | UnsetType = UNSET
    title: str | UnsetType = UNSET


class PromptEntry(msgspec.Struct):
    """One prompt in `prompts/list`."""

    name: str
    description: str | UnsetType = UNSET
    arguments: list[PromptArgument] | UnsetType = UNSET
    title: str | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


class EmptyReply(Reply):
    """`{}`"""


class InitializeReply(Reply):
    """`initialize`"""

    protocol_version: str
    capabilities: dict[str, Any]
    server_info: Implementation
    instructions: str | UnsetType = UNSET


class DiscoverReply(Reply):
    """`server/discover`"""

    supported_versions: list[str]
    capabilities: dict[str, Any]
    instructions: str | UnsetType = UNSET


class ToolsReply(Reply):
    """`tools/list`"""

    tools: list[ToolEntry]
    next_cursor: str | UnsetType = UNSET


class ResourcesReply(Reply):
    """`resources/list`"""

    resources: list[ResourceEntry]
    next_cursor: str | UnsetType = UNSET


class TemplatesReply(Reply):
    """`resources/templates/list`"""

    resource_templates: list[TemplateEntry]
    next_cursor: str | UnsetType = UNSET


class PromptsReply(Reply):
    """`prompts/list`"""

    prompts: list[PromptEntry]
    next_cursor: str | UnsetType = UNSET


class ReadReply(Reply):
    """`resources/read`"""

    contents: list[ResourceContents]


class PromptMessage(msgspec.Struct):
    """One message of a prompt."""

    role: str
    content: Content


class PromptReply(Reply):
    """`prompts/get`"""

    messages: list[PromptMessage]
    description: str | UnsetType = UNSET


class Completion(msgspec.Struct, rename="camel"):
    """Suggested values for an argument."""

    values: list[str]
    total: int | UnsetType = UNSET
    has_more: bool | UnsetType = UNSET


class CompleteReply(Reply):
    """`completion/complete`"""

    completion: Completion


class DecodedResult(msgspec.Struct, dict=True):
    """A result that keeps the JSON it was decoded from."""

    @property
    def raw(self) -> Raw:
        """The JSON that the server sent; for a result made here, its encoding."""
        raw: Raw | None = self.__dict__.get("raw")
        return Raw(msgspec.json.encode(self)) if raw is None else raw


class ToolResult(Reply, DecodedResult):
    """The result of `tools/call`: `Client.call_tool` returns it, and a tool may return one.

    A tool that returns one sends content and structured data together. `content` may be left out when
    `structured_content` is the whole result: it is then written for the caller's revision. In an answer of
    another server, `content` may hold a `Block` beside the usual kinds.
    """

    content: list[Content] | UnsetType = UNSET
    structured_content: Any = UNSET
    is_error: bool | UnsetType = UNSET
    wraps: ClassVar[bool] = False
    """Whether structured content is wrapped in an object for revisions that allow only objects, even if it is one."""

    @property
    def text(self) -> str:
        """The text of all text blocks, joined with newlines."""
        return "\n".join(block.text for block in self.content or () if isinstance(block, Text))


class UnionToolResult(ToolResult):
    """The result of a tool whose output schema allows other values than objects."""

    wraps: ClassVar[bool] = True


class InputRequired(Reply):
    """Input requests to answer before a modern request can continue."""

    input_requests: dict[str, Any]
    request_state: str | UnsetType = UNSET


class Root(msgspec.Struct):
    """A folder or file that a client allows a server to read."""

    uri: str
    name: str | UnsetType = UNSET


class ProgressParams(msgspec.Struct, rename="camel"):
    """`notifications/progress`"""

    progress_token: Raw
    progress: float
    total: float | UnsetType = UNSET
    message: str | UnsetType = UNSET


class LogMessage(msgspec.Struct, rename="camel"):
    """`notifications/message`"""

    level: str
    data: Any
    logger: str | UnsetType = UNSET


class UpdatedParams(msgspec.Struct):
    """`notifications/resources/updated`"""

    uri: str


class _FailureFlag(msgspec.Struct):
    is_error: bool = msgspec.field(default=False, name="isError")


_decode_failure_flag = msgspec.json.Decoder(_FailureFlag).decode


def is_failed_tool(reply: Reply) -> bool:
    """Whether a reply is the result of a tool that failed, here or behind a hub."""
    if isinstance(reply, ToolResult):
        return reply.is_error is True
    if not isinstance(reply, RawReply) or bytes(reply.body).find(b'"isError"') < 0:
        return False
    try:
        return _decode_failure_flag(reply.body).is_error
    except msgspec.DecodeError:
        return False
