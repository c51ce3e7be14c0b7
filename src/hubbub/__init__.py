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
    from hubbub.agent.chat import OpenAIChat
    from hubbub.agent.definition import Definition, ToolOrigin
    from hubbub.agent.envelope import ToolEnvelope, ToolProblem, ToolWarning
    from hubbub.agent.errors import (
        ContinuationRefused,
        MaxTurnsExceeded,
        ModelError,
        ModelHttpError,
        ModelInvalidRequest,
        ModelInvalidResponse,
        ModelResponseTooLarge,
        ModelTimeout,
        ModelUnreachable,
        NoToolCalls,
        PolicyFailed,
        ToolCallsFailed,
        ToolUseError,
    )
    from hubbub.agent.events import RunEvent
    from hubbub.agent.executor import Executor, RoutingExecutor
    from hubbub.agent.executor_builder import ExecutorBuilder
    from hubbub.agent.model import Model, ModelRequest, ModelResponse, ModelToolCall
    from hubbub.agent.options import LoopOptions
    from hubbub.agent.registry import Registry
    from hubbub.agent.run_state import CallTrace, PendingCall, RunResult, TurnTrace
    from hubbub.agent.snapshot import Snapshot, ToolClient, ToolRegistryBuilder
    from hubbub.agent.tool_loop import ToolLoopRunner
    from hubbub.agent.tools_builder import ToolsBuilder
    from hubbub.app import run
    from hubbub.client.client import Client
    from hubbub.client.config import (
        DEFAULT_PROTOCOL_VERSION,
        DEFAULT_TIMEOUT_S,
        SUPPORTED_PROTOCOL_VERSIONS,
        ServerConfig,
    )
    from hubbub.client.fleet import Fleet
    from hubbub.client.handlers import (
        ElicitationAnswer,
        ElicitationRequest,
        SamplingAnswer,
        SamplingRequest,
    )
    from hubbub.client.known_eras import KnownEras
    from hubbub.client.mcp_json import read_mcp_json
    from hubbub.client.results import (
        Block,
        CompletionResult,
        PromptResult,
        PromptsPage,
        ResourceResult,
        ResourcesPage,
        ServerInfo,
        TemplatesPage,
        ToolsPage,
    )
    from hubbub.client.subscriptions import ChangeEvent, ListenStream
    from hubbub.errors import (
        ArgumentsInvalid,
        AuditUnavailable,
        ConnectionClosed,
        ConnectionFailed,
        DeadlineExceeded,
        DefinitionError,
        EgressRefused,
        EventTooLarge,
        HeaderMismatch,
        HttpError,
        HubbubDeprecationWarning,
        HubbubError,
        InputRefused,
        InsufficientScope,
        InvalidEvent,
        InvalidParams,
        InvalidRequest,
        InvalidResponse,
        MessageError,
        MessageTooLarge,
        MethodNotAllowed,
        MethodNotFound,
        MissingCapability,
        NotFound,
        Overloaded,
        ParseError,
        PromptNotFound,
        ProtocolVersionNotSupported,
        QuotaExceeded,
        RateLimited,
        ReconnectsExceeded,
        RemoteError,
        RequestError,
        ResourceExpired,
        ResourceNotFound,
        ResponseTooLarge,
        SecretDenied,
        SecretUnavailable,
        SessionLost,
        SessionNotFound,
        SessionRequired,
        SettingsError,
        StoreConflict,
        StoreFailed,
        ToolError,
        ToolFailure,
        ToolNotFound,
        TooManyCalls,
        TransportClosed,
        TransportError,
        UnsupportedVersion,
        UpstreamUnavailable,
        UrlElicitationRequired,
    )
    from hubbub.hub.config import UpstreamConfig
    from hubbub.hub.hub import Hub
    from hubbub.oauth.client.browser_login import BrowserLogin
    from hubbub.oauth.client.credential_store import FileCredentialStore
    from hubbub.oauth.client.credentials import (
        ClientRegistration,
        CredentialKey,
        Credentials,
        CredentialStore,
        MemoryCredentialStore,
    )
    from hubbub.oauth.client.redirects import RedirectHandler, RedirectReceiver
    from hubbub.oauth.client.settings import IdentityProvider, IssuerQuirks, OAuth
    from hubbub.oauth.errors import (
        AuthorizationFailed,
        LoginRequired,
        MetadataError,
        OAuthError,
        TokenRequestRefused,
    )
    from hubbub.ports import Authorizer, InMemoryServer, Peer, RefusedRequest, ReturnPath, Sealer
    from hubbub.protocol.calls import Call, Caller, Implementation, Meta, Notification, Principal, RawReply, Reply
    from hubbub.protocol.content import (
        Annotations,
        Audio,
        Content,
        EmbeddedResource,
        Image,
        ResourceContents,
        ResourceLink,
        Text,
    )
    from hubbub.protocol.results import (
        Completion,
        Icon,
        LogMessage,
        ProgressParams,
        PromptArgument,
        PromptEntry,
        PromptMessage,
        ResourceEntry,
        Root,
        TemplateEntry,
        ToolAnnotations,
        ToolEntry,
        ToolResult,
    )
    from hubbub.protocol.revisions import Revision
    from hubbub.security.policy import Allow, Confirm, Deny, PolicyRequest
    from hubbub.server.asgi import AsgiApp, AsgiOptions
    from hubbub.server.context import Context, ElicitationResult, LogLevel, SamplingMessage, SamplingResult
    from hubbub.server.declared_inputs import Ask
    from hubbub.server.events import Events, ToolChange, ToolChangeMetadata
    from hubbub.server.methods import CacheHint
    from hubbub.server.middleware import CallNext, Middleware
    from hubbub.server.pack import Check, Health, Pack, Preset, Standalone
    from hubbub.server.registry import ToolRegistry
    from hubbub.server.resources import ProvidedResource, ResourceDetails, ResourceProvider
    from hubbub.server.server import Server
    from hubbub.server.tools import Tool, ToolErrors
    from hubbub.server.views import View
    from hubbub.settings import Secret, setting
    from hubbub.settings.hub import HubSettings, ViewSettings
    from hubbub.settings.servers import ToolSettings

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_PROTOCOL_VERSION",
    "DEFAULT_TIMEOUT_S",
    "SUPPORTED_PROTOCOL_VERSIONS",
    "Allow",
    "Annotations",
    "ArgumentsInvalid",
    "AsgiApp",
    "AsgiOptions",
    "Ask",
    "Audio",
    "AuditUnavailable",
    "AuthorizationFailed",
    "Authorizer",
    "Block",
    "BrowserLogin",
    "CacheHint",
    "Call",
    "CallNext",
    "CallTrace",
    "Caller",
    "ChangeEvent",
    "Check",
    "Client",
    "ClientRegistration",
    "Completion",
    "CompletionResult",
    "Confirm",
    "ConnectionClosed",
    "ConnectionFailed",
    "Content",
    "Context",
    "ContinuationRefused",
    "CredentialKey",
    "CredentialStore",
    "Credentials",
    "DeadlineExceeded",
    "Definition",
    "DefinitionError",
    "Deny",
    "EgressRefused",
    "ElicitationAnswer",
    "ElicitationRequest",
    "ElicitationResult",
    "EmbeddedResource",
    "EventTooLarge",
    "Events",
    "Executor",
    "ExecutorBuilder",
    "FileCredentialStore",
    "Fleet",
    "HeaderMismatch",
    "Health",
    "HttpError",
    "Hub",
    "HubSettings",
    "HubbubDeprecationWarning",
    "HubbubError",
    "Icon",
    "IdentityProvider",
    "Image",
    "Implementation",
    "InMemoryServer",
    "InputRefused",
    "InsufficientScope",
    "InvalidEvent",
    "InvalidParams",
    "InvalidRequest",
    "InvalidResponse",
    "IssuerQuirks",
    "KnownEras",
    "ListenStream",
    "LogLevel",
    "LogMessage",
    "LoginRequired",
    "LoopOptions",
    "MaxTurnsExceeded",
    "MemoryCredentialStore",
    "MessageError",
    "MessageTooLarge",
    "Meta",
    "MetadataError",
    "MethodNotAllowed",
    "MethodNotFound",
    "Middleware",
    "MissingCapability",
    "Model",
    "ModelError",
    "ModelHttpError",
    "ModelInvalidRequest",
    "ModelInvalidResponse",
    "ModelRequest",
    "ModelResponse",
    "ModelResponseTooLarge",
    "ModelTimeout",
    "ModelToolCall",
    "ModelUnreachable",
    "NoToolCalls",
    "NotFound",
    "Notification",
    "OAuth",
    "OAuthError",
    "OpenAIChat",
    "Overloaded",
    "Pack",
    "ParseError",
    "Peer",
    "PendingCall",
    "PolicyFailed",
    "PolicyRequest",
    "Preset",
    "Principal",
    "ProgressParams",
    "PromptArgument",
    "PromptEntry",
    "PromptMessage",
    "PromptNotFound",
    "PromptResult",
    "PromptsPage",
    "ProtocolVersionNotSupported",
    "ProvidedResource",
    "QuotaExceeded",
    "RateLimited",
    "RawReply",
    "ReconnectsExceeded",
    "RedirectHandler",
    "RedirectReceiver",
    "RefusedRequest",
    "Registry",
    "RemoteError",
    "Reply",
    "RequestError",
    "ResourceContents",
    "ResourceDetails",
    "ResourceEntry",
    "ResourceExpired",
    "ResourceLink",
    "ResourceNotFound",
    "ResourceProvider",
    "ResourceResult",
    "ResourcesPage",
    "ResponseTooLarge",
    "ReturnPath",
    "Revision",
    "Root",
    "RoutingExecutor",
    "RunEvent",
    "RunResult",
    "SamplingAnswer",
    "SamplingMessage",
    "SamplingRequest",
    "SamplingResult",
    "Sealer",
    "Secret",
    "SecretDenied",
    "SecretUnavailable",
    "Server",
    "ServerConfig",
    "ServerInfo",
    "SessionLost",
    "SessionNotFound",
    "SessionRequired",
    "SettingsError",
    "Snapshot",
    "Standalone",
    "StoreConflict",
    "StoreFailed",
    "TemplateEntry",
    "TemplatesPage",
    "Text",
    "TokenRequestRefused",
    "TooManyCalls",
    "Tool",
    "ToolAnnotations",
    "ToolCallsFailed",
    "ToolChange",
    "ToolChangeMetadata",
    "ToolClient",
    "ToolEntry",
    "ToolEnvelope",
    "ToolError",
    "ToolErrors",
    "ToolFailure",
    "ToolLoopRunner",
    "ToolNotFound",
    "ToolOrigin",
    "ToolProblem",
    "ToolRegistry",
    "ToolRegistryBuilder",
    "ToolResult",
    "ToolSettings",
    "ToolUseError",
    "ToolWarning",
    "ToolsBuilder",
    "ToolsPage",
    "TransportClosed",
    "TransportError",
    "TurnTrace",
    "UnsupportedVersion",
    "UpstreamConfig",
    "UpstreamUnavailable",
    "UrlElicitationRequired",
    "View",
    "ViewSettings",
    "__version__",
    "read_mcp_json",
    "run",
    "setting",
]

_MODULES = {
    "hubbub.agent.registry": "Registry",
    "hubbub.agent.chat": "OpenAIChat",
    "hubbub.agent.definition": "Definition ToolOrigin",
    "hubbub.agent.envelope": "ToolEnvelope ToolProblem ToolWarning",
    "hubbub.agent.errors": (
        "ContinuationRefused MaxTurnsExceeded ModelError ModelHttpError ModelInvalidRequest ModelInvalidResponse "
        "ModelResponseTooLarge ModelTimeout ModelUnreachable NoToolCalls PolicyFailed ToolCallsFailed ToolUseError"
    ),
    "hubbub.agent.events": "RunEvent",
    "hubbub.agent.executor": "Executor RoutingExecutor",
    "hubbub.agent.executor_builder": "ExecutorBuilder",
    "hubbub.agent.model": "Model ModelResponse ModelRequest ModelToolCall",
    "hubbub.agent.options": "LoopOptions",
    "hubbub.agent.run_state": "CallTrace PendingCall RunResult TurnTrace",
    "hubbub.agent.snapshot": "Snapshot ToolClient ToolRegistryBuilder",
    "hubbub.agent.tool_loop": "ToolLoopRunner",
    "hubbub.agent.tools_builder": "ToolsBuilder",
    "hubbub.app": "run",
    "hubbub.client.client": "Client",
    "hubbub.client.config": "DEFAULT_PROTOCOL_VERSION DEFAULT_TIMEOUT_S SUPPORTED_PROTOCOL_VERSIONS ServerConfig",
    "hubbub.client.fleet": "Fleet",
    "hubbub.client.handlers": "ElicitationAnswer ElicitationRequest SamplingAnswer SamplingRequest",
    "hubbub.client.known_eras": "KnownEras",
    "hubbub.client.mcp_json": "read_mcp_json",
    "hubbub.client.results": (
        "Block CompletionResult PromptResult PromptsPage ResourceResult ResourcesPage ServerInfo TemplatesPage "
        "ToolsPage"
    ),
    "hubbub.client.subscriptions": "ChangeEvent ListenStream",
    "hubbub.errors": (
        "ArgumentsInvalid AuditUnavailable ConnectionClosed ConnectionFailed DeadlineExceeded DefinitionError "
        "EgressRefused EventTooLarge HeaderMismatch HttpError HubbubDeprecationWarning HubbubError InputRefused "
        "InsufficientScope InvalidEvent InvalidParams InvalidRequest InvalidResponse MessageError MessageTooLarge "
        "MethodNotAllowed MethodNotFound MissingCapability NotFound Overloaded ParseError PromptNotFound "
        "ProtocolVersionNotSupported QuotaExceeded RateLimited ReconnectsExceeded RemoteError RequestError "
        "ResourceExpired ResourceNotFound ResponseTooLarge SecretDenied SecretUnavailable SessionLost SessionNotFound "
        "SessionRequired SettingsError StoreConflict StoreFailed TooManyCalls ToolError ToolFailure ToolNotFound "
        "TransportClosed TransportError UnsupportedVersion UpstreamUnavailable UrlElicitationRequired"
    ),
    "hubbub.hub.config": "UpstreamConfig",
    "hubbub.hub.hub": "Hub",
    "hubbub.oauth.client.browser_login": "BrowserLogin",
    "hubbub.oauth.client.credential_store": "FileCredentialStore",
    "hubbub.oauth.client.credentials": (
        "ClientRegistration CredentialKey CredentialStore Credentials MemoryCredentialStore"
    ),
    "hubbub.oauth.client.redirects": "RedirectHandler RedirectReceiver",
    "hubbub.oauth.client.settings": "IdentityProvider IssuerQuirks OAuth",
    "hubbub.oauth.errors": "AuthorizationFailed LoginRequired MetadataError OAuthError TokenRequestRefused",
    "hubbub.ports": "Authorizer InMemoryServer Peer RefusedRequest ReturnPath Sealer",
    "hubbub.protocol.content": "Annotations Audio Content EmbeddedResource Image ResourceContents ResourceLink Text",
    "hubbub.protocol.calls": "Call Caller Implementation Meta Notification Principal RawReply Reply",
    "hubbub.protocol.revisions": "Revision",
    "hubbub.protocol.results": (
        "Completion Icon LogMessage ProgressParams PromptArgument PromptEntry PromptMessage ResourceEntry Root "
        "TemplateEntry ToolAnnotations ToolEntry ToolResult"
    ),
    "hubbub.security.policy": "Allow Confirm Deny PolicyRequest",
    "hubbub.server.asgi": "AsgiApp AsgiOptions",
    "hubbub.server.declared_inputs": "Ask",
    "hubbub.server.context": "Context ElicitationResult LogLevel SamplingMessage SamplingResult",
    "hubbub.server.events": "Events ToolChange ToolChangeMetadata",
    "hubbub.server.middleware": "CallNext Middleware",
    "hubbub.server.pack": "Check Health Pack Preset Standalone",
    "hubbub.server.registry": "ToolRegistry",
    "hubbub.server.resources": "ProvidedResource ResourceDetails ResourceProvider",
    "hubbub.server.methods": "CacheHint",
    "hubbub.server.server": "Server",
    "hubbub.server.tools": "Tool ToolErrors",
    "hubbub.server.views": "View",
    "hubbub.settings": "Secret setting",
    "hubbub.settings.hub": "HubSettings ViewSettings",
    "hubbub.settings.servers": "ToolSettings",
}
"""The module of each public name."""


def __getattr__(name: str) -> Any:
    for home, names in _MODULES.items():
        if name in names.split():
            value = globals()[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module 'hubbub' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
