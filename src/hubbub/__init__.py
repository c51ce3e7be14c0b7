"""Hubbub gives AI agents tools through the Model Context Protocol.

    from hubbub import Server

    server = Server("weather")

    @server.tool
    async def forecast(city: str, days: int = 3) -> Forecast: ...

The names listed here are the public ones. Each is loaded when it is first used, so
that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hubbub.agent.catalog import Catalog
    from hubbub.agent.chat import OpenAIChat
    from hubbub.agent.definition import Definition
    from hubbub.agent.executor_builder import ExecutorBuilder
    from hubbub.agent.options import LoopOptions
    from hubbub.agent.snapshot import Snapshot, ToolRegistryBuilder
    from hubbub.agent.tool_loop import ToolLoopRunner
    from hubbub.agent.tools_builder import ToolsBuilder
    from hubbub.app import run
    from hubbub.client.client import Client
    from hubbub.client.config import ServerConfig
    from hubbub.client.fleet import Fleet
    from hubbub.errors import (
        ContinuationRefused,
        DefinitionError,
        HubbubError,
        MissingCapability,
        ModelError,
        SettingsError,
        ToolError,
        ToolUseError,
    )
    from hubbub.protocol.content import (
        Annotations,
        Audio,
        EmbeddedResource,
        Image,
        ResourceContents,
        ResourceLink,
        Text,
    )
    from hubbub.protocol.wire import Icon, PromptMessage, ToolAnnotations
    from hubbub.security.policy import Allow, Confirm, Deny, Question
    from hubbub.server.asking import Ask
    from hubbub.server.context import Context, Elicited, SamplingMessage
    from hubbub.server.pack import Check, Health, Pack
    from hubbub.server.resources import ProvidedResource, ResourceDetails, ResourceProvider
    from hubbub.server.server import CacheHint, Server
    from hubbub.server.tools import Tool
    from hubbub.server.views import View
    from hubbub.settings import Secret, setting

__version__ = "0.1.0"

__all__ = [
    "Allow",
    "Annotations",
    "Ask",
    "Audio",
    "CacheHint",
    "Catalog",
    "Check",
    "Client",
    "Confirm",
    "Context",
    "ContinuationRefused",
    "Definition",
    "DefinitionError",
    "Deny",
    "Elicited",
    "EmbeddedResource",
    "ExecutorBuilder",
    "Fleet",
    "Health",
    "HubbubError",
    "Icon",
    "Image",
    "LoopOptions",
    "MissingCapability",
    "ModelError",
    "OpenAIChat",
    "Pack",
    "PromptMessage",
    "ProvidedResource",
    "Question",
    "ResourceContents",
    "ResourceDetails",
    "ResourceLink",
    "ResourceProvider",
    "SamplingMessage",
    "Secret",
    "Server",
    "ServerConfig",
    "SettingsError",
    "Snapshot",
    "Text",
    "Tool",
    "ToolAnnotations",
    "ToolError",
    "ToolLoopRunner",
    "ToolRegistryBuilder",
    "ToolUseError",
    "ToolsBuilder",
    "View",
    "__version__",
    "run",
    "setting",
]

_HOMES = {
    "hubbub.agent.catalog": ("Catalog",),
    "hubbub.agent.chat": ("OpenAIChat",),
    "hubbub.agent.definition": ("Definition",),
    "hubbub.agent.executor_builder": ("ExecutorBuilder",),
    "hubbub.agent.options": ("LoopOptions",),
    "hubbub.agent.snapshot": ("Snapshot", "ToolRegistryBuilder"),
    "hubbub.agent.tool_loop": ("ToolLoopRunner",),
    "hubbub.agent.tools_builder": ("ToolsBuilder",),
    "hubbub.app": ("run",),
    "hubbub.client.client": ("Client",),
    "hubbub.client.config": ("ServerConfig",),
    "hubbub.client.fleet": ("Fleet",),
    "hubbub.errors": (
        "ContinuationRefused",
        "DefinitionError",
        "HubbubError",
        "MissingCapability",
        "ModelError",
        "SettingsError",
        "ToolError",
        "ToolUseError",
    ),
    "hubbub.protocol.content": (
        "Annotations",
        "Audio",
        "EmbeddedResource",
        "Image",
        "ResourceContents",
        "ResourceLink",
        "Text",
    ),
    "hubbub.protocol.wire": ("Icon", "PromptMessage", "ToolAnnotations"),
    "hubbub.security.policy": ("Allow", "Confirm", "Deny", "Question"),
    "hubbub.server.asking": ("Ask",),
    "hubbub.server.context": ("Context", "Elicited", "SamplingMessage"),
    "hubbub.server.pack": ("Check", "Health", "Pack"),
    "hubbub.server.resources": ("ProvidedResource", "ResourceDetails", "ResourceProvider"),
    "hubbub.server.server": ("CacheHint", "Server"),
    "hubbub.server.tools": ("Tool",),
    "hubbub.server.views": ("View",),
    "hubbub.settings": ("Secret", "setting"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module 'hubbub' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
