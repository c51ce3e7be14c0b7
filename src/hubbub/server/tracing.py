"""Traces: one OpenTelemetry span for each call, below the caller's span.

Names and attributes are those of the official SDKs: a span `tools/call echo` with
`mcp.method.name` and so on, its parent taken from `_meta.traceparent`. Payloads and
messages are not recorded. The app wraps a peer with `traced` only if `is_wanted`;
otherwise OpenTelemetry is never loaded and a call costs nothing.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import HubbubError, ToolFailure
from hubbub.ports import Peer
from hubbub.protocol.calls import Call, Meta, Notification, Reply
from hubbub.protocol.error_codes import error_object
from hubbub.protocol.results import ToolResult

_EXPORTER_VARIABLE: Final = "OTEL_TRACES_EXPORTER"
_ENDPOINT_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTER_GROUP: Final = "opentelemetry_traces_exporter"

logger = logging.getLogger("hubbub.tracing")


def is_wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether traces are collected: configured by `OTEL_*` variables, or by a provider already installed."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return _has_provider() or _exporter_name(environment) is not None


def _exporter_name(environment: Mapping[str, str]) -> str | None:
    name = environment.get(_EXPORTER_VARIABLE, "").split(",")[0].strip().lower()
    if name:
        return None if name == "none" else name
    return "otlp" if any(environment.get(variable) for variable in _ENDPOINT_VARIABLES) else None


def _has_provider() -> bool:
    """Whether the host program has installed an SDK. Imports nothing unless it is already loaded."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return False
    from opentelemetry import trace

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


def traced(peer: Peer, environment: Mapping[str, str] = os.environ) -> Peer:
    """Wrap a peer so that each call is a span, exported as the `OTEL_*` variables configure."""
    if not _has_provider():
        _install_exporter(_exporter_name(environment))
    return TracingPeer(peer)


def _install_exporter(name: str | None) -> None:
    """Install the SDK with the exporter of that name, found as OpenTelemetry itself finds it."""
    if name is None:
        return
    from importlib.metadata import entry_points

    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

        exporter: SpanExporter
        if name == "console":
            exporter = ConsoleSpanExporter(out=sys.stderr)  # stdout may belong to the protocol
        else:
            (found,) = entry_points(group=_EXPORTER_GROUP, name=name)
            exporter = found.load()()
    except (ImportError, ValueError) as error:
        logger.warning(
            "traces_not_exported: install opentelemetry-sdk and the exporter %r (opentelemetry-exporter-%s)",
            name, name, extra={"reason": str(error)},
        )  # fmt: skip
        return
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


class TracingPeer:
    """A peer that records each call to another peer as a span."""

    def __init__(self, peer: Peer, provider: Any = None) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._peer = peer
        self._trace = trace
        self._tracer = trace.get_tracer("hubbub", tracer_provider=provider)
        self._propagator = TraceContextTextMapPropagator()

    async def request(self, call: Call) -> Reply:
        """Pass the call on within a span."""
        name, attributes = _describe_span(call)
        with self._tracer.start_as_current_span(
            name,
            context=self._parent_context(call.meta),
            kind=self._trace.SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,  # messages may quote what callers sent
            set_status_on_exception=False,
        ) as span:
            try:
                reply = await self._peer.request(call)
            except ToolFailure as failure:
                self._mark_failed(span, failure.kind)
                raise
            except HubbubError as error:
                code = str(error_object(error, call.caller.revision, call.method).code)
                span.set_attribute("rpc.response.status_code", code)
                self._mark_failed(span, code)
                raise
            except BaseException as error:
                self._mark_failed(span, type(error).__qualname__)
                raise
            if isinstance(reply, ToolResult) and reply.is_error is True:
                self._mark_failed(span, ToolFailure.kind)
            return reply

    async def notify(self, note: Notification) -> None:
        """Pass a notification on, without a span."""
        await self._peer.notify(note)

    def _parent_context(self, meta: Meta) -> Any:
        """Return the caller's span, or None for the current one."""
        if meta.traceparent is UNSET:
            return None
        carrier = {"traceparent": meta.traceparent}
        if meta.tracestate is not UNSET:
            carrier["tracestate"] = meta.tracestate
        context = self._propagator.extract(carrier)
        is_valid = self._trace.get_current_span(context).get_span_context().is_valid
        return context if is_valid else None

    def _mark_failed(self, span: Any, kind: str) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(self._trace.StatusCode.ERROR)


def _describe_span(call: Call) -> tuple[str, dict[str, str]]:
    method = call.method[: bounds.NAME_CHARACTERS]  # sent by the caller, so it may be long
    attributes = {"mcp.method.name": method}
    if call.caller.revision.version:
        attributes["mcp.protocol.version"] = call.caller.revision.version
    target = getattr(call.params, "name", None)
    if call.method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
    if not isinstance(target, str):
        return method, attributes
    target = target[: bounds.NAME_CHARACTERS]
    if call.method == "tools/call":
        attributes["gen_ai.tool.name"] = target
    elif call.method == "prompts/get":
        attributes["gen_ai.prompt.name"] = target
    return f"{method} {target}", attributes
