"""The official conformance suite, pinned in tests/judges, against `server.py` over HTTP.

Its exit code ignores warnings, and scenarios without any checks.
So every `checks.json` is read. No failure is expected, and the number of scenarios and of
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
START_TIMEOUT_S = 60
RUN_TIMEOUT_S = 300

Checks = dict[str, list[dict[str, str]]]

pytestmark = pytest.mark.timeout(START_TIMEOUT_S + RUN_TIMEOUT_S + 10)


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
    with start_server(mode) as url:
        run_suite("server", "--url", url, "--suite", "all", "--spec-version", version, "-o", str(tmp_path))
    checks = read_checks(tmp_path)
    assert find_failures(checks) == []
    assert len(checks) == scenarios
    assert sum(count_successes(checks).values()) == successes


@pytest.mark.parametrize(("version", "scored", "reported"), [("2025-11-25", 30, 33), ("2026-07-28", 37, 50)])
def test_every_scored_scenario_passes(version: str, scored: int, reported: int, tmp_path: Path) -> None:
    required = required_scenarios(version)
    assert len(required) == scored
    with start_server("auto") as url:
        run_suite("server", "--url", url, "--requirements", version, "-o", str(tmp_path))
    checks = read_checks(tmp_path)
    assert len(checks) == reported
    assert required <= checks.keys()
    # Not scored, and not implemented: the tasks extension.
    assert find_failures({name: found for name, found in checks.items() if not name.startswith("tasks-")}) == []


def find_failures(checks: Checks) -> list[str]:
    """Return every check that is neither a success nor informational, and every scenario without checks."""
    found = [
        f"{name}: {check['id']}: {check['status']}: {check.get('errorMessage', '')}"
        for name, scenario_checks in checks.items()
        for check in scenario_checks
        if check["status"] not in ("SUCCESS", "INFO")
    ]
    successes = count_successes(checks)
    return found + [f"{name}: nothing was examined" for name in checks if not successes[name]]


def count_successes(checks: Checks) -> Counter[str]:
    return Counter(
        name for name, scenario_checks in checks.items() for check in scenario_checks if check["status"] == "SUCCESS"
    )


def read_checks(folder: Path) -> Checks:
    """Read the checks by scenario; each scenario writes a folder with its name and the time."""
    checks: Checks = {}
    for path in folder.glob("*/checks.json"):
        match = re.fullmatch(r"server-(.+?)-\d{4}-\d\d-\d\dT[\d-]+Z", path.parent.name)
        assert match is not None, path.parent.name
        assert match[1] not in checks, f"{match[1]} ran twice"
        checks[match[1]] = json.loads(path.read_bytes())
    return checks


def required_scenarios(version: str) -> set[str]:
    """Return the server scenarios that the suite requires for a revision."""
    listed = run_suite("list", "--requirements", version)
    section = listed.partition("Server scenarios")[2].partition("Client scenarios")[0]
    return set(re.findall(r"^ +- (\S+)$", section, re.MULTILINE))


def run_suite(*arguments: str) -> str:
    """Run the suite; return its output."""
    local = ROOT / ".node/bin/node"
    node = str(local) if local.exists() else shutil.which("node")
    if node is None or not SUITE.exists():
        pytest.skip("no conformance suite here: `make setup` on a machine with node and npm installs it")
    command = [node, str(SUITE), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def start_server(mode: str) -> Iterator[str]:
    """Start the server in a new process on a free port; yield its address."""
    command = [sys.executable, str(HERE / "server.py"), "0", mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, f"the server ended with {process.wait(START_TIMEOUT_S)}"
            # The DNS rebinding check of the suite needs a host name, not an address.
            yield url.replace("127.0.0.1", "localhost")
        finally:
            process.terminate()
            assert process.wait(START_TIMEOUT_S) == 0
