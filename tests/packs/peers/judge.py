"""Node.js as the reference for what JavaScript does: one process for many requests."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
_PROGRAM = """
const readline = require('readline');
const out = { rewrite: text => JSON.stringify(JSON.parse(text)), escape: encodeURIComponent };
readline.createInterface({ input: process.stdin }).on('line', line => {
  const { ask, text } = JSON.parse(line);
  let answer;
  try { answer = { text: out[ask](text) }; } catch (error) { answer = { error: error.name }; }
  process.stdout.write(JSON.stringify(answer) + '\\n');
});
"""


class Judge:
    """Sends requests to Node.js."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def rewrite(self, text: str) -> str | None:
        """`JSON.stringify(JSON.parse(text))`; None where that throws."""
        return self._ask("rewrite", text).get("text")

    def escape(self, text: str) -> str | None:
        """`encodeURIComponent(text)`."""
        return self._ask("escape", text).get("text")

    def _ask(self, what: str, text: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"ask": what, "text": text}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def node() -> str:
    """Return the path of Node.js; skip the test if it is not installed."""
    local = ROOT / ".node/bin/node"
    found = str(local) if local.exists() else shutil.which("node")
    if found is None:
        pytest.skip("Node.js is not installed, so JavaScript's own JSON cannot be compared")
    return found


def start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [node(), "-e", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
