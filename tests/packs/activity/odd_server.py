"""A server that answers whatever it is told to: what ActivityWatch and the sidecar do on bad days."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.clock import turns, until


class Odd(NamedTuple):
    """One answer."""

    status: int = 200
    body: bytes = b"{}"
    kind: str = "application/json"
    headers: Mapping[str, str] = {}
    announced: int | None = None
    """The length that is promised, if that is another."""
    hangs: bool = False
    drips: bool = False


class OddServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Callable[[str, str], Odd]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.is_over = threading.Event()
        self.hung = self.answered = 0

    async def only_hangs(self) -> None:
        """Wait until there are questions that it leaves open, and all others are answered, those that follow too."""
        before = -1
        while len(self.asked) != before:
            before = len(self.asked)
            await until(lambda: self.hung and self.hung + self.answered == len(self.asked))
            await turns()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: OddServer
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, dict(self.headers)))
        odd = self.server.answer(self.command, self.path)
        if odd.hangs:
            self.server.hung += 1
            self.server.is_over.wait(60)
            return
        self.send_response(odd.status)
        self.send_header("Content-Type", odd.kind)
        self.send_header("Content-Length", str(len(odd.body) if odd.announced is None else odd.announced))
        for name, value in odd.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if odd.drips:
            for byte in odd.body:
                if self.server.is_over.wait(0.05):
                    return
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
            return
        self.wfile.write(odd.body)
        self.server.answered += 1
        if odd.announced is not None:
            self.close_connection = True

    do_GET = do_POST = _serve

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def odd_server(answer: Odd | Callable[[str, str], Odd]) -> Iterator[OddServer]:
    """Runs one meanwhile."""
    server = OddServer(answer if callable(answer) else lambda method, path: answer)
    server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.is_over.set()
        server.shutdown()
        thread.join()
        server.server_close()
