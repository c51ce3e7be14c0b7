"""Proxies of a real ActivityWatch that add features of newer releases: an API key, and stored categories.

The released Python package is too old for either, so they are implemented here after the source of newer releases.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.packs.activity.activitywatch_server import ActivityWatchServer
from tests.packs.activity.scripted_server import ScriptedResponse, ScriptedServer, run_scripted_server

API_KEY = "key-of-the-test"


def forward_request(watch: ActivityWatchServer, path: str) -> ScriptedResponse:
    """Return the response of the real server."""
    try:
        with urllib.request.urlopen(f"{watch.url}{path}", timeout=60) as answer:
            return ScriptedResponse(answer.status, answer.read(), answer.headers["Content-Type"])
    except urllib.error.HTTPError as error:
        return ScriptedResponse(error.code, error.read(), error.headers["Content-Type"])


@contextmanager
def run_proxy_with_key(watch: ActivityWatchServer, key: str = API_KEY) -> Iterator[ScriptedServer]:
    """Run a proxy that requires the API key for everything except `/info`, as aw-server-rust does."""

    def answer(method: str, path: str) -> ScriptedResponse:
        authorization = server.requests[-1][2].get("Authorization", "")
        if path != "/api/0/info" and authorization != f"Bearer {key}":
            return ScriptedResponse(401, b'{"message": "Missing or invalid API key"}')
        return forward_request(watch, path)

    with run_scripted_server(answer) as server:
        yield server


@contextmanager
def run_proxy_with_categories(watch: ActivityWatchServer, classes: Any) -> Iterator[ScriptedServer]:
    """Run a proxy that stores categories in its settings, as releases from 0.13 on do."""

    def answer(method: str, path: str) -> ScriptedResponse:
        if path.rstrip("/") == "/api/0/settings/classes":
            return ScriptedResponse(body=json.dumps(classes).encode())
        return forward_request(watch, path)

    with run_scripted_server(answer) as server:
        yield server
