"""Observability: log lines and metrics.

Logs are one JSON object for each line on stderr, with a stable event name and ids
rather than payloads; a function that masks secrets is applied to every text. It is a
parameter, because this module must not import higher layers. Metrics are plain numbers
counted on the event loop's thread; prometheus-client formats them, and is loaded by the
first scrape. Traces are in `hubbub.server.tracing`.
"""

from __future__ import annotations

import logging
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, TextIO

import msgspec

from hubbub import bounds

# -- logs ----------------------------------------------------------------------

LEVELS: Final = ("debug", "info", "warning", "error", "critical")

Redact = Callable[[str], str]

_STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "color_message",
}
_ROOT_LOGGER: Final = "hubbub"


def configure_logging(
    level: str = "info",
    format: Literal["auto", "json", "text"] = "json",
    *,
    redact: Redact = str,
    stream: TextIO | None = None,
) -> None:
    """Send log lines of Hubbub from `level` on, and warnings of libraries, to stderr.

    `auto` is text on a terminal, and JSON elsewhere. Calling it again replaces the handler of
    the last call.

    Raises: ValueError, if the level is unknown.
    """
    if level not in LEVELS:
        raise ValueError(f"unknown log level {level!r}; use one of {', '.join(LEVELS)}")
    output = stream if stream is not None else sys.stderr
    is_text = format == "text" or (format == "auto" and output.isatty())
    handler = _StderrHandler(output)
    handler.setFormatter(TextFormatter(redact) if is_text else JsonFormatter(redact))
    root, number = logging.getLogger(), logging.getLevelNamesMapping()[level.upper()]
    for old in [old for old in root.handlers if isinstance(old, _StderrHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(max(number, logging.WARNING))
    logging.getLogger(_ROOT_LOGGER).setLevel(number)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """The handler of `configure_logging`, as a class of its own so that it can be found and replaced."""


class LogRateLimit(logging.Filter):
    """Passes a limited number of lines for one event in a minute: for events that callers can cause without limit.

    The first line of the next minute says in `left_out` how many were dropped.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._counts: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        event, now = str(record.msg), self._clock()
        since, count = self._counts.get(event, (now, 0))
        if now - since >= bounds.LOG_WINDOW_S:
            if count > bounds.LOG_LINES:
                record.left_out = count - bounds.LOG_LINES
            since, count = now, 0
        if event not in self._counts and len(self._counts) >= bounds.LOG_EVENTS:
            self._counts.clear()
        self._counts[event] = (since, count + 1)
        return count < bounds.LOG_LINES


def rate_limit_logger(logger_name: str) -> None:
    """Limit how many lines of one kind this logger writes per minute; see `LogRateLimit`."""
    logger = logging.getLogger(logger_name)
    if not any(isinstance(known, LogRateLimit) for known in logger.filters):
        logger.addFilter(LogRateLimit())


class JsonFormatter(logging.Formatter):
    """One JSON object: time, level, logger, event, then the fields given as `extra`."""

    def __init__(self, redact: Redact) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """Format any record as one line."""
        return msgspec.json.encode(self.fields(record), enc_hook=repr).decode()

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """The fields of a record, with secrets masked."""
        moment = datetime.fromtimestamp(record.created, UTC)
        entry: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": self._redact(record.getMessage()),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD_FIELDS:
                entry[name if name not in entry else f"{name}_"] = self._redact_value(name, value)
        if record.exc_info:
            entry["error"] = self._redact(self.formatException(record.exc_info))
        return entry

    def _redact_value(self, name: str, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        # If the function masks any value of this name, the value is a secret.
        probe = f"{name}=0"
        if self._redact(probe) != probe:
            return self._redact(probe).partition("=")[2]
        return self._redact(value if isinstance(value, str) else repr(value))


class TextFormatter(JsonFormatter):
    """The same fields as text: `12:00:00.000 info hubbub.server started port=3000`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it if there is one."""
        entry = self.fields(record)
        error = entry.pop("error", None)
        head = [entry.pop("time")[11:23], entry.pop("level"), entry.pop("logger"), _one_line(entry.pop("event"))]
        line = " ".join(head + [f"{name}={_one_line(str(value))}" for name, value in entry.items()])
        return line if error is None else f"{line}\n{error}"


def _one_line(text: str) -> str:
    """Escape line breaks and other control characters, so that a text cannot fake another log line."""
    return text if text.isprintable() else ascii(text)[1:-1]


# -- events --------------------------------------------------------------------

_edge_logger = logging.getLogger("hubbub.edge")
rate_limit_logger(_edge_logger.name)
_call_logger = logging.getLogger("hubbub.calls")


def log_refusal(route: str, status: int, address: str, principal: str | None = None) -> None:
    """Log a refused request: the caller, route and status, never its contents."""
    if _edge_logger.isEnabledFor(logging.INFO):
        from http import HTTPStatus  # Not needed on stdio, where startup must be fast.

        event = "overloaded" if status == HTTPStatus.SERVICE_UNAVAILABLE else "refused"
        caller = {"address": address} if principal is None else {"principal": principal}
        reason = HTTPStatus(status).name.lower()
        _edge_logger.info(
            event, extra={"status": status, "reason": reason, "route": _label_or_other(route, ROUTES), **caller}
        )


def log_cut_off(reason: str, address: str) -> None:
    """Log that a connection was closed because a limit was exceeded."""
    _edge_logger.info("caller_cut_off", extra={"reason": reason, "address": address})


def calls_are_logged() -> bool:
    """Whether calls are logged; checked once, when a server starts, so that unlogged calls cost nothing."""
    return _call_logger.isEnabledFor(logging.DEBUG)


def log_call(method: str, era: str, outcome: str, seconds: float) -> None:
    """Log one call. Names of other methods than those of MCP are arbitrary text, so they are not logged."""
    fields = {
        "method": _label_or_other(method, METHODS),
        "era": era,
        "outcome": outcome,
        "ms": round(seconds * 1000, 3),
    }
    _call_logger.debug("call", extra=fields)


def _label_or_other(name: str, names: Iterable[str]) -> str:
    return name if name in names else OTHER


# -- metrics -------------------------------------------------------------------

OTHER: Final = "other"
"""The label for all other values: the number of labels must not grow with what callers send."""
ERAS: Final = ("modern", "legacy", "plain")
OUTCOMES: Final = ("ok", "tool_error", "error", "cancelled")
METHODS: Final = (
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
)
ROUTES: Final = ("/", "/health", "/mcp", "/mcp/health", "/mcp/{view}", "/mcp-ws", "/messages", "/metrics", "/sse")
CUT_OFF_REASONS: Final = (
    "slow_reader",
    "slow_sender",
    "large_head",
    "malformed",
    "pipelining",
    "large_message",
    "unfinished_message",
    "full_queue",
    "too_many_connections",
    "tls_handshake",
)
DURATION_BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class _Durations:
    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(DURATION_BUCKETS_S) + 1)
        self.total_s = 0.0

    def cumulative(self) -> list[tuple[str, float]]:
        """Cumulative counts, as Prometheus requires: each bucket includes those before it."""
        names, seen, buckets = [*map(str, DURATION_BUCKETS_S), "+Inf"], 0, []
        for name, count in zip(names, self.counts, strict=True):
            seen += count
            buckets.append((name, float(seen)))
        return buckets


class Metric(NamedTuple):
    """A metric with one label, read at each scrape. The label's values must be few, and not chosen by callers."""

    name: str
    description: str
    label: str
    read: Callable[[], Mapping[str, float]]
    """Returns the current value for each value of the label."""
    is_count: bool = False
    """Whether this is a counter instead of a gauge."""


class Metrics:
    """Counts calls and responses. Not thread-safe: only the event loop's thread may use it."""

    content_type: Final = "text/plain; version=1.0.0; charset=utf-8"
    """The Content-Type of what `render` returns."""

    def __init__(self, *, methods: Iterable[str] = METHODS, routes: Iterable[str] = ROUTES) -> None:
        self._methods = frozenset(methods)
        self._routes = frozenset(routes)
        self._calls: dict[tuple[str, str, str], _Durations] = {}
        self._responses: dict[tuple[str, int], int] = {}
        self._cut_off: dict[str, int] = {}
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self._labelled_metrics: list[Metric] = []
        self._registry: Any = None

    def call(self, method: str, era: str, outcome: str, seconds: float) -> None:
        """Count one call and its duration."""
        durations = self._calls.get((method, era, outcome))
        if durations is None:
            durations = self._series(method, era, outcome)
        durations.counts[bisect_left(DURATION_BUCKETS_S, seconds)] += 1
        durations.total_s += seconds

    def _series(self, method: str, era: str, outcome: str) -> _Durations:
        labels = (
            method if method in self._methods else OTHER,
            era if era in ERAS else OTHER,
            outcome if outcome in OUTCOMES else OTHER,
        )
        return self._calls.setdefault(labels, _Durations())

    def response(self, route: str, status: int) -> None:
        """Count one HTTP response; `route` is the pattern, not the path."""
        try:
            self._responses[route, status] += 1
        except KeyError:
            labels = (route if route in self._routes else OTHER, status)
            self._responses[labels] = self._responses.get(labels, 0) + 1

    def cut_off(self, reason: str) -> None:
        """Count a connection that was closed because a limit was exceeded."""
        label = _label_or_other(reason, CUT_OFF_REASONS)
        self._cut_off[label] = self._cut_off.get(label, 0) + 1

    def gauge(self, name: str, description: str, read: Callable[[], float]) -> None:
        """Add a gauge whose value is read at each scrape, such as the number of sessions."""
        self._gauges[name] = (description, read)

    def add(self, figure: Metric) -> None:
        self._labelled_metrics.append(figure)

    def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus, for a response of `content_type`."""
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

        if self._registry is None:
            self._registry = CollectorRegistry()
            ProcessCollector(registry=self._registry)
            self._registry.register(self)
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Any]:
        """Yield the metric families: the collector interface of prometheus-client."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        calls = HistogramMetricFamily(
            "hubbub_call_duration_seconds", "Duration of calls.", labels=("method", "era", "outcome")
        )
        for labels, durations in self._calls.items():
            calls.add_metric(labels, durations.cumulative(), durations.total_s)
        yield calls
        responses = CounterMetricFamily("hubbub_http_responses", "HTTP responses.", labels=("route", "status"))
        for (route, status), count in self._responses.items():
            responses.add_metric((route, str(status)), count)
        yield responses
        cut_off = CounterMetricFamily(
            "hubbub_callers_cut_off", "Connections closed because a limit was exceeded.", labels=("reason",)
        )
        for reason, count in self._cut_off.items():
            cut_off.add_metric((reason,), count)
        yield cut_off
        for name, (description, read) in self._gauges.items():
            yield GaugeMetricFamily(f"hubbub_{name}", description, value=read())
        for metric in self._labelled_metrics:
            kind = CounterMetricFamily if metric.is_count else GaugeMetricFamily
            family = kind(f"hubbub_{metric.name}", metric.description, labels=(metric.label,))
            for name, value in metric.read().items():
                family.add_metric((name,), value)
            yield family
