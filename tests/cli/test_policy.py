"""`hubbub policy`: what a policy decides, shown without a hub."""

import json
from pathlib import Path
from typing import Any

import pytest

from hubbub.cli.main import main

pytestmark = pytest.mark.usefixtures("own_folders")

SETTINGS = """\
[[tenants]]
name = "red"
servers = ["notes", "files"]

[[tenants]]
name = "blue"

[policy]
default = "deny"

[[policy.rules]]
effect = "deny"
tenants = ["blue"]
tools = ["write_*"]
reason = "Blue only reads"

[[policy.rules]]
effect = "confirm"
annotations = ["destructive"]
reason = "It may delete notes"

[[policy.rules]]
effect = "allow"
scopes = ["notes:*"]
"""
RED = ("--tenant", "red", "--user", "alice")


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "team.toml"
    file.write_text(SETTINGS)
    return str(file)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    code = main(["policy", *arguments])
    return code, capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("arguments", "code", "effect", "rule"),
    [
        ((*RED, "call", "notes/write_note"), 3, "confirm", "line 17: policy.rules[1]"),
        ((*RED, "list", "notes/write_note"), 0, "allow", "line 17: policy.rules[1]"),
        ((*RED, "--scope", "x", "--scope", "notes:read", "--annotation", "read_only", "call", "notes/read_note"),
         0, "allow", "line 22: policy.rules[2]"),
        ((*RED, "--annotation", "!destructive", "call", "notes/read_note"), 1, "deny", "line 9: default"),
        (("--tenant", "blue", "call", "notes/write_note"), 1, "deny", "line 11: policy.rules[0]"),
        ((*RED, "call", "mail/send"), 1, "deny", "line 1: tenants.red.servers"),
        ((*RED, "read", "files/file:///etc/hosts"), 1, "deny", "line 9: default"),
        ((*RED, "admin", "hub.pins"), 3, "confirm", "line 17: policy.rules[1]"),
        ((*RED, "--kind", "prompt", "list", "notes/write_note"), 1, "deny", "line 9: default"),
    ],
)  # fmt: skip
def test_the_exit_code_and_the_line_of_the_rule_tell_the_decision(
    config: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, effect: str, rule: str
) -> None:
    assert run(capsys, "test", "--config", config, *arguments)[0] == code
    _, lines = run(capsys, "test", "--config", config, *arguments)
    assert lines[:2] == [effect, f"rule: {config} {rule}"]


def test_the_reason_is_shown(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = run(capsys, "test", "--config", config, "--tenant", "blue", "call", "notes/write_note")
    assert lines[2:] == ["reason: Blue only reads"]
    _, lines = run(capsys, "test", "--config", config, "--tenant", "green", "call", "notes/write_note")
    assert lines == ["deny", "rule: tenants", "reason: The caller does not belong to a tenant of this hub"]


def test_an_explanation_shows_the_rules_before_the_decision(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(capsys, "test", "--config", config, *RED, "--explain", "call", "notes/write_note")
    assert code == 3
    assert lines[:3] == [
        f"no match deny     {config} line 11: policy.rules[0]: tenant 'red' does not match blue",
        f"match    confirm  {config} line 17: policy.rules[1]",
        "confirm",
    ]


def test_the_decision_can_be_read_as_json(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(capsys, "test", "--config", config, *RED, "--json", "--explain", "call", "notes/write_note")
    answer: dict[str, Any] = json.loads(lines[0])
    assert code == 3
    assert (answer["effect"], answer["rule"], answer["location"], answer["reason"]) == (
        "confirm", "policy.rules[1]", f"{config} line 17: policy.rules[1]", "It may delete notes",
    )  # fmt: skip
    assert [(check["matches"], check["rule"]) for check in answer["checks"]] == [
        (False, "policy.rules[0]"),
        (True, "policy.rules[1]"),
    ]


def test_the_policy_is_shown_with_lines_and_version(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(capsys, "show", "--config", config)
    assert code == 0
    assert lines[:-1] == [
        "deny     tenants  callers without one of the tenants",
        f"deny     {config} line 1: tenants.red.servers  servers other than: notes, files",
        f"deny     {config} line 11: policy.rules[0]  tenants: blue; tools: write_*  (Blue only reads)",
        f"confirm  {config} line 17: policy.rules[1]  annotations: destructive  (It may delete notes)",
        f"allow    {config} line 22: policy.rules[2]  scopes: notes:*",
        f"deny     {config} line 9: default",
    ]
    _, (text,) = run(capsys, "show", "--config", config, "--json")
    shown = json.loads(text)
    assert (shown["engine"], len(shown["rules"])) == ("rules", 6)
    assert lines[-1] == f"version  {shown['version']}"


def test_programs_are_denied_to_tenants_that_may_not_use_them_as_in_a_hub(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "team.toml"
    file.write_text(
        '[servers.shell]\ncommand = "true"\n[servers.notes]\nurl = "https://notes.example.com/mcp"\n'
        '[[tenants]]\nname = "red"\n[[tenants]]\nname = "ops"\nallow_stdio = true\n'
    )
    options = ("--config", str(file), "--user", "alice")
    assert run(capsys, "test", *options, "--tenant", "red", "call", "shell/run") == (
        1, ["deny", f"rule: {file} line 5: tenants.red.servers", "reason: The tenant red may not use this server"],
    )  # fmt: skip
    assert run(capsys, "test", *options, "--tenant", "red", "call", "notes/x")[0] == 0
    assert run(capsys, "test", *options, "--tenant", "ops", "call", "shell/run")[0] == 0


def test_without_settings_everything_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "test", "call", "notes/x") == (0, ["allow", "rule: default"])


def test_cedar_policies_are_shown_with_their_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cedar, settings = tmp_path / "team.cedar", tmp_path / "team.toml"
    cedar.write_text('\n@id("ask") @confirm("Really?")\npermit(principal, action == Action::"call", resource);\n')
    settings.write_text(f'[policy]\nengine = "cedar"\nfile = "{cedar}"\n')
    code, lines = run(capsys, "test", "--config", str(settings), "call", "notes/x")
    assert (code, lines) == (3, ["confirm", f"rule: {cedar} line 2: cedar.ask", "reason: Really?"])
    cedar.write_text("\n\npermit(principal, action resource);\n")
    assert main(["policy", "show", "--config", str(settings)]) == 2
    assert f"{cedar} line 3: unexpected token" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[[policy.rules]]\neffect = "allow"\n[[policy.rules]]\neffect = "maybe"\n', "line 4: policy.rules[1].effect"),
        ('[[policy.rules]]\neffect = "deny"\nannotations = ["readonly"]\n', "line 3: policy.rules[0].annotations[0]"),
        ('[[policy.rules]]\neffect = "deny"\ntool = ["x"]\n', "did you mean 'tools'"),
        ('[policy]\nengine = "cedar"\n', "line 2: policy.engine is cedar, so `file` must name a file"),
        ('[policy]\nengine = "cedar"\nfile = "x"\n[[policy.rules]]\neffect = "deny"\n', "`rules` would be ignored"),
        ('[policy]\nfile = "x.cedar"\n', "line 2: policy.file would be ignored"),
    ],
)
def test_an_invalid_policy_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    file = tmp_path / "broken.toml"
    file.write_text(text)
    assert main(["policy", "test", "--config", str(file), "call", "notes/x"]) == 2
    error = capsys.readouterr().err
    assert str(file) in error
    assert problem in error


def test_a_server_that_the_settings_do_not_have_causes_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "team.toml"
    file.write_text('[servers.weather]\nurl = "https://weather.example/mcp"\n[policy]\ndefault = "allow"\n')
    for target, warning in (("wether/get", "no server 'wether'; did you mean 'weather'?"), ("weather/get", "")):
        assert main(["policy", "test", "--config", str(file), "call", target]) == 0
        written = capsys.readouterr()
        assert written.out.startswith("allow\n")
        assert warning in written.err
        assert bool(written.err) == bool(warning)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("call", "notes"), "must look like SERVER/NAME"),
        (("call", "/x"), "must look like SERVER/NAME"),
        (("run", "notes/x"), "'run' is not one of"),
        (("--annotation", "read_only", "--annotation", "!read_only", "call", "notes/x"), "contradict"),
    ],
)
def test_wrong_arguments_are_named(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], problem: str
) -> None:
    assert main(["policy", "test", *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_rules_of_the_users_own_file_are_located_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from hubbub.settings.folders import user_settings_path

    own = Path(user_settings_path())
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text('# mine\n[[policy.rules]]\neffect = "deny"\n')
    named = tmp_path / "other.toml"
    named.write_text("port = 1234\n[hub]\nreload = false\n")
    assert run(capsys, "test", "--config", str(named), "call", "notes/x") == (
        1, ["deny", f"rule: {own} line 2: policy.rules[0]"],
    )  # fmt: skip
