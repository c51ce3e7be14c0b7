"""An HTTP server with scripted responses, to simulate failures of ActivityWatch and the sidecar."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.clock import wait_until, yield_to_loop


class ScriptedResponse(NamedTuple):
    status: int = 200
    body: bytes = b"{}"
    kind: str = "application/json"
    headers: Mapping[str, str] = {}
    announced: int | None = None
    """Value of Content-Length, if it differs from the length of the body."""
    hangs: bool = False
    drips: bool = False


class ScriptedServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Callable[[str, str], ScriptedResponse]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.is_stopped = threading.Event()
        self.hanging_count = self.answered_count = 0

    async def wait_until_hanging(self) -> None:
        """Wait until a request hangs and all other requests, including follow-up ones, have been answered."""
        previous_count = -1
        while len(self.requests) != previous_count:
            previous_count = len(self.requests)
            await wait_until(
                lambda: self.hanging_count and self.hanging_count + self.answered_count == len(self.requests)
            )
            await yield_to_loop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedServer
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.command, self.path, dict(self.headers)))
        response = self.server.answer(self.command, self.path)
        if response.hangs:
            self.server.hanging_count += 1
            self.server.is_stopped.wait(60)
            return
        self.send_response(response.status)
        self.send_header("Content-Type", response.kind)
        self.send_header(
            "Content-Length", str(len(response.body) if response.announced is None else response.announced)
        )
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if response.drips:
            for byte in response.body:
                if self.server.is_stopped.wait(0.05):
                    return
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
            return
        self.wfile.write(response.body)
        self.server.answered_count += 1
        if response.announced is not None:
            self.close_connection = True

    do_GET = do_POST = _serve

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def run_scripted_server(answer: ScriptedResponse | Callable[[str, str], ScriptedResponse]) -> Iterator[ScriptedServer]:
    server = ScriptedServer(answer if callable(answer) else lambda method, path: answer)
    server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.is_stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()
