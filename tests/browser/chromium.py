"""A headless Chromium that opens a page, and the server that serves the page and receives its reports."""

import os
import queue
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote, urlsplit

HERE = Path(__file__).parent
MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript"}
PAGE_TIMEOUT_S = 120.0
# Names that lead to this machine in the browser alone; every other name leads nowhere.
RULES = "MAP allowed.example 127.0.0.1,MAP stranger.example 127.0.0.1,MAP * ~NOTFOUND,EXCLUDE 127.0.0.1"
FLAGS = [
    "--headless",
    "--no-sandbox",  # tests often run as root, where there is none
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    f"--host-resolver-rules={RULES}",
]


def find_chromium() -> str | None:
    """Find the browser under any of its names."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((found for name in names if (found := shutil.which(name)) is not None), None)


class _PageRequestHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        folder = self.server.folder  # type: ignore[attr-defined]
        path = folder / urlsplit(self.path).path.lstrip("/")
        if path.suffix not in MEDIA_TYPES or path.parent != folder or not path.is_file():
            self.send_error(404)
            return
        self._respond(200, path.read_bytes(), MEDIA_TYPES[path.suffix])

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._respond(204)
        self.server.findings.put(body)  # type: ignore[attr-defined]

    def _respond(self, status: int, body: bytes = b"", kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Disable the request log."""


class PageServer:
    """Serves the same pages under any host name."""

    def __init__(self, folder: Path = HERE) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _PageRequestHandler)
        self._server.folder = folder  # type: ignore[attr-defined]
        self.findings: queue.Queue[bytes] = queue.Queue()
        self._server.findings = self.findings  # type: ignore[attr-defined]
        self.port = self._server.server_address[1]
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def origin(self, name: str) -> str:
        return f"http://{name}:{self.port}"

    def url(self, name: str, mcp: str) -> str:
        """Return the URL of the page under that host name, which tests that server."""
        return f"{self.origin(name)}/page.html?mcp={quote(mcp, safe='')}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def open_page(chromium: str, url: str, folder: Path) -> Iterator[None]:
    """Open a page in a browser with a temporary profile; end the browser afterwards."""
    command = [chromium, *FLAGS, f"--user-data-dir={folder / 'profile'}", url]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | {"HOME": str(folder)},
            start_new_session=True,  # so that all of its processes can be ended with it
        )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def dump_dom(chromium: str, url: str, folder: Path) -> str:
    """Return the DOM of the page at an address."""
    command = [chromium, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", url]
    environment = os.environ | {"HOME": str(folder)}
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PAGE_TIMEOUT_S,
        env=environment,
        check=True,
    )
    return done.stdout
