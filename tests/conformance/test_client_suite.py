"""The official conformance suite, pinned in tests/judges, drives `client.py`, except for skills.

Its exit code ignores scenarios that it could not check. So every `checks.json` is
read. Each scenario runs by itself, so that failures are independent, and all scenarios of a revision run at once,
as in the suite: with dozens of clients on a few cores.
"""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SUITE = ROOT / "tests/judges/node_modules/@modelcontextprotocol/conformance/dist/index.js"
COMMAND = f"'{sys.executable}' '{HERE / 'client.py'}'"
TIMEOUT_MS = 90_000
SCENARIO_TIMEOUT_S = 200
SUITE_TIMEOUT_S = 600

AUTHORIZED = {
    "auth/basic-cimd",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/pre-registration",
    "auth/scope-from-scopes-supported",
    "auth/scope-from-www-authenticate",
    "auth/scope-omitted-when-undefined",
    "auth/scope-retry-limit",
    "auth/scope-step-up",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-none",
    "auth/token-endpoint-auth-post",
}
EXTENSIONS = {
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/enterprise-managed-authorization",
    "auth/wif-jwt-bearer",
}
"""The suite runs them only if no version is chosen."""
VERSIONS = {
    "2025-03-26": {"auth/2025-03-26-oauth-endpoint-fallback", "auth/2025-03-26-oauth-metadata-backcompat"},
    "2025-06-18": {
        "auth/token-endpoint-auth-basic",
        "auth/token-endpoint-auth-none",
        "auth/token-endpoint-auth-post",
        "initialize",
        "tools_call",
    },
    "2025-11-25": {
        *AUTHORIZED,
        "elicitation-sep1034-client-defaults",
        "initialize",
        "json-schema-2020-12-preservation",
        "sse-retry",
        "tools_call",
    },
    "2026-07-28": {
        *AUTHORIZED,
        "auth/authorization-server-migration",
        "auth/iss-not-advertised",
        "auth/iss-normalized",
        "auth/iss-supported",
        "auth/iss-supported-missing",
        "auth/iss-unexpected",
        "auth/iss-wrong-issuer",
        "auth/metadata-issuer-mismatch",
        "auth/offline-access-not-supported",
        "auth/offline-access-scope",
        "auth/resource-mismatch",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "http-standard-headers",
        "json-schema-2020-12-preservation",
        "json-schema-ref-no-deref",
        "request-metadata",
        "sep-2322-client-request-state",
        "tools_call",
    },
}
"""All scenarios of the suite; a test below compares them with the installed suite."""
NEWEST = {scenario: version for version, scenarios in VERSIONS.items() for scenario in scenarios}
"""The newest version of each scenario."""

Checks = list[dict[str, str]]


@pytest.mark.parametrize("version", [*VERSIONS, "extension"])
def test_every_scenario_of_the_suite_is_run(version: str) -> None:
    listed = run_suite("list", "--client", timeout_s=SCENARIO_TIMEOUT_S).stdout
    offered = re.findall(r"^ +- (\S+) \[(.+)\]$", listed, re.MULTILINE)
    assert len(offered) > 40
    expected = VERSIONS.get(version, EXTENSIONS)
    assert {name for name, versions in offered if version in versions.split(",") and is_in_scope(name)} == expected


@pytest.mark.parametrize("scenario", sorted({*NEWEST, *EXTENSIONS}))
def test_a_scenario_passes_alone(scenario: str, tmp_path: Path) -> None:
    version = ("--spec-version", NEWEST[scenario]) if scenario in NEWEST else ()
    done = run_suite(
        *("client", "--command", COMMAND, "--scenario", scenario, *version),
        *("--timeout", str(TIMEOUT_MS), "-o", str(tmp_path)),
        timeout_s=SCENARIO_TIMEOUT_S,
    )
    (checks,) = read_checks(tmp_path).values()
    assert find_failures({scenario: checks}) == [], read_output(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(SUITE_TIMEOUT_S + 10)
@pytest.mark.parametrize("version", VERSIONS)
def test_all_scenarios_of_a_version_pass_at_once(version: str, tmp_path: Path) -> None:
    checks = run_at_once(tmp_path, "--spec-version", version)
    assert find_failures(checks) == [], read_output(tmp_path)
    assert checks.keys() == VERSIONS[version]


@pytest.mark.timeout(SUITE_TIMEOUT_S + 10)
def test_all_scenarios_of_the_suite_pass_at_once_with_its_extensions(tmp_path: Path) -> None:
    checks = run_at_once(tmp_path)
    assert find_failures(checks) == [], read_output(tmp_path)
    assert checks.keys() == {*NEWEST, *EXTENSIONS}


@pytest.mark.timeout(SUITE_TIMEOUT_S + 10)
@pytest.mark.parametrize(("revision", "required"), [("2025-11-25", 18), ("2026-07-28", 32)])
def test_the_requirements_of_a_revision_are_met(revision: str, required: int, tmp_path: Path) -> None:
    """The set that was frozen at its release; extensions and later scenarios are run with it."""
    done = run_suite(
        *("client", "--command", COMMAND, "--requirements", revision),
        *("--timeout", str(TIMEOUT_MS), "-o", str(tmp_path)),
        timeout_s=SUITE_TIMEOUT_S,
    )
    checks = {name: found for name, found in read_checks(tmp_path).items() if is_in_scope(name)}
    assert find_failures(checks) == [], read_output(tmp_path)
    assert checks.keys() == VERSIONS[revision] | EXTENSIONS
    assert done.returncode == 0, done.stdout + done.stderr
    listed = run_suite("list", "--requirements", revision, timeout_s=SCENARIO_TIMEOUT_S).stdout
    scored = listed.partition("Client scenarios")[2].partition("Run and reported, but never scored")[0]
    assert len(set(re.findall(r"^ +- (\S+)", scored, re.MULTILINE)) & checks.keys()) == required


def run_at_once(folder: Path, *arguments: str) -> dict[str, Checks]:
    run_suite(
        *("client", "--command", COMMAND, "--suite", "all", *arguments),
        *("--timeout", str(TIMEOUT_MS), "-o", str(folder)),
        timeout_s=SUITE_TIMEOUT_S,
    )
    return {name: found for name, found in read_checks(folder).items() if is_in_scope(name)}


def is_in_scope(scenario: str) -> bool:
    """Whether a scenario is tested here; skills are not supported."""
    return not scenario.startswith("sep-2640-")


def find_failures(checks: dict[str, Checks]) -> list[str]:
    """Return every check that is neither a success nor informational, and every scenario without checks."""
    found = [
        f"{name}: {check['id']}: {check['status']}: {check.get('errorMessage', '')}"
        for name, scenario_checks in checks.items()
        for check in scenario_checks
        if check["status"] not in ("SUCCESS", "INFO")
    ]
    successes = Counter(
        name for name, scenario_checks in checks.items() for check in scenario_checks if check["status"] == "SUCCESS"
    )
    return found + [f"{name}: nothing was examined" for name in checks if not successes[name]]


def read_checks(folder: Path) -> dict[str, Checks]:
    """Read the checks by scenario; each scenario writes a folder with its name and the time."""
    checks: dict[str, Checks] = {}
    for path in folder.rglob("checks.json"):
        match = re.fullmatch(r"(.+?)-\d{4}-\d\d-\d\dT[\d-]+Z", str(path.parent.relative_to(folder)))
        assert match is not None, path.parent
        assert match[1] not in checks, f"{match[1]} ran twice"
        checks[match[1]] = json.loads(path.read_bytes())
    return checks


def read_output(folder: Path) -> str:
    """Return the output of the clients, for failure messages."""
    outputs = [(path, path.read_text().strip()) for path in sorted(folder.rglob("std*.txt"))]
    return "\n".join(f"{path.relative_to(folder)}: {text}" for path, text in outputs if text)


def run_suite(*arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run the suite."""
    local = ROOT / ".node/bin/node"
    node = str(local) if local.exists() else shutil.which("node")
    if node is None or not SUITE.exists():
        pytest.skip("no conformance suite here: `make setup` on a machine with node and npm installs it")
    command = [node, str(SUITE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
