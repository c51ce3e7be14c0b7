"""Results and list entries as they go on the wire, newest revision first.

Older revisions get the same structs with fewer fields; `shape` takes them away.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub.protocol.content import Annotations, Content, ResourceContents
from hubbub.protocol.model import Implementation, Reply


class Icon(msgspec.Struct, rename="camel"):
    """A picture a client may show beside a name."""

    src: str
    mime_type: str | UnsetType = UNSET
    sizes: list[str] | UnsetType = UNSET


class ToolAnnotations(msgspec.Struct, frozen=True, rename="camel"):
    """Hints on what a tool does; a client must not trust them from strangers."""

    title: str | UnsetType = UNSET
    read_only_hint: bool | UnsetType = UNSET
    destructive_hint: bool | UnsetType = UNSET
    idempotent_hint: bool | UnsetType = UNSET
    open_world_hint: bool | UnsetType = UNSET


class ToolEntry(msgspec.Struct, rename="camel"):
    """One tool in `tools/list`. The first three fields stand in the order of contract 001."""

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


class ToolReply(Reply):
    """`tools/call`.

    `content` may be left out when `structured` is the whole result: its text form
    differs between dialects, so `shape` writes it.
    """

    content: list[Content] | UnsetType = UNSET
    structured_content: Any = UNSET
    is_error: bool | UnsetType = UNSET


class InputRequired(Reply):
    """Questions to answer before a modern request can go on."""

    input_requests: dict[str, Any]
    request_state: str | UnsetType = UNSET


class ProgressParams(msgspec.Struct, rename="camel"):
    """`notifications/progress`"""

    progress_token: Raw
    progress: float
    total: float | UnsetType = UNSET
    message: str | UnsetType = UNSET


class MessageParams(msgspec.Struct, rename="camel"):
    """`notifications/message`"""

    level: str
    data: Any
    logger: str | UnsetType = UNSET


class UpdatedParams(msgspec.Struct):
    """`notifications/resources/updated`"""

    uri: str
