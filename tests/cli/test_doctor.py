"""`hubbub doctor`: its checks, and when they fail."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hubbub import __version__

Run = Callable[..., subprocess.CompletedProcess[str]]
MOON_ADVICE = "install Hubbub with its extra 'moon' (in a clone: pip install -e '.[moon]')"


def read_diagnosis(done: subprocess.CompletedProcess[str]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the whole diagnosis, the checks by name and the packs by name."""
    diagnosis = json.loads(done.stdout)
    checks, packs = ({each["name"]: each for each in diagnosis[key]} for key in ("checks", "packs"))
    return diagnosis, checks, packs


def test_the_version_is_printed(hubbub: Run) -> None:
    assert hubbub("--version").stdout == f"hubbub {__version__}\n"


def test_python_libraries_and_settings_are_checked(hubbub: Run) -> None:
    done = hubbub("doctor", "--json")
    diagnosis, checks, packs = read_diagnosis(done)
    assert diagnosis["version"] == __version__
    assert all(checks[name]["ok"] for name in ("python", "msgspec", "click", "settings"))
    assert diagnosis["ok"] == all(check["ok"] for check in checks.values())
    assert done.returncode == (0 if diagnosis["ok"] else 1)
    assert packs["demo"]["ok"]
    assert packs["demo"]["distribution"] == "hubbub"


def test_third_party_packs_are_listed_with_their_missing_modules(hubbub: Run, third_party: str) -> None:
    _, _, packs = read_diagnosis(hubbub("doctor", "--json", PYTHONPATH=third_party))
    assert list(packs) == ["activity", "demo", "peers", "tabletop", "moon", "tides", "wreck"]
    tides, moon, wreck = packs["tides"], packs["moon"], packs["wreck"]
    assert (tides["ok"], tides["distribution"], tides["version"]) == (True, "tides", "2.1.0")
    assert (tides["commands"], tides["profiles"]) == (["tide-table"], ["calm", "full"])
    assert tides["checks"] == [
        {"name": "almanac", "ok": False, "detail": "has no key", "advice": "give --almanac-key", "optional": False}
    ]
    assert (moon["ok"], moon["advice"]) == (False, MOON_ADVICE)
    assert not wreck["ok"]
    assert "ran aground" in wreck["detail"]


def test_only_named_packs_must_work(hubbub: Run, third_party: str) -> None:
    full_diagnosis, _, _ = read_diagnosis(hubbub("doctor", "--json", PYTHONPATH=third_party))
    for name, environ, ok in (("moon", {}, False), ("tides", {}, False), ("tides", {"HUBBUB_TIDES_KEY": "k"}, True)):
        done = hubbub("doctor", "--json", name, PYTHONPATH=third_party, **environ)
        assert read_diagnosis(done)[0]["ok"] == (ok and full_diagnosis["ok"])
    wrong = hubbub("doctor", "tidse", PYTHONPATH=third_party)
    assert (wrong.returncode, wrong.stderr) == (2, "hubbub: unknown pack 'tidse'; did you mean 'tides'?\n")


def test_wrong_settings_are_a_failure(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "hubbub.toml").write_text("port = 'many'\n")
    done = hubbub("doctor", "--json", HUBBUB_CONFIG="hubbub.toml")
    _, checks, _ = read_diagnosis(done)
    assert done.returncode == 1
    assert "hubbub.toml line 1: port" in checks["settings"]["detail"]


def test_text_output_lists_checks_with_advice(hubbub: Run, third_party: str) -> None:
    lines = hubbub("doctor", PYTHONPATH=third_party).stdout.splitlines()
    assert lines[0] == f"hubbub {__version__}"
    at = next(number for number, line in enumerate(lines) if line.split()[:2] == ["--", "moon"])
    assert f"-> {MOON_ADVICE}" in "".join(lines[at : at + 3])


def test_servers_of_the_settings_file_are_checked_but_not_started(hubbub: Run, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text("raise SystemExit('started')")
    (tmp_path / "hubbub.toml").write_text(
        """
[servers.shell]
command = "sh"
[servers.none]
command = "no-such-program"
[servers.far]
url = "https://example.com/mcp"
headers = { Authorization = "Bearer ${HUBBUBLESS_TOKEN}" }
[servers.program]
target = "there.py"
[servers.gone]
target = "gone.py"
[servers.pack]
pack = "dmeo"
[servers.off]
command = "no-such-program"
enabled = false
"""
    )
    diagnosis = json.loads(hubbub("doctor", "--json", HUBBUB_CONFIG="hubbub.toml").stdout)
    assert {check["name"]: check["ok"] for check in diagnosis["servers"]} == {
        "shell": True,
        "none": False,
        "far": False,
        "program": True,
        "gone": False,
        "pack": False,
        "off": True,
    }
    shown = hubbub("doctor", HUBBUB_CONFIG="hubbub.toml").stdout
    assert "'no-such-program' is not on the PATH" in shown
    assert "needs the variable HUBBUBLESS_TOKEN" in shown
    assert "did you mean 'demo'?" in shown


def test_a_literal_secret_is_reported_where_there_are_tenants(hubbub: Run, tmp_path: Path) -> None:
    section = '[servers.far]\nurl = "https://example.com/mcp"\nheaders = {Authorization = "Bearer canary-4711"}\n'
    (tmp_path / "hubbub.toml").write_text(f'[[tenants]]\nname = "a"\n{section}')
    done = hubbub("doctor", HUBBUB_CONFIG="hubbub.toml")
    assert "servers.far.headers.Authorization contains a secret; with tenants" in done.stdout
    assert "canary-4711" not in done.stdout + done.stderr
