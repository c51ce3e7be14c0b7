"""The bare protocol: a minimal HTTP server, httptools on uvloop, with the checks of Hubbub and nothing else.

It checks method, path, Host, Origin, Content-Type and the size of the body, counts a rate limit for each client
address, and counts responses and the durations of calls. It has no timeouts, no flow control, no sessions and
no JSON-RPC beyond `bench.floors.echo_call`. Goals of the suites http and hub refer to it.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter, defaultdict, deque

import httptools
import msgspec
import uvloop
from bench.floors.echo_call import CONTENT_TYPE, PORT, answer

_PATH = b"/mcp"
_HOSTS = frozenset((b"127.0.0.1", b"localhost"))
_ORIGINS = frozenset((b"http://127.0.0.1", b"http://localhost"))
_MAX_BODY_BYTES = 4 << 20
_MAX_REQUESTS = 1_000_000  # in a window; never reached
_WINDOW_S = 1.0
_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_REASONS = {
    200: b"OK",
    400: b"Bad Request",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    413: b"Content Too Large",
    415: b"Unsupported Media Type",
    429: b"Too Many Requests",
}


class Metrics:
    """Counts responses by status, and calls by duration."""

    def __init__(self) -> None:
        self.responses: Counter[int] = Counter()
        self.calls = [0] * (len(_BUCKETS_S) + 1)
        self.calls_s = 0.0

    def count_call(self, seconds: float) -> None:
        """Count a call and its duration."""
        self.calls[bisect_left(_BUCKETS_S, seconds)] += 1
        self.calls_s += seconds


class RateLimit:
    """A sliding window for each client address."""

    def __init__(self) -> None:
        self._times: defaultdict[str, deque[float]] = defaultdict(deque)

    def admit(self, address: str, now: float) -> bool:
        """Count a request, unless there were too many in the window."""
        times = self._times[address]
        while times and times[0] <= now - _WINDOW_S:
            times.popleft()
        if len(times) >= _MAX_REQUESTS:
            return False
        times.append(now)
        return True


metrics = Metrics()
rate_limit = RateLimit()


class BareProtocol(asyncio.Protocol):
    """Answers the requests on one connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)
        self._address: str = transport.get_extra_info("peername")[0]

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._respond(400, b"")
            self._transport.close()

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._body = b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        if len(self._body) <= _MAX_BODY_BYTES:
            self._body += body

    def on_message_complete(self) -> None:
        started = time.perf_counter()
        status, body = self._check(started), b""
        if status == 200:
            try:
                body = answer(self._body)
            except msgspec.MsgspecError:
                status = 400
            metrics.count_call(time.perf_counter() - started)
        self._respond(status, body)
        if not self._parser.should_keep_alive():
            self._transport.close()

    def _check(self, now: float) -> int:
        """Return the status of the response."""
        headers = self._headers
        if headers.get(b"host", b"").partition(b":")[0] not in _HOSTS:
            return 403
        origin = headers.get(b"origin")
        if origin is not None and origin not in _ORIGINS:
            return 403
        if not rate_limit.admit(self._address, now):
            return 429
        if self._url != _PATH:
            return 404
        if self._parser.get_method() != b"POST":
            return 405
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
            return 415
        return 413 if len(self._body) > _MAX_BODY_BYTES else 200

    def _respond(self, status: int, body: bytes) -> None:
        metrics.responses[status] += 1
        self._transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b"
            % (status, _REASONS[status], CONTENT_TYPE, len(body), body)
        )


async def main() -> None:
    """Serve until the process is killed."""
    server = await asyncio.get_running_loop().create_server(BareProtocol, "127.0.0.1", PORT, backlog=2048)
    await server.serve_forever()


uvloop.run(main())
