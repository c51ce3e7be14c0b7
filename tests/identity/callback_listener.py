"""The loopback listener of a native client: the browser brings it the authorization response."""

import queue
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

WAIT_S = 60.0
DONE = b"<!doctype html><title>Done</title><p>You can close this window."


class _CallbackHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path != "/callback":  # the icon
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(DONE)))
        self.end_headers()
        self.wfile.write(DONE)
        found = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.server.responses.put(found)  # type: ignore[attr-defined]

    def log_message(self, format: str, *arguments: Any) -> None:
        """Disable the request log."""


class CallbackListener:
    """Listens on a free port until it is closed."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _CallbackHandler)
        self._responses: queue.Queue[dict[str, str]] = queue.Queue()
        self._server.responses = self._responses  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/callback"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def wait(self) -> dict[str, str]:
        """Return the parameters of the next authorization response."""
        return self._responses.get(timeout=WAIT_S)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
