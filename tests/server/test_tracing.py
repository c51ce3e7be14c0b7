import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, Never

import pytest
from msgspec import Raw
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from hubbub import Call, Caller, MethodNotFound, Notification, Peer, Reply, Revision, Server, ToolError
from hubbub.protocol.params import decode_params
from hubbub.protocol.revisions import PLAIN, R2025_11_25, R2026_07_28
from hubbub.server.tracing import TracingPeer, is_wanted

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

server = Server("traced")
provider = TracerProvider()
inner = trace.get_tracer("inner", tracer_provider=provider)


@server.tool
def echo(text: str) -> str:
    """Echo."""
    with inner.start_as_current_span("inside"):
        return text


@server.tool
def fail() -> str:
    """Fail."""
    raise ToolError("secret message")


@server.prompt
def greet() -> str:
    """Greet."""
    return "hello"


Spans = Callable[[], tuple[ReadableSpan, ...]]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.fixture
def spans() -> Iterator[Spans]:
    exporter = InMemorySpanExporter()
    processor = SimpleSpanProcessor(exporter)
    provider.add_span_processor(processor)
    yield exporter.get_finished_spans
    processor.shutdown()


def send(method: str, params: bytes = b"{}", revision: Revision = R2025_11_25, peer: Peer = server) -> Reply:
    async def main() -> Reply:
        decoded, meta = decode_params(method, Raw(params))
        call = Call(
            id=Raw(b"1"), method=method, raw=Raw(params), params=decoded, meta=meta,
            caller=Caller(revision=revision), back=None,  # type: ignore[arg-type]
        )  # fmt: skip
        async with server.running():
            return await TracingPeer(peer, provider).request(call)

    return asyncio.run(main())


def test_a_tool_call_is_a_span_with_the_attributes_of_the_mcp_conventions(spans: Spans) -> None:
    send("tools/call", b'{"name": "echo", "arguments": {"text": "private"}}')
    inside, span = spans()
    assert span.name == "tools/call echo"
    assert span.kind is SpanKind.SERVER
    assert attributes(span) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-11-25",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "echo",
    }
    assert span.parent is None
    assert span.status.status_code is StatusCode.UNSET
    assert inside.parent is not None
    assert inside.parent.span_id == span.context.span_id
    assert "private" not in span.to_json()


def test_the_parent_is_the_callers_span(spans: Spans) -> None:
    meta = b'{"_meta": {"traceparent": "00-%s-%s-01", "tracestate": "a=b"}}' % (TRACE.encode(), PARENT.encode())
    send("tools/list", meta, R2025_11_25)
    (span,) = spans()
    assert span.name == "tools/list"
    assert f"{span.context.trace_id:032x}" == TRACE
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == PARENT
    assert span.context.trace_state.get("a") == "b"


@pytest.mark.parametrize(
    "traceparent", ["", "garbage", f"00-{'0' * 32}-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01", "\\u0000"]
)
def test_an_invalid_traceparent_is_ignored(spans: Spans, traceparent: str) -> None:
    send("tools/list", b'{"_meta": {"traceparent": "%s"}}' % traceparent.encode())
    (span,) = spans()
    assert span.parent is None


def test_a_span_names_the_prompt_and_plain_calls_have_no_version(spans: Spans) -> None:
    send("prompts/get", b'{"name": "greet"}', PLAIN)
    (span,) = spans()
    assert span.name == "prompts/get greet"
    assert attributes(span) == {"mcp.method.name": "prompts/get", "gen_ai.prompt.name": "greet"}


def test_a_failed_tool_is_an_error_without_its_message(spans: Spans) -> None:
    with pytest.raises(ToolError):
        send("tools/call", b'{"name": "fail"}')
    (span,) = spans()
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == "tool_error"
    assert "secret message" not in span.to_json()


def test_a_span_of_a_protocol_error_has_its_code(spans: Spans) -> None:
    with pytest.raises(MethodNotFound):
        send("no/such", revision=R2026_07_28)
    (span,) = spans()
    assert attributes(span)["error.type"] == attributes(span)["rpc.response.status_code"] == "-32601"


def test_a_span_of_an_unexpected_exception_has_its_type_only(spans: Spans) -> None:
    class BrokenPeer:
        async def request(self, call: Call) -> Never:
            raise ZeroDivisionError("secret message")

        async def notify(self, note: Notification) -> None:
            raise NotImplementedError

    with pytest.raises(ZeroDivisionError):
        send("tools/list", peer=BrokenPeer())
    (span,) = spans()
    assert attributes(span)["error.type"] == "ZeroDivisionError"
    assert "secret message" not in span.to_json()
    assert not span.events


def test_long_names_are_cut(spans: Spans) -> None:
    with pytest.raises(Exception, match="not found"):
        send("tools/call", b'{"name": "%s"}' % (b"x" * 100_000))
    (span,) = spans()
    assert len(span.name) < 200
    assert len(attributes(span)["gen_ai.tool.name"]) == 128


def test_notifications_pass_unchanged() -> None:
    seen = []

    class RecordingStub:
        async def notify(self, note: Notification) -> None:
            seen.append(note.method)

        async def request(self, call: Call) -> Never:
            raise NotImplementedError

    asyncio.run(TracingPeer(RecordingStub(), provider).notify(Notification("notifications/x")))
    assert seen == ["notifications/x"]


# -- when tracing is on ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, False),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}, False),
    ],
    ids=str,
)
def test_tracing_is_on_exactly_when_an_exporter_is_configured(environment: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environment) is wanted


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, timeout=60, capture_output=True, text=True
    )


def test_opentelemetry_is_not_imported_when_tracing_is_off() -> None:
    run("import sys; from hubbub.server.tracing import is_wanted; assert not is_wanted(); "
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]")  # fmt: skip


def test_tracing_is_on_when_a_provider_is_installed() -> None:
    run("from opentelemetry import trace; from opentelemetry.sdk.trace import TracerProvider; "
        "from hubbub.server.tracing import is_wanted; assert not is_wanted(); "
        "trace.set_tracer_provider(TracerProvider()); assert is_wanted()")  # fmt: skip


EXPORT = """
import asyncio
from msgspec import Raw
from hubbub.server.server import Server
from hubbub.protocol.calls import Call, Caller, Meta
from hubbub.protocol.params import decode_params
from hubbub.protocol.revisions import PLAIN
from hubbub.server.tracing import traced
server = Server("x")
peer = traced(server)
params, meta = decode_params("tools/list", Raw(b"{}"))
caller = Caller(revision=PLAIN)
call = Call(id=Raw(b"1"), method="tools/list", raw=Raw(b"{}"), params=params, meta=meta, caller=caller, back=server)
asyncio.run(peer.request(call))
"""


def test_the_console_exporter_writes_to_stderr_never_to_stdout() -> None:
    done = run(EXPORT, OTEL_TRACES_EXPORTER="console")
    assert '"tools/list"' in done.stderr
    assert done.stdout == ""


def test_an_exporter_that_is_not_installed_is_logged_and_calls_are_served() -> None:
    done = run(EXPORT, OTEL_TRACES_EXPORTER="nonesuch")
    assert "opentelemetry-exporter-nonesuch" in done.stderr
