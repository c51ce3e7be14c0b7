"""Decisions by the rules of the settings."""

from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.governance.reference_policy import decide_slowly

from hubbub import Principal, ToolAnnotations
from hubbub.governance.decision import USE_ACTIONS, Action, Target, TargetKind
from hubbub.governance.rule_policy import (
    CACHED_CALLERS,
    CACHED_DECISIONS,
    MAX_CACHED_CHARACTERS,
    RulePolicy,
)
from hubbub.settings.governance import ActionName, AnnotationName, PolicyRule, PolicySettings, TenantSettings

ALICE = Principal("red/alice#1", frozenset({"notes:read"}), tenant="red", user="alice")
BOB = Principal("blue/bob#1", tenant="blue", user="bob")
RED, BLUE = TenantSettings(name="red"), TenantSettings(name="blue")
WRITE = Target("tool", "notes", "write_note")
READ = Target("tool", "notes", "read_note", ToolAnnotations(read_only_hint=True))


def policy(*rules: PolicyRule, default: Any = "allow", tenants: tuple[TenantSettings, ...] = (RED, BLUE)) -> RulePolicy:
    return RulePolicy(PolicySettings(rules=rules, default=default), tenants)


def effect(engine: RulePolicy, target: Target, action: Action = "call", who: Principal = ALICE) -> tuple[str, str]:
    decision = engine.decide(who, action, target)
    assert decision.version == engine.version
    return decision.effect, decision.rule


# -- operators ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("default", ["allow", "deny"])
def test_operators_administer_unless_a_rule_denies_it_and_can_do_nothing_else(default: str) -> None:
    operator = Principal("/root#1", frozenset({"hub:admin"}), user="root")
    logout, verify = (Target("admin", "hub", name) for name in ("hub.sessions.logout", "hub.audit.verify"))
    engine = policy(
        PolicyRule(effect="deny", actions=("admin",), tools=("hub.audit.*",)),
        PolicyRule(effect="deny", actions=("list",), tools=("hub.sessions.*",)),
        PolicyRule(effect="allow", tools=("write_note",)),
        default=default,
    )
    assert effect(engine, logout, "admin", operator) == ("allow", "operators")
    assert effect(engine, logout, "list", operator) == ("deny", "policy.rules[1]")
    assert effect(engine, verify, "admin", operator) == ("deny", "policy.rules[0]")
    assert [check.rule for check in engine.explain(operator, "admin", logout)][-1] == "operators"
    for target in (WRITE, Target("resource", "notes", "note://1"), Target("prompt", "notes", "note")):
        assert effect(engine, target, USE_ACTIONS[target.kind], operator) == ("deny", "tenants")
        assert effect(engine, target, "list", operator) == ("deny", "tenants")
    assert effect(engine, logout, "admin", Principal("/nobody#1", user="nobody")) == ("deny", "tenants")
    assert effect(policy(default="deny", tenants=()), logout, "admin", operator) == ("deny", "default")


# -- which rule decides ------------------------------------------------------------------------------


def test_the_first_matching_rule_decides_and_gives_its_reason() -> None:
    engine = policy(
        PolicyRule(effect="allow", users=("carol",)),
        PolicyRule(effect="confirm", tools=("write_*",), reason="It changes notes"),
        PolicyRule(effect="deny"),
    )
    decision = engine.decide(ALICE, "call", WRITE)
    assert (decision.effect, decision.rule, decision.reason) == ("confirm", "policy.rules[1]", "It changes notes")
    assert effect(engine, READ) == ("deny", "policy.rules[2]")


@pytest.mark.parametrize("default", ["allow", "deny"])
def test_the_default_decides_if_no_rule_matches(default: str) -> None:
    assert effect(policy(PolicyRule(effect="confirm", users=("carol",)), default=default), WRITE) == (
        default,
        "default",
    )


@pytest.mark.parametrize(
    "condition",
    [
        {"tenants": ("r?d", "x")},
        {"users": ("ali*",)},
        {"scopes": ("admin", "notes:*")},
        {"servers": ("note[st]",)},
        {"tools": ("*_note",)},
        {"tools": ("notes/write_*",)},
        {"annotations": ("destructive",)},
        {"actions": ("get", "call")},
    ],
)  # fmt: skip
def test_a_rule_matches_by_each_of_its_conditions(condition: dict[str, Any]) -> None:
    engine = policy(PolicyRule(effect="deny", **condition))
    assert effect(engine, WRITE) == ("deny", "policy.rules[0]")
    stranger = Principal("blue/bob#2", frozenset({"Notes:read"}), tenant="blue", user="Alice")
    other = Target("resource", "Notes", "note_write")
    assert effect(engine, other, "read", stranger) == ("allow", "default")


def test_all_conditions_of_a_rule_must_match() -> None:
    engine = policy(PolicyRule(effect="deny", users=("alice",), servers=("mail",)))
    assert effect(engine, WRITE) == ("allow", "default")
    assert effect(engine, Target("tool", "mail", "send"), who=BOB) == ("allow", "default")
    assert effect(engine, Target("tool", "mail", "send")) == ("deny", "policy.rules[0]")


def test_a_server_cannot_pass_for_another_with_a_slash_in_a_tool_name() -> None:
    engine = policy(PolicyRule(effect="allow", tools=("notes/read_*",)), default="deny")
    assert effect(engine, READ) == ("allow", "policy.rules[0]")
    assert effect(engine, Target("tool", "evil", "notes/read_note")) == ("deny", "default")


def test_uris_are_matched_alone_and_with_their_server() -> None:
    secret = Target("resource", "files", "file:///etc/secret")
    for pattern in ("file:///etc/*", "files/file:///etc/*", "*://*/secret", "*/secret", "*secret"):
        assert effect(policy(PolicyRule(effect="deny", tools=(pattern,))), secret, "read")[0] == "deny", pattern
    for pattern in ("file:///tmp/*", "other/file:///etc/*", "secret"):
        assert effect(policy(PolicyRule(effect="deny", tools=(pattern,))), secret, "read")[0] == "allow", pattern


def test_a_pattern_with_many_stars_is_matched_in_reasonable_time() -> None:
    engine = policy(PolicyRule(effect="deny", tools=("*a" * 40 + "*b",)))
    assert effect(engine, Target("tool", "notes", "a" * 5000))[0] == "allow"


# -- annotations -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (None, {"!read_only", "destructive", "!idempotent", "open_world"}),
        (ToolAnnotations(), {"!read_only", "destructive", "!idempotent", "open_world"}),
        (ToolAnnotations(read_only_hint=True), {"read_only", "!destructive", "idempotent", "open_world"}),
        (ToolAnnotations(destructive_hint=False), {"!read_only", "!destructive", "!idempotent", "open_world"}),
        (
            ToolAnnotations(idempotent_hint=True, open_world_hint=False),
            {"!read_only", "destructive", "idempotent", "!open_world"},
        ),
        (
            ToolAnnotations(read_only_hint=True, destructive_hint=True),
            {"read_only", "destructive", "idempotent", "open_world"},
        ),
    ],
)
def test_absent_hints_have_the_defaults_of_the_specification(
    annotations: ToolAnnotations | None, expected: set[str]
) -> None:
    target = Target("tool", "notes", "x", annotations)
    matching = {
        name
        for name in get_args(AnnotationName)
        if effect(policy(PolicyRule(effect="deny", annotations=(name,))), target)[0] == "deny"
    }
    assert matching == expected


def test_rules_about_annotations_do_not_match_prompts_and_resources() -> None:
    engine = policy(PolicyRule(effect="deny", annotations=("read_only", "!read_only")))
    for kind in ("prompt", "resource", "template"):
        assert effect(engine, Target(kind, "notes", "x"), USE_ACTIONS[kind])[0] == "allow"
    assert effect(engine, Target("admin", "hub", "x"), "admin")[0] == "deny"


# -- actions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["list", "search", "complete", "subscribe", "read"])
def test_what_may_not_be_called_is_not_seen(action: Action) -> None:
    engine = policy(PolicyRule(effect="deny", tools=("write_*",), actions=("call",)), PolicyRule(effect="allow"))
    assert effect(engine, WRITE, action) == ("deny", "policy.rules[0]")
    assert effect(engine, READ, action) == ("allow", "policy.rules[1]")


@pytest.mark.parametrize("action", ["list", "search", "complete"])
def test_other_actions_follow_the_use_even_if_a_general_rule_denies_them(action: Action) -> None:
    engine = policy(PolicyRule(effect="allow", actions=("call",)), PolicyRule(effect="deny"), default="deny")
    assert effect(engine, WRITE, action) == ("allow", "policy.rules[0]")


def test_a_rule_can_deny_a_single_action() -> None:
    engine = policy(PolicyRule(effect="deny", actions=("search",)))
    assert effect(engine, WRITE, "search") == ("deny", "policy.rules[0]")
    assert effect(engine, WRITE, "list") == ("allow", "default")
    assert effect(engine, WRITE, "call") == ("allow", "default")


def test_an_earlier_general_rule_comes_before_one_about_a_single_action() -> None:
    engine = policy(PolicyRule(effect="allow", users=("alice",)), PolicyRule(effect="deny", actions=("search",)))
    assert effect(engine, WRITE, "search") == ("allow", "policy.rules[0]")
    assert effect(engine, WRITE, "search", BOB) == ("deny", "policy.rules[1]")


def test_what_needs_confirmation_is_listed_without() -> None:
    engine = policy(PolicyRule(effect="confirm", reason="Ask first"))
    assert effect(engine, WRITE) == ("confirm", "policy.rules[0]")
    listed = engine.decide(ALICE, "list", WRITE)
    assert (listed.effect, listed.reason) == ("allow", "")
    assert effect(policy(PolicyRule(effect="confirm", actions=("list",))), WRITE, "list")[0] == "allow"


# -- tenants -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tenant", ["", "green", "RED"])
def test_callers_of_unknown_tenants_are_denied_everything(tenant: str) -> None:
    engine = policy(PolicyRule(effect="allow"))
    stranger = Principal("stranger", tenant=tenant, user="alice")
    assert effect(engine, WRITE, who=stranger) == ("deny", "tenants")
    assert effect(engine, Target("admin", "hub", "hub.status"), "admin", stranger) == ("deny", "tenants")


def test_without_tenants_callers_need_none() -> None:
    assert effect(policy(tenants=()), WRITE, who=Principal("key:me")) == ("allow", "default")


def test_a_tenant_is_denied_servers_that_are_not_its_own() -> None:
    engine = policy(PolicyRule(effect="allow"), tenants=(TenantSettings(name="red", servers=("notes",)), BLUE))
    mail = Target("tool", "mail", "send")
    assert effect(engine, mail) == ("deny", "tenants.red.servers")
    assert effect(engine, mail, "list") == ("deny", "tenants.red.servers")
    assert effect(engine, mail, who=BOB) == ("allow", "policy.rules[0]")
    assert effect(engine, WRITE) == ("allow", "policy.rules[0]")
    assert effect(engine, Target("tool", "hub", "hub.search")) == ("allow", "policy.rules[0]")


def test_a_tenant_with_an_empty_list_of_servers_may_use_none() -> None:
    assert effect(policy(tenants=(TenantSettings(name="red", servers=()),)), WRITE)[0] == "deny"


# -- version, groups and caches ----------------------------------------------------------------------


def test_the_version_changes_with_everything_that_decides_and_nothing_else() -> None:
    rules = (PolicyRule(effect="deny", tools=("x",)), PolicyRule(effect="allow", tools=("y",)))
    base = policy(*rules)
    assert base.version == policy(*rules, tenants=(BLUE, RED)).version
    assert base.version == policy(*rules, tenants=(TenantSettings(name="red", max_calls=3), BLUE)).version
    others = [
        policy(*reversed(rules)),
        policy(*rules, default="deny"),
        policy(*rules, tenants=(RED,)),
        policy(*rules, tenants=(TenantSettings(name="red", servers=("notes",)), BLUE)),
        policy(rules[0], PolicyRule(effect="allow", tools=("y",), reason="why")),
    ]
    assert len({base.version, *(other.version for other in others)}) == 6
    assert len(base.version) == 64


def test_callers_with_the_same_rules_are_one_group() -> None:
    engine = policy(PolicyRule(effect="deny", tenants=("blue",), tools=("x",)), PolicyRule(effect="allow"))
    groups = {engine.group(Principal(f"red/{n}#1", tenant="red", user=f"u{n}")) for n in range(50)}
    assert len(groups) == 1
    assert engine.group(BOB) not in groups


def test_caches_stay_within_their_bounds() -> None:
    engine = policy(PolicyRule(effect="deny", tools=("*7",)))
    for number in range(2 * CACHED_CALLERS + 100):
        engine.group(Principal("x", tenant="red", user=f"u{number}"))
    for number in range(2 * CACHED_DECISIONS + 100):
        name = f"t{number}"
        assert effect(engine, Target("tool", "notes", name))[0] == ("deny" if name.endswith("7") else "allow")
    assert engine.cached_callers <= 2 * CACHED_CALLERS
    assert engine.cached_decisions <= 2 * CACHED_DECISIONS


def test_long_names_are_not_kept() -> None:
    engine = policy(PolicyRule(effect="deny", tools=("*x",)))
    assert effect(engine, Target("resource", "notes", "y" * MAX_CACHED_CHARACTERS + "x"), "read")[0] == "deny"
    assert engine.cached_decisions == 0
    engine.group(Principal("x", frozenset(map(str, range(1000))), tenant="red", user="long"))
    engine.group(Principal("x", tenant="red", user="y" * 1000))
    assert engine.cached_callers == 1  # alice's


# -- compared with a second implementation -----------------------------------------------------------


def patterns_of(*choices: str) -> st.SearchStrategy[tuple[str, ...]]:
    """Mostly no pattern, because each list of a rule has to match."""
    some = st.lists(st.sampled_from(choices), min_size=1, max_size=2).map(tuple)
    return st.sampled_from([True, True, True, False]).flatmap(lambda is_empty: st.just(()) if is_empty else some)


items = st.sampled_from(["read", "write", "a/read", "mail/read", "file:///a/read", "READ", ""])
optional_bools = st.one_of(st.none(), st.booleans())
rules = st.builds(
    PolicyRule,
    effect=st.sampled_from(["allow", "deny", "confirm"]),
    tenants=patterns_of("red", "b*", "*", "g?een", ""),
    users=patterns_of("alice", "?ob", "*"),
    scopes=patterns_of("r", "w*", "*"),
    servers=patterns_of("notes", "m*", "[!n]*", "hub"),
    tools=patterns_of("read", "*e", "?ead", "mail/*", "*/read", "m*/r*d", "file:///*", "notes/file:*", "*", "[rR]*"),
    annotations=st.one_of(st.just(()), st.lists(st.sampled_from(get_args(AnnotationName)), max_size=2).map(tuple)),
    actions=st.one_of(st.just(()), st.lists(st.sampled_from(get_args(ActionName)), max_size=3).map(tuple)),
)
principals = st.builds(
    Principal,
    name=st.just("x"),
    scopes=st.frozensets(st.sampled_from(["r", "w", "wx"]), max_size=2),
    tenant=st.sampled_from(["red", "red", "blue", ""]),
    user=st.sampled_from(["alice", "bob"]),
)


@st.composite
def annotations(draw: st.DrawFn) -> ToolAnnotations | None:
    hints = ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")
    given_hints: dict[str, Any] = {hint: value for hint in hints if (value := draw(optional_bools)) is not None}
    return ToolAnnotations(**given_hints) if given_hints else None


targets = st.builds(
    Target,
    kind=st.sampled_from(get_args(TargetKind)),
    server=st.sampled_from(["notes", "mail", "hub"]),
    name=items,
    annotations=annotations(),
)
tenant_lists = st.sampled_from([(), (RED, BLUE), (RED,), (TenantSettings(name="red", servers=("notes", "mail")), BLUE)])
settings_of_policies = st.builds(
    PolicySettings, default=st.sampled_from(["allow", "deny"]), rules=st.lists(rules, min_size=2, max_size=6).map(tuple)
)


several_principals = st.lists(principals, min_size=1, max_size=4)
several_targets = st.lists(targets, min_size=1, max_size=4)


@settings(max_examples=300)
@given(settings_of_policies, tenant_lists, several_principals, several_targets)
def test_decisions_are_those_of_a_simple_evaluation(
    configured: PolicySettings, tenants: tuple[TenantSettings, ...], callers: list[Principal], seen: list[Target]
) -> None:
    engine = RulePolicy(configured, tenants)
    for principal, action, target in [*product(callers, get_args(ActionName), seen)] * 2:  # then from the cache
        expected = decide_slowly(configured, tenants, principal, action, target)
        assert effect(engine, target, action, principal) == expected
        last = engine.explain(principal, action, target)[-1]
        assert last.is_match
        assert last.effect == expected[0]


@given(settings_of_policies, tenant_lists, several_principals, several_targets)
def test_callers_of_one_group_get_the_same_decisions(
    configured: PolicySettings, tenants: tuple[TenantSettings, ...], callers: list[Principal], seen: list[Target]
) -> None:
    engine = RulePolicy(configured, tenants)
    decisions: dict[Any, Any] = {}
    for principal in callers:
        found = [decide_slowly(configured, tenants, principal, *use) for use in product(get_args(ActionName), seen)]
        assert decisions.setdefault(engine.group(principal), found) == found


# -- explanations ------------------------------------------------------------------------------------


def test_an_explanation_says_why_each_rule_before_the_decision_does_not_match() -> None:
    engine = policy(
        PolicyRule(effect="deny", tenants=("blue", "green")),
        PolicyRule(effect="deny", scopes=("admin",)),
        PolicyRule(effect="deny", actions=("list",)),
        PolicyRule(effect="deny", tools=("read_*",)),
        PolicyRule(effect="deny", annotations=("read_only",)),
        PolicyRule(effect="confirm", servers=("notes",)),
        PolicyRule(effect="deny"),
    )
    checks = engine.explain(ALICE, "call", WRITE)
    assert [(check.rule, check.is_match, check.detail) for check in checks] == [
        ("policy.rules[0]", False, "tenant 'red' does not match blue, green"),
        ("policy.rules[1]", False, "scopes 'notes:read' does not match admin"),
        ("policy.rules[2]", False, "action 'call' does not match list"),
        ("policy.rules[3]", False, "tool 'write_note' does not match read_*"),
        (
            "policy.rules[4]",
            False,
            "annotations '!read_only destructive !idempotent open_world' does not match read_only",
        ),
        ("policy.rules[5]", True, ""),
    ]
    assert checks[-1].effect == "confirm"


def test_an_explanation_of_a_list_begins_with_the_use() -> None:
    engine = policy(PolicyRule(effect="confirm", tools=("write_*",)))
    checks = engine.explain(ALICE, "list", WRITE)
    assert [(check.action, check.rule, check.effect) for check in checks] == [
        ("call", "policy.rules[0]", "confirm"),
        ("list", "policy.rules[0]", "allow"),
    ]
    assert checks[-1].detail == "does not name list, which is allowed because call is"


def test_an_explanation_names_the_restriction_of_the_tenant() -> None:
    engine = policy(tenants=(TenantSettings(name="red", servers=("mail",)),))
    assert [(check.rule, check.effect) for check in engine.explain(ALICE, "call", WRITE)] == [
        ("tenants.red.servers", "deny")
    ]
    assert [check.rule for check in engine.explain(BOB, "call", WRITE)] == ["tenants"]


def test_rules_are_listed_in_the_order_in_which_they_are_compared() -> None:
    engine = policy(
        PolicyRule(effect="deny", tools=("a", "b"), users=("bob",), reason="Never"),
        default="deny",
        tenants=(TenantSettings(name="red", servers=("notes",)), BLUE),
    )
    assert [(row.rule, row.effect, row.condition, row.reason) for row in engine.list_rules()] == [
        ("tenants", "deny", "callers without one of the tenants", ""),
        ("tenants.red.servers", "deny", "servers other than: notes", ""),
        ("policy.rules[0]", "deny", "users: bob; tools: a, b", "Never"),
        ("default", "deny", "", ""),
    ]
