"""`make test` on every supported Python (discovery and summary), and the smoke test."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
TOOLS = ("bash", "cat", "dirname", "env", "head", "mkdir", "rm", "sed", "sh", "sort", "tr")
CLASSIFIERS = "".join(
    f'    "Programming Language :: Python :: {version}",\n' for version in ("3 :: Only", "3.11", "3.12")
)

# A fake interpreter: passes the probe, reports its version, and "runs" pytest with a given outcome.
PYTHON = """#!/bin/sh
for word; do
    case $word in
    --junit-xml=*-again.xml)
        echo "Ran again $*"
        echo '<testsuites><testsuite name="pytest" {again} time="1.0"></testsuite></testsuites>' >"${{word#*=}}"
        exit {again_status} ;;
    --junit-xml=*)
        echo "Ran $0 $*" | sed "s|$PWD/||"
        echo '<testsuites><testsuite name="pytest" {counts} time="1.0">{cases}</testsuite></testsuites>' >"${{word#*=}}"
        exit {status} ;;
    esac
done
[ "$#" -gt 2 ] || echo 3.11
"""
GREEN = 'errors="0" failures="0" skipped="2" tests="12"'
RED = 'errors="1" failures="2" skipped="0" tests="10"'
GREEN_AGAIN = 'errors="0" failures="0" skipped="0" tests="3"'
CASES = "".join(
    f'<testcase classname="tests.hub" name="test_{number}" time="1.0"><{kind} message="x">y</{kind}></testcase>'
    for number, kind in enumerate(("failure", "error", "failure"))
)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


class Checkout:
    """A copy of the scripts, with only the interpreters that a test installs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.pyenv = folder / "checkout", folder / "bin", folder / "pyenv"
        for name in ("pythons", "test"):
            write(self.folder / "scripts" / name, (SCRIPTS / name).read_text())
        write(self.folder / "scripts" / "setup", "#!/bin/sh\necho set up $2 with $PYTHON\n")
        write(self.folder / "pyproject.toml", CLASSIFIERS)
        self.path.mkdir()
        for tool in TOOLS:
            (self.path / tool).symlink_to(shutil.which(tool) or pytest.fail(f"no {tool} here"))

    def run(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.path), "PYENV_ROOT": str(self.pyenv), **variables}
        command = [str(self.folder / "scripts" / script), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    def install(self, version: str, counts: str = GREEN, status: int = 0, again: str = RED) -> None:
        """Put an interpreter on PATH and into the environment that the tests of its version run in."""
        cases = CASES if status else ""
        again_status = 1 if again == RED else 0
        python = PYTHON.format(counts=counts, status=status, cases=cases, again=again, again_status=again_status)
        write(self.path / f"python{version}", python)
        write(self.folder / (".venv" if version == "3.11" else f".venv-{version}") / "bin" / "python", python)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_an_interpreter_that_does_not_run_is_skipped(checkout: Checkout) -> None:
    write(checkout.path / "python3.12", "#!/bin/sh\necho 'pyenv: python3.12: command not found' >&2\nexit 127\n")
    for patch in ("3.12.9", "3.12.10", "3.10.1"):
        write(checkout.pyenv / "versions" / patch / "bin" / "python", "#!/bin/sh\n")
    assert checkout.run("pythons").stdout.splitlines() == [
        "3.11",
        f"3.12 {checkout.pyenv}/versions/3.12.10/bin/python",
    ]


def test_the_summary_lists_versions_and_totals(checkout: Checkout) -> None:
    checkout.install("3.11")
    checkout.install("3.12")
    done = checkout.run("test", "-k", "framing")
    assert done.returncode == 0, done.stderr
    ran = [line.split() for line in done.stdout.splitlines() if line.startswith("Ran")]
    assert [line[1] for line in ran] == [".venv/bin/python", ".venv-3.12/bin/python"]
    assert all(line[-2:] == ["-k", "framing"] for line in ran)
    assert ["--ignore=tests/browser" in line for line in ran] == [False, True]
    assert done.stdout.splitlines()[-3:] == [
        "Python 3.11  10 passed, 0 failed, 2 skipped: everything",
        "Python 3.12  10 passed, 0 failed, 2 skipped: what needs no desktop, browser or Node",
        "20 passed, 0 failed, 4 skipped",
    ]


@pytest.mark.parametrize("version", ["3.11", "3.12"])
def test_a_failure_on_one_version_fails_the_run_but_not_the_other_versions(checkout: Checkout, version: str) -> None:
    checkout.install("3.11")
    checkout.install("3.12")
    checkout.install(version, RED, status=1)
    done = checkout.run("test")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "17 passed, 3 failed, 2 skipped"


def test_tests_that_pass_on_retry_are_listed_and_do_not_fail_the_run(checkout: Checkout) -> None:
    checkout.install("3.11", RED, status=1, again=GREEN_AGAIN)
    done = checkout.run("test", ONE_PYTHON="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == [
        "Python 3.11  unsteady, failed only beside other tests: test_0 test_1 test_2 ",
        "Python 3.11  10 passed, 0 failed, 0 skipped: everything",
        "10 passed, 0 failed, 0 skipped",
    ]


@pytest.mark.parametrize(("failures", "variables"), [("2", {"NO_RETRY": "1"}), ("6", {})])
def test_many_failures_are_not_retried(checkout: Checkout, failures: str, variables: dict[str, str]) -> None:
    counts = f'errors="0" failures="{failures}" skipped="0" tests="10"'
    checkout.install("3.11", counts, status=1, again=GREEN_AGAIN)
    done = checkout.run("test", ONE_PYTHON="1", **variables)
    assert done.returncode == 1
    assert "Ran again" not in done.stdout
    assert done.stdout.splitlines()[-1] == f"{10 - int(failures)} passed, {failures} failed, 0 skipped"


def test_a_missing_version_is_listed(checkout: Checkout) -> None:
    checkout.install("3.11")
    done = checkout.run("test")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2] == "Python 3.12  not found, neither on PATH nor under pyenv"


def test_one_python_can_be_tested_alone(checkout: Checkout) -> None:
    checkout.install("3.11")
    checkout.install("3.12")
    done = checkout.run("test", ONE_PYTHON="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == [
        "Python 3.11  10 passed, 0 failed, 2 skipped: everything",
        "10 passed, 0 failed, 2 skipped",
    ]


def test_a_version_whose_setup_fails_fails_the_run(checkout: Checkout) -> None:
    checkout.install("3.11")
    checkout.install("3.12")
    write(checkout.folder / "scripts" / "setup", "#!/bin/sh\nexit 1\n")
    done = checkout.run("test")
    assert done.returncode == 1
    assert "Python 3.12  could not be set up" in done.stdout


def test_a_selection_that_is_empty_on_other_versions_is_not_a_failure(checkout: Checkout) -> None:
    checkout.install("3.11")
    checkout.install("3.12", 'errors="0" failures="0" skipped="0" tests="0"', status=5)
    assert checkout.run("test", "-k", "browser").returncode == 0
    checkout.install("3.11", 'errors="0" failures="0" skipped="0" tests="0"', status=5)
    assert checkout.run("test", "-k", "nothing").returncode == 5


def test_the_smoke_test_calls_an_example_over_stdio_and_http() -> None:
    done = subprocess.run([sys.executable, SCRIPTS / "smoke.py"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert [line.rpartition(": ")[2] for line in done.stdout.splitlines()] == ["ok"] * 4
