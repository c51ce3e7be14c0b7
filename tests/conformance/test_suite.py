"""The official conformance suite, pinned in tests/judges, against `server.py` over HTTP.

Its own exit code is too kind: it lets warnings pass, and scenarios that found nothing to examine.
So every `checks.json` is read. Nothing is expected to fail, and the number of scenarios and of
checks is fixed, so that none can disappear unnoticed.
"""

import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SUITE = ROOT / "tests/judges/node_modules/@modelcontextprotocol/conformance/dist/index.js"
START_S = 60
RUN_S = 300

Checks = dict[str, list[dict[str, str]]]

pytestmark = pytest.mark.timeout(START_S + RUN_S + 10)


@pytest.mark.parametrize(
    ("version", "scenarios", "successes", "mode"),
    [
        ("2025-03-26", 1, 3, "auto"),
        ("2025-06-18", 27, 56, "auto"),
        ("2025-11-25", 33, 83, "auto"),
        ("2026-07-28", 40, 152, "auto"),
        ("2025-06-18", 27, 56, "sse"),
        ("2025-11-25", 33, 84, "sse"),
        ("2026-07-28", 40, 153, "sse"),
    ],
)
def test_every_scenario_of_a_revision_passes(
    version: str, scenarios: int, successes: int, mode: str, tmp_path: Path
) -> None:
    with serving(mode) as url:
        examine("server", "--url", url, "--suite", "all", "--spec-version", version, "-o", str(tmp_path))
    checks = read_checks(tmp_path)
    assert blemishes(checks) == []
    assert len(checks) == scenarios
    assert sum(count_successes(checks).values()) == successes


@pytest.mark.parametrize(("version", "scored", "reported"), [("2025-11-25", 30, 33), ("2026-07-28", 37, 50)])
def test_everything_that_is_scored_passes(version: str, scored: int, reported: int, tmp_path: Path) -> None:
    required = required_scenarios(version)
    assert len(required) == scored
    with serving("auto") as url:
        examine("server", "--url", url, "--requirements", version, "-o", str(tmp_path))
    checks = read_checks(tmp_path)
    assert len(checks) == reported
    assert required <= checks.keys()
    # Not scored, and not ours yet: the tasks extension.
    assert blemishes({name: found for name, found in checks.items() if not name.startswith("tasks-")}) == []


def blemishes(checks: Checks) -> list[str]:
    """Whatever is neither a success nor merely told, and every scenario that examined nothing."""
    found = [
        f"{name}: {check['id']}: {check['status']}: {check.get('errorMessage', '')}"
        for name, examined in checks.items()
        for check in examined
        if check["status"] not in ("SUCCESS", "INFO")
    ]
    successes = count_successes(checks)
    return found + [f"{name}: nothing was examined" for name in checks if not successes[name]]


def count_successes(checks: Checks) -> Counter[str]:
    return Counter(name for name, examined in checks.items() for check in examined if check["status"] == "SUCCESS")


def read_checks(folder: Path) -> Checks:
    """What the suite found, by scenario; each writes a folder with its name and the time."""
    checks: Checks = {}
    for path in folder.glob("*/checks.json"):
        named = re.fullmatch(r"server-(.+?)-\d{4}-\d\d-\d\dT[\d-]+Z", path.parent.name)
        assert named is not None, path.parent.name
        assert named[1] not in checks, f"{named[1]} ran twice"
        checks[named[1]] = json.loads(path.read_bytes())
    return checks


def required_scenarios(version: str) -> set[str]:
    """The server scenarios that the suite scores for a revision, by its own list."""
    listed = examine("list", "--requirements", version)
    section = listed.partition("Server scenarios")[2].partition("Client scenarios")[0]
    return set(re.findall(r"^ +- (\S+)$", section, re.MULTILINE))


def examine(*arguments: str) -> str:
    """Run the suite to its end; what it printed."""
    local = ROOT / ".node/bin/node"
    node = str(local) if local.exists() else shutil.which("node")
    if node is None or not SUITE.exists():
        pytest.skip("no conformance suite here: `make setup` on a machine with node and npm installs it")
    command = [node, str(SUITE), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def serving(mode: str) -> Iterator[str]:
    """The server in a process and on a port of its own; its address."""
    command = [sys.executable, str(HERE / "server.py"), "0", mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, f"the server ended with {process.wait(START_S)}"
            # The suite's check against DNS rebinding wants a name, not an address.
            yield url.replace("127.0.0.1", "localhost")
        finally:
            process.terminate()
            assert process.wait(START_S) == 0
