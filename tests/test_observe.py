import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Literal

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from hubbub import bounds, observe
from hubbub.observe import LogRateLimit, configure_logging
from hubbub.pack import Metrics
from hubbub.security.redact import redact

log = logging.getLogger("hubbub.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root, ours = logging.getLogger(), logging.getLogger("hubbub")
    before = root.handlers[:], root.level, ours.level
    yield io.StringIO()
    root.handlers[:], root.level, ours.level = before[0], before[1], before[2]
    root.setLevel(before[1])
    ours.setLevel(before[2])


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


# -- logs ----------------------------------------------------------------------


def test_a_log_line_is_one_json_object_with_a_stable_event_name(stream: io.StringIO) -> None:
    configure_logging("info", stream=stream)
    log.info("session_opened", extra={"session": "s1", "streams": 2, "old": None, "path": {"a": 1}})
    (line,) = lines(stream)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "hubbub.test",
        "event": "session_opened",
        "session": "s1",
        "streams": 2,
        "old": None,
        "path": "{'a': 1}",
    }


def test_repeated_log_events_are_limited_per_minute(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LOG_LINES", 3)
    now = 0.0
    limited = logging.getLogger("hubbub.test.limited")
    limited.addFilter(LogRateLimit(lambda: now))
    configure_logging("info", stream=stream)
    for number in range(10):
        limited.info("refused", extra={"number": number})
    limited.info("another event")
    now = bounds.LOG_WINDOW_S
    for number in range(10, 20):
        limited.info("refused", extra={"number": number})
    shown = [(line["event"], line.get("number"), line.get("left_out")) for line in lines(stream)]
    assert shown == [
        *(("refused", number, None) for number in range(3)),
        ("another event", None, None),
        ("refused", 10, 7),
        *(("refused", number, None) for number in (11, 12)),
    ]


def test_the_number_of_rate_limited_events_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LOG_EVENTS", 10)
    monkeypatch.setattr(bounds, "LOG_LINES", 1)
    limit = LogRateLimit(lambda: 0.0)
    events = [logging.makeLogRecord({"msg": f"event {number}"}) for number in range(1000)]
    assert all(limit.filter(event) for event in events)
    dropped = [event for event in reversed(events) if not limit.filter(event)]
    assert 0 < len(dropped) <= 10


def test_the_level_applies_to_hubbub_and_libraries_log_warnings(stream: io.StringIO) -> None:
    configure_logging("debug", stream=stream)
    log.debug("seen")
    logging.getLogger("other.library").info("unseen")
    logging.getLogger("other.library").warning("seen too")
    configure_logging("error", stream=stream)
    log.warning("unseen")
    logging.getLogger("other.library").warning("unseen")
    assert [line["event"] for line in lines(stream)] == ["seen", "seen too"]


def test_configuring_twice_does_not_log_twice(stream: io.StringIO) -> None:
    configure_logging(stream=stream)
    configure_logging(stream=stream)
    log.info("once")
    assert len(lines(stream)) == 1


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_gets_text_by_default(
    stream: io.StringIO, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    configure_logging("info", "auto", stream=stream)
    log.info("started")
    assert stream.getvalue().startswith("{") is not is_terminal
    assert "started" in stream.getvalue()


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="debug, info"):
        configure_logging("loud")


@pytest.mark.parametrize("format", ["json", "text"])
def test_secrets_do_not_reach_the_log(stream: io.StringIO, format: Literal["json", "text"]) -> None:
    configure_logging("info", format, redact=redact, stream=stream)
    log.info("connect %s", "https://user:hunter2@example.com", extra={"password": "hunter2", "api_key": ["hunter2"]})
    log.info("got", extra={"header": "Bearer hunter2hunter2"})
    try:
        raise ValueError("secret=hunter2")
    except ValueError:
        log.exception("failed", extra={"note": "token hunter2hunter2"})
    assert "hunter2" not in stream.getvalue()
    assert "***" in stream.getvalue()


def test_an_exception_is_logged_in_the_same_line(stream: io.StringIO) -> None:
    configure_logging(stream=stream)
    try:
        raise ValueError("here")
    except ValueError:
        log.exception("failed")
    (line,) = lines(stream)
    assert line["error"].endswith("ValueError: here")


def test_extra_fields_cannot_replace_standard_fields(stream: io.StringIO) -> None:
    configure_logging(stream=stream)
    log.info("real", extra={"event": "forged", "level": "forged"})
    (line,) = lines(stream)
    assert (line["event"], line["event_"], line["level"]) == ("real", "forged", "info")


def test_text_format_is_one_line(stream: io.StringIO) -> None:
    configure_logging("info", "text", stream=stream)
    log.info("started", extra={"port": 3000, "name_of": "a\nforged line"})
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(r"info hubbub.test started port=3000 name_of=a\nforged line")


@given(st.text(), st.dictionaries(st.text(min_size=1).map(lambda name: f"x{name}"), st.text() | st.floats()))
def test_any_record_is_one_line_of_json(event: str, fields: dict[str, Any]) -> None:
    record = logging.LogRecord("hubbub", logging.INFO, "", 1, event, None, None)
    vars(record).update(fields)
    line = observe.JsonFormatter(str).format(record)
    assert len(line.splitlines()) <= 1 or "\n" not in line
    json.loads(line)


# -- metrics -------------------------------------------------------------------


def samples(metrics: Metrics) -> dict[tuple[Any, ...], float]:
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def test_calls_are_counted_with_their_durations() -> None:
    metrics = Metrics()
    metrics.call("tools/call", "modern", "ok", 0.0005)
    metrics.call("tools/call", "modern", "ok", 0.3)
    metrics.call("tools/call", "modern", "ok", 100.0)
    metrics.call("tools/call", "legacy", "error", 0.3)
    found = samples(metrics)
    labels = (("era", "modern"), ("method", "tools/call"), ("outcome", "ok"))
    name = "hubbub_call_duration_seconds"
    assert found[name + "_count", *labels] == 3
    assert found[name + "_sum", *labels] == pytest.approx(100.3005)
    buckets = {
        dict(key[1:])["le"]: value for key, value in found.items() if key[0] == name + "_bucket" and labels[0] in key
    }
    assert buckets["0.0005"] == 1
    assert buckets["0.25"] == 1
    assert buckets["0.5"] == 2
    assert buckets["30.0"] == 2
    assert buckets["+Inf"] == 3


def test_labels_are_bounded_whatever_callers_send() -> None:
    metrics = Metrics()
    for number in range(1000):
        metrics.call(f"method-{number}", "modern", "ok", 0.1)
        metrics.call("tools/call", f"era-{number}", f"outcome-{number}", 0.1)
        metrics.response(f"/path/{number}", 404)
    found = samples(metrics)
    assert len([name for name, *_ in found if name == "hubbub_call_duration_seconds_count"]) == 2
    assert len([name for name, *_ in found if name == "hubbub_http_responses_total"]) == 1
    assert found["hubbub_http_responses_total", ("route", "other"), ("status", "404")] == 1000
    assert (
        found["hubbub_call_duration_seconds_count", ("era", "modern"), ("method", "other"), ("outcome", "ok")] == 1000
    )


def test_responses_are_counted_by_route_and_status() -> None:
    metrics = Metrics()
    metrics.response("/mcp", 200)
    metrics.response("/mcp", 200)
    metrics.response("/mcp", 429)
    found = samples(metrics)
    assert found["hubbub_http_responses_total", ("route", "/mcp"), ("status", "200")] == 2
    assert found["hubbub_http_responses_total", ("route", "/mcp"), ("status", "429")] == 1


def test_gauges_are_read_at_each_scrape() -> None:
    metrics = Metrics()
    sessions: list[int] = []
    metrics.gauge("sessions", "Open sessions.", lambda: len(sessions))
    assert samples(metrics)["hubbub_sessions",] == 0
    sessions.append(1)
    assert samples(metrics)["hubbub_sessions",] == 1


def test_two_servers_in_one_process_have_separate_metrics() -> None:
    one, two = Metrics(), Metrics()
    one.response("/mcp", 200)
    assert b'route="/mcp"' in one.render()
    assert b'route="/mcp"' not in two.render()
    assert b"hubbub" not in prometheus_client.generate_latest()


def test_the_content_type_is_that_of_prometheus_client() -> None:
    assert Metrics.content_type == prometheus_client.CONTENT_TYPE_LATEST


def test_counting_does_not_load_prometheus_client() -> None:
    code = """
import sys
from hubbub.observe import Metrics
metrics = Metrics()
metrics.call("tools/call", "modern", "ok", 0.1)
metrics.response("/mcp", 200)
assert "prometheus_client" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
