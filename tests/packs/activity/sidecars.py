"""Run sidecars in this process, and send requests to them."""

import base64
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

from hubbub import Secret
from hubbub.packs.activity.pause import Pause
from hubbub.packs.activity.settings import ActivitySettings, PrivacySettings
from hubbub.packs.activity.sidecar.command import make_engine
from hubbub.packs.activity.sidecar.server import SidecarServer

if TYPE_CHECKING:
    from PIL.Image import Image


def decode_image(data_base64: str) -> "Image":
    """Decode a picture of a response."""
    from PIL import Image

    with Image.open(BytesIO(base64.b64decode(data_base64))) as opened:
        return opened.convert("RGB")


class Sidecar:
    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.host, self.port = host, port
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            body = response.read()
            return response.status, json.loads(body) if method != "HEAD" else body
        finally:
            connection.close()


@contextmanager
def run_sidecar(
    engine: str = "mock",
    omniparser_url: str = "",
    *,
    host: str = "127.0.0.1",
    token: str = "",
    pause: Pause | None = None,
    **privacy: Any,
) -> Iterator[Sidecar]:
    created_engine = make_engine(engine, omniparser_url, ActivitySettings(privacy=PrivacySettings(**privacy)))
    secret = Secret(token) if token else None
    server = SidecarServer((host, 0), created_engine, takes_anything=engine == "mock", token=secret, pause=pause)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield Sidecar(server.server_port, host)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
