"""Decisions by Cedar policies."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import Principal, SettingsError, ToolAnnotations
from hubbub.governance.cedar_policy import CedarPolicy
from hubbub.governance.cedar_source import split_statements
from hubbub.governance.decision import Action, Target, TargetKind
from hubbub.governance.policy_loader import load_policy
from hubbub.governance.rule_policy import RulePolicy
from hubbub.settings.governance import GovernanceSettings, PolicySettings, TenantSettings

ALICE = Principal("red/alice#1", frozenset({"notes:write"}), tenant="red", user="alice", client="laptop")
BOB = Principal("blue/bob#1", tenant="blue", user="bob")
TENANTS = (TenantSettings(name="red"), TenantSettings(name="blue"))
WRITE = Target("tool", "notes", "write_note")
READ = Target("tool", "notes", "read_note", ToolAnnotations(read_only_hint=True))

POLICIES = """\
// Everybody may use tools; "semicolons; in strings" are not ends.
@id("tools")
permit(principal, action == Action::"call", resource)
    when { resource.server == "notes" || resource.name == "a;b//c" };

@confirm("It changes notes")
permit(principal in Tenant::"red", action == Action::"call", resource) when { resource.destructive };

@id("no-bob") @reason("Bob has left")
forbid(principal, action, resource) when { principal.user == "bob" };
"""


def effect(
    engine: CedarPolicy, target: Target, action: Action = "call", who: Principal = ALICE
) -> tuple[str, str, str]:
    decision = engine.decide(who, action, target)
    assert decision.version == engine.version
    return decision.effect, decision.rule, decision.reason


def test_permits_forbids_and_the_default_decide() -> None:
    engine = CedarPolicy(POLICIES, TENANTS)
    assert effect(engine, READ) == ("allow", "cedar.tools", "")
    assert effect(engine, READ, who=BOB) == ("deny", "cedar.no-bob", "Bob has left")
    assert effect(engine, Target("tool", "mail", "read", READ.annotations)) == (
        "deny", "default", "No policy permits this",
    )  # fmt: skip
    assert effect(engine, Target("tool", "mail", "a;b//c", READ.annotations))[0] == "allow"


def test_a_permit_with_confirm_needs_a_person_even_beside_a_general_permit() -> None:
    engine = CedarPolicy(POLICIES, TENANTS)
    assert effect(engine, WRITE) == ("confirm", "cedar.policy1", "It changes notes")
    carol = Principal("blue/carol#1", tenant="blue", user="carol")
    assert effect(engine, WRITE, who=carol) == ("allow", "cedar.tools", "")


@pytest.mark.parametrize(
    "condition",
    [
        'principal == User::"red/alice"',
        'principal in Tenant::"red"',
        'principal.tenant == "red"',
        'principal.user like "al*"',
        'principal.client == "laptop"',
        'principal.scopes.contains("notes:write")',
        'action == Action::"call"',
        'resource == Tool::"notes/write_note"',
        'resource in Server::"notes"',
        'resource.server == "notes"',
        'resource.name like "write_*"',
        "resource is Tool && resource.destructive && resource.open_world && !resource.read_only"
        " && !resource.idempotent",
    ],
)
def test_policies_can_refer_to_everything_that_is_known(condition: str) -> None:
    engine = CedarPolicy(f"permit(principal, action, resource) when {{ {condition} }};")
    assert effect(engine, WRITE)[0] == "allow"
    other = Target("prompt", "mail", "send")
    assert effect(engine, other, "get", BOB)[0] == "deny"


@pytest.mark.parametrize(
    ("kind", "action", "entity"),
    [
        ("tool", "call", "Tool"),
        ("prompt", "get", "Prompt"),
        ("resource", "read", "Resource"),
        ("template", "read", "Template"),
        ("admin", "admin", "Admin"),
    ],
)
def test_each_kind_of_target_is_an_entity_type(kind: TargetKind, action: Action, entity: str) -> None:
    engine = CedarPolicy(f'permit(principal, action == Action::"{action}", resource == {entity}::"s/x");')
    assert effect(engine, Target(kind, "s", "x"), action)[0] == "allow"
    assert effect(engine, Target(kind, "s", "y"), action)[0] == "deny"


def test_other_actions_follow_the_use_unless_a_policy_forbids_them() -> None:
    engine = CedarPolicy(POLICIES + 'forbid(principal, action == Action::"search", resource) when { true };')
    assert effect(engine, WRITE, "list") == ("allow", "cedar.policy1", "")
    assert effect(engine, WRITE, "search")[:2] == ("deny", "cedar.policy3")
    assert effect(engine, WRITE, "call")[0] == "confirm"
    assert effect(engine, Target("tool", "mail", "read", READ.annotations), "list")[:2] == ("deny", "default")


def test_what_may_not_be_called_is_not_listed_even_if_a_policy_permits_the_list() -> None:
    engine = CedarPolicy('permit(principal, action == Action::"list", resource);')
    assert effect(engine, WRITE, "list")[0] == "deny"


def test_operators_administer_unless_a_policy_forbids_it_and_can_do_nothing_else() -> None:
    operator = Principal("/root#1", frozenset({"hub:admin"}), user="root")
    logout, verify = (Target("admin", "hub", name) for name in ("hub.sessions.logout", "hub.audit.verify"))
    text = 'permit(principal, action == Action::"call", resource);\n' + (
        'forbid(principal, action, resource) when { resource.name == "hub.audit.verify" };'
    )
    engine = CedarPolicy(text, TENANTS)
    for action in ("admin", "list"):
        assert effect(engine, logout, action, operator)[:2] == ("allow", "operators")
        assert effect(engine, verify, action, operator)[0] == "deny"
    assert [check.effect for check in engine.explain(operator, "admin", logout)][-1] == "allow"
    assert effect(engine, WRITE, who=operator)[:2] == ("deny", "tenants")
    nobody = Principal("/nobody#1", user="nobody")
    assert effect(engine, logout, "admin", nobody)[:2] == ("deny", "tenants")
    assert effect(CedarPolicy(text), logout, "admin", operator)[:2] == ("deny", "default"), "there are no tenants"


def test_restrictions_of_tenants_come_before_the_policies() -> None:
    everything = "permit(principal, action, resource);"
    engine = CedarPolicy(everything, (TenantSettings(name="red", servers=("mail",)),))
    assert effect(engine, WRITE)[:2] == ("deny", "tenants.red.servers")
    assert effect(engine, Target("tool", "mail", "send"))[0] == "allow"
    assert effect(engine, WRITE, who=BOB)[:2] == ("deny", "tenants")


def test_a_policy_that_fails_denies() -> None:
    # An overflow cannot be found by validation, and Cedar itself skips a policy that fails.
    engine = CedarPolicy(
        "permit(principal, action, resource);\n"
        "forbid(principal, action, resource)"
        " when { 9223372036854775807 + (if resource.server like \"*\" then 1 else 0) == 1 };"
    )  # fmt: skip
    assert effect(engine, WRITE)[:2] == ("deny", "error")
    assert effect(engine, WRITE, "list")[:2] == ("deny", "error")


def test_names_that_are_not_valid_text_are_denied() -> None:
    engine = CedarPolicy("permit(principal, action, resource);")
    assert effect(engine, Target("tool", "notes", "x\udc80"))[:2] == ("deny", "error")
    assert effect(engine, Target("tool", "notes", 'a"b\n\x00::é'))[0] == "allow"


def test_groups_distinguish_what_policies_can_distinguish() -> None:
    engine = CedarPolicy(POLICIES)
    same = Principal("other", ALICE.scopes, tenant="red", user="alice", client="laptop", credential="2")
    assert engine.group(ALICE) == engine.group(same)
    for change in ({"tenant": "blue"}, {"user": "al"}, {"client": "phone"}, {"scopes": frozenset({"x"})}):
        fields: dict[str, Any] = {
            "name": "x", "tenant": "red", "user": "alice", "client": "laptop", "scopes": ALICE.scopes,
        }  # fmt: skip
        assert engine.group(Principal(**(fields | change))) != engine.group(ALICE)


def test_the_version_changes_with_the_text_and_the_tenants() -> None:
    versions = {
        CedarPolicy(POLICIES).version,
        CedarPolicy(POLICIES + "\n").version,
        CedarPolicy(POLICIES, TENANTS).version,
        CedarPolicy(POLICIES, TENANTS[:1]).version,
    }
    assert len(versions) == 4


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("permit(principal, action, resource);\n\npermit(principal action, resource);", "line 3: unexpected token"),
        ("permit(principal, action, resource)", "line 1: unexpected end"),
        ("// a\n@id(\"x\")\npermit(principal, action, resource) when { nothing };",
         "line 2: invalid variable: nothing"),
        ("permit(principal, action, resource);\nforbid(principal, action == Action::\"cal\", resource);",
         'line 2: unrecognized action `Action::"cal"`'),
        ("\nforbid(principal, action == Action::\"call\", resource) when { resource.distructive };",
         "line 2: attribute `distructive` on entity type `Tool` not found"),
        ("permit(principal == ?principal, action, resource);", "line 1: templates are not supported"),
        ("permit(principal, action, resource);\n@confirm(\"x\") forbid(principal, action, resource);",
         "line 2: @confirm has no effect on forbid"),
    ],
)  # fmt: skip
def test_an_invalid_policy_is_named_with_file_and_line(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "team.cedar"
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_policy(GovernanceSettings(policy=PolicySettings(engine="cedar", file=str(file))))
    assert f"{file} {problem}" in caught.value.message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    def load(path: Path) -> None:
        load_policy(GovernanceSettings(policy=PolicySettings(engine="cedar", file=str(path))))

    with pytest.raises(SettingsError, match=r"missing\.cedar' cannot be read: No such file"):
        load(tmp_path / "missing.cedar")
    (tmp_path / "binary.cedar").write_bytes(b"// a\n\xff")
    with pytest.raises(SettingsError, match=r"binary\.cedar line 2: is not UTF-8"):
        load(tmp_path / "binary.cedar")
    (tmp_path / "large.cedar").write_bytes(b" " * (1024 * 1024 + 1))
    with pytest.raises(SettingsError, match="is larger than 1048576 bytes"):
        load(tmp_path / "large.cedar")


def test_the_settings_choose_the_engine(tmp_path: Path) -> None:
    assert isinstance(load_policy(GovernanceSettings()), RulePolicy)
    file = tmp_path / "a.cedar"
    file.write_text(POLICIES)
    loaded = load_policy(GovernanceSettings(tenants=TENANTS, policy=PolicySettings(engine="cedar", file=str(file))))
    assert loaded.version == CedarPolicy(POLICIES, TENANTS).version


def test_without_the_library_the_error_names_the_command_that_installs_it() -> None:
    program = (
        "import sys; sys.modules['cedarpy'] = None\n"
        "from hubbub.governance.cedar_policy import CedarPolicy\n"
        "from hubbub.errors import SettingsError\n"
        "try: CedarPolicy('')\n"
        "except SettingsError as error: print(error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "pip install 'hubbub[cedar]'" in done.stdout


def test_a_policy_of_rules_does_not_load_the_library() -> None:
    program = (
        "import sys\n"
        "from hubbub.governance.policy_loader import load_policy\n"
        "from hubbub.settings.governance import GovernanceSettings\n"
        "load_policy(GovernanceSettings())\n"
        "print('cedarpy' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


def test_an_explanation_shows_each_policy_and_the_decision() -> None:
    engine = CedarPolicy(POLICIES, TENANTS)
    checks = [(c.action, c.rule, c.effect, c.is_match) for c in engine.explain(ALICE, "list", WRITE)]
    assert checks == [
        ("call", "cedar.tools", "allow", True),
        ("call", "cedar.policy1", "confirm", True),
        ("call", "cedar.no-bob", "deny", False),
        ("list", "cedar.tools", "allow", False),
        ("list", "cedar.policy1", "confirm", False),
        ("list", "cedar.no-bob", "deny", False),
        ("list", "cedar.policy1", "allow", True),
    ]
    stranger = engine.explain(Principal("x", tenant="green"), "call", WRITE)
    assert [(c.rule, c.effect) for c in stranger] == [("tenants", "deny")]


def test_policies_are_listed_with_their_lines() -> None:
    rows = CedarPolicy(POLICIES, TENANTS).list_rules()
    assert [(row.rule, row.effect, row.line) for row in rows] == [
        ("tenants", "deny", None),
        ("cedar.tools", "allow", 2),
        ("cedar.policy1", "confirm", 6),
        ("cedar.no-bob", "deny", 9),
        ("default", "deny", None),
    ]


statements = st.sampled_from([
    'permit(principal, action, resource) when { resource.name == ";\\"//" };',
    'forbid(principal, action, resource is Tool) // ; "\n when { "a" == "//" };',
    '@id("a;b")\npermit(principal, action, resource);',
])  # fmt: skip
gaps = st.sampled_from(["", "\n", "// permit(;\n", ' // "\n\n', "\t"])


@given(st.lists(st.tuples(gaps, statements), max_size=6), gaps)
def test_statements_are_split_where_cedar_splits_them(parts: list[tuple[str, str]], end: str) -> None:
    text = "".join(gap + statement for gap, statement in parts) + end
    found = split_statements(text)
    assert [statement.text for statement in found] == [statement for _, statement in parts]
    lines, before = [], ""
    for gap, statement in parts:
        lines.append((before + gap).count("\n") + 1)
        before += gap + statement
    assert [statement.line for statement in found] == lines
    rules = [row for row in CedarPolicy(text).list_rules() if row.rule != "default"]
    assert [row.effect for row in rules] == ["deny" if "forbid" in statement else "allow" for _, statement in parts]
