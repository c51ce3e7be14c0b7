"""A real ActivityWatch behind a door: one that asks for a key, or that knows what newer releases know.

The one that there is as a package is too old for either, so what they add is added here, as their source has it.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.packs.activity.odd_server import Odd, OddServer, odd_server
from tests.packs.activity.watching import Watch

KEY = "key-of-the-test"


def ask(watch: Watch, path: str) -> Odd:
    """What the real one answers."""
    try:
        with urllib.request.urlopen(f"{watch.url}{path}", timeout=60) as answer:
            return Odd(answer.status, answer.read(), answer.headers["Content-Type"])
    except urllib.error.HTTPError as error:
        return Odd(error.code, error.read(), error.headers["Content-Type"])


@contextmanager
def locked_watch(watch: Watch, key: str = KEY) -> Iterator[OddServer]:
    """Tells of itself whoever asks, and the rest only those who have the key, as aw-server-rust does."""

    def answer(method: str, path: str) -> Odd:
        given = server.asked[-1][2].get("Authorization", "")
        if path != "/api/0/info" and given != f"Bearer {key}":
            return Odd(401, b'{"message": "Missing or invalid API key"}')
        return ask(watch, path)

    with odd_server(answer) as server:
        yield server


@contextmanager
def newer_watch(watch: Watch, classes: Any) -> Iterator[OddServer]:
    """Keeps settings, among them the person's categories, as releases from 0.13 on do."""

    def answer(method: str, path: str) -> Odd:
        if path.rstrip("/") == "/api/0/settings/classes":
            return Odd(body=json.dumps(classes).encode())
        return ask(watch, path)

    with odd_server(answer) as server:
        yield server
