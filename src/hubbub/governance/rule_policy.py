"""Decides by the rules of the settings: the first that matches, after the restrictions of the tenant.

What rules ask of the caller is evaluated once for each caller; the rest is a *rule set*, which callers share to whom
the same rules apply. Decisions are cached for each rule set, so that ten thousand callers need not ten thousand caches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, TypeAlias

import msgspec

from hubbub.governance.compiled_rule import CompiledRule, encode_hints
from hubbub.governance.decision import USE_ACTIONS, Action, PolicyDecision, Target
from hubbub.governance.generation_cache import GenerationCache
from hubbub.governance.policy_explanation import PolicyRow, RuleCheck
from hubbub.governance.tenant_access import TenantAccess, describe_tenants, list_restrictions
from hubbub.governance.tool_hints import read_hints
from hubbub.protocol.calls import Principal
from hubbub.protocol.canonical_json import canonical_digest
from hubbub.settings.governance import PolicySettings, TenantSettings

CACHED_CALLERS: Final = 16_384
"""Callers whose rule set is kept, in each of two generations."""
CACHED_SERVERS: Final = 4_096
"""Pairs of a rule set and a server whose remaining rules are kept, in each of two generations."""
CACHED_DECISIONS: Final = 32_768
"""Decisions that are kept, in each of two generations."""
MAX_CACHED_CHARACTERS: Final = 512
"""Longer names and URIs are not kept in caches: callers choose them."""
MAX_CACHED_SCOPES: Final = 64
"""Callers with more scopes are not kept in the cache."""
DEFAULT_RULE: Final = "default"

_Caller: TypeAlias = tuple[str, str, frozenset[str]]


class RuleSet:
    """What is left of a policy when the caller is known. Compared by identity."""

    __slots__ = ("denial", "operator", "rules", "tenant", "unrestricted")

    def __init__(
        self,
        rules: tuple[CompiledRule, ...],
        *,
        denial: PolicyDecision | None = None,
        tenant: str = "",
        unrestricted: RuleSet | None = None,
        operator: PolicyDecision | None = None,
    ) -> None:
        self.rules = rules
        self.denial = denial
        """The decision about everything, if nothing is allowed; of operators, about all but administration."""
        self.tenant = tenant
        """The tenant of its callers, if that tenant may use only some servers."""
        self.unrestricted = unrestricted
        """The rule set that decides about these servers, if there is a `tenant`."""
        self.operator = operator
        """The decision about administration that no rule matches, if its callers are operators."""


class RulePolicy:
    """A `PolicyEngine` and `ExplainedPolicy` that decides by `[[policy.rules]]`."""

    def __init__(self, settings: PolicySettings, tenants: Iterable[TenantSettings] = ()) -> None:
        tenants = tuple(tenants)
        self.version = canonical_digest(
            {
                "engine": "rules",
                "default": settings.default,
                "rules": msgspec.to_builtins(settings.rules),
                "tenants": describe_tenants(tenants),
            }
        )
        self._tenants = tenants
        self._rules = [CompiledRule(index, rule, self.version) for index, rule in enumerate(settings.rules)]
        self._access = TenantAccess(tenants, self.version)
        reason = "No rule allows this" if settings.default == "deny" else ""
        self._default = PolicyDecision(settings.default, DEFAULT_RULE, reason, self.version)
        self._unknown: RuleSet | None = None
        self._rule_sets: GenerationCache[tuple[CompiledRule, ...], RuleSet] = GenerationCache(
            RuleSet, size=CACHED_CALLERS, is_kept=lambda key: True
        )
        self._restricted_sets: GenerationCache[tuple[str, RuleSet], RuleSet] = GenerationCache(
            lambda key: RuleSet((), tenant=key[0], unrestricted=key[1]), size=CACHED_CALLERS, is_kept=lambda key: True
        )
        self._operator_sets: GenerationCache[tuple[CompiledRule, ...], RuleSet] = GenerationCache(
            lambda rules: RuleSet(rules, denial=self._access.refuse_tenant(""), operator=self._access.operator),
            size=CACHED_CALLERS,
            is_kept=lambda key: True,
        )
        self._server_rules: GenerationCache[tuple[RuleSet, str], tuple[CompiledRule, ...]] = GenerationCache(
            lambda key: tuple(rule for rule in key[0].rules if rule.includes_server(key[1])),
            size=CACHED_SERVERS,
            is_kept=lambda key: True,
        )
        self._callers = GenerationCache(self._make_rule_set, size=CACHED_CALLERS, is_kept=_is_small_caller)
        self._decisions = GenerationCache(self._decide, size=CACHED_DECISIONS, is_kept=_is_small_target)

    def group(self, principal: Principal) -> Hashable:
        """Return the rule set of this caller."""
        return self._callers[principal.tenant, principal.user, principal.scopes]

    def decide(self, principal: Principal, action: Action, target: Target) -> PolicyDecision:
        """Decide about one action; two dictionary lookups if the rule set has met this target before."""
        rule_set = self._callers[principal.tenant, principal.user, principal.scopes]
        return self._decisions[rule_set, action, target]

    def explain(self, principal: Principal, action: Action, target: Target) -> list[RuleCheck]:
        """Compare a request with each rule up to the first that matches.

        For an action other than the one that uses the target, the use is explained first.
        """
        denial = self._access.refuse(principal.tenant, principal.scopes, target)
        if denial is not None:
            return [RuleCheck(action, denial.rule, "deny", True, denial.reason)]
        use = USE_ACTIONS[target.kind]
        checks = self._explain_action(principal, use, target)
        last, operator = checks[-1], self._access.operator
        if last.rule == DEFAULT_RULE and self._access.is_operator(principal.tenant, principal.scopes):
            checks[-1] = RuleCheck(use, operator.rule, operator.effect, True, operator.reason)
        if action != use and checks[-1].effect != "deny":
            checks += self._explain_action(principal, action, target, follows=use)
        return checks

    def list_rules(self) -> list[PolicyRow]:
        """All rules, in the order in which they are compared; the last is the default."""
        rows = list_restrictions(self._tenants)
        rows += [_describe_rule(rule) for rule in self._rules]
        return [*rows, PolicyRow(DEFAULT_RULE, self._default.effect, "")]

    @property
    def cached_callers(self) -> int:
        """How many callers it remembers the rule set of."""
        return self._callers.count

    @property
    def cached_decisions(self) -> int:
        """How many decisions it remembers."""
        return self._decisions.count

    def _make_rule_set(self, caller: _Caller) -> RuleSet:
        tenant, user, scopes = caller
        denial, is_operator = self._access.refuse_tenant(tenant), self._access.is_operator(tenant, scopes)
        if denial is not None and not is_operator:
            if self._unknown is None:
                self._unknown = RuleSet((), denial=denial)
            return self._unknown
        applicable: list[CompiledRule] = []
        for rule in self._rules:
            if rule.applies_to(tenant, user, scopes):
                applicable.append(rule)
                if rule.matches_everything:
                    break
        if is_operator:
            return self._operator_sets[tuple(applicable)]
        rule_set = self._rule_sets[tuple(applicable)]
        return self._restricted_sets[tenant, rule_set] if self._access.is_restricted(tenant) else rule_set

    def _decide(self, key: tuple[RuleSet, Action, Target]) -> PolicyDecision:
        rule_set, action, target = key
        if rule_set.denial is not None and (rule_set.operator is None or target.kind != "admin"):
            return rule_set.denial
        if rule_set.unrestricted is not None:
            refusal = self._access.refuse_server(rule_set.tenant, target.server)
            return self._decisions[rule_set.unrestricted, action, target] if refusal is None else refusal
        use, hint_bits = USE_ACTIONS[target.kind], encode_hints(read_hints(target))
        rules = self._server_rules[rule_set, target.server]
        using_rule = _find_rule(rules, use, target, hint_bits)
        used = (rule_set.operator or self._default) if using_rule is None else using_rule.decision
        if action == use or used.effect == "deny":
            return used
        rule = _find_rule(rules, action, target, hint_bits)
        if rule is not None and rule.names_action(action):
            return rule.decision if rule.rule.effect == "deny" else rule.visible
        return used if using_rule is None else using_rule.visible

    def _explain_action(
        self, principal: Principal, action: Action, target: Target, *, follows: Action | None = None
    ) -> list[RuleCheck]:
        """Compare one action with the rules; one that `follows` another is decided only by rules that name it."""
        checks: list[RuleCheck] = []
        for rule in self._rules:
            mismatch = rule.find_mismatch(principal, action, target)
            effect = rule.rule.effect
            if mismatch:
                checks.append(RuleCheck(action, rule.id, effect, False, mismatch))
                continue
            note = ""
            if follows is not None and not rule.names_action(action):
                note = f"does not name {action}, which is allowed because {follows} is"
            elif follows is not None and effect == "confirm":
                note = f"only {follows} needs a person's approval, so {action} is allowed"
            return [*checks, RuleCheck(action, rule.id, "allow" if note else effect, True, note)]
        effect = "allow" if follows is not None else self._default.effect
        note = f"{action} is allowed because {follows} is" if follows is not None else "no rule matches"
        return [*checks, RuleCheck(action, DEFAULT_RULE, effect, True, note)]


def _find_rule(rules: tuple[CompiledRule, ...], action: Action, target: Target, hint_bits: int) -> CompiledRule | None:
    for rule in rules:
        if rule.covers(action, target, hint_bits):
            return rule
    return None


def _is_small_caller(caller: _Caller) -> bool:
    _, user, scopes = caller
    return (
        len(user) <= MAX_CACHED_CHARACTERS
        and len(scopes) <= MAX_CACHED_SCOPES
        and sum(map(len, scopes)) <= MAX_CACHED_CHARACTERS
    )


def _is_small_target(key: tuple[RuleSet, Action, Target]) -> bool:
    return len(key[2].name) <= MAX_CACHED_CHARACTERS


def _describe_rule(compiled: CompiledRule) -> PolicyRow:
    rule, fields = compiled.rule, ("tenants", "users", "scopes", "servers", "tools", "annotations", "actions")
    conditions = [f"{name}: {', '.join(values)}" for name in fields if (values := getattr(rule, name))]
    return PolicyRow(compiled.id, rule.effect, "; ".join(conditions), rule.reason)
