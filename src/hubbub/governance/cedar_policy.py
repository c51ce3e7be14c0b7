"""Decides by Cedar policies, with the optional library `cedarpy`.

A permit with the annotation `@confirm("reason")` means that a person has to approve. Cedar itself ignores annotations:
it reports the ids of the policies that decided, and the annotations of these ids tell the rest. Cedar skips a policy
that fails while it is evaluated, even one that forbids, so every policy is validated against a schema when it is
loaded, and a failure denies.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from hubbub.errors import SettingsError
from hubbub.governance.cedar_source import CedarStatement, split_statements
from hubbub.governance.decision import USE_ACTIONS, Action, Effect, PolicyDecision, Target, TargetKind
from hubbub.governance.generation_cache import GenerationCache
from hubbub.governance.policy_explanation import PolicyRow, RuleCheck
from hubbub.governance.tenant_access import TenantAccess, describe_tenants, list_restrictions
from hubbub.governance.tool_hints import read_hints
from hubbub.protocol.calls import Principal
from hubbub.protocol.canonical_json import canonical_digest
from hubbub.settings.governance import TenantSettings

if TYPE_CHECKING:
    import cedarpy

logger = logging.getLogger("hubbub.policy")

CACHED_DECISIONS: Final = 16_384
"""Decisions that are kept, in each of two generations."""
CACHED_ENTITIES: Final = 1_024
"""Callers whose attributes are kept in parsed form, in each of two generations."""
MAX_CACHED_CHARACTERS: Final = 512
"""Longer names and URIs, and callers with more text in their attributes, are not kept in caches."""
DEFAULT_RULE: Final = "default"
ERROR_RULE: Final = "error"
"""The rule of a denial because a policy failed while it was evaluated."""

SCHEMA: Final = """
entity Tenant, Server;
entity User in [Tenant] { tenant: String, user: String, client: String, scopes: Set<String> };
entity Tool, Admin in [Server] {
    server: String, name: String, read_only: Bool, destructive: Bool, idempotent: Bool, open_world: Bool
};
entity Prompt, Resource, Template in [Server] { server: String, name: String };
action "call" appliesTo { principal: User, resource: Tool };
action "get" appliesTo { principal: User, resource: Prompt };
action "read" appliesTo { principal: User, resource: [Resource, Template] };
action "admin" appliesTo { principal: User, resource: Admin };
action "list", "search", "complete", "subscribe"
    appliesTo { principal: User, resource: [Tool, Admin, Prompt, Resource, Template] };
"""
"""What policies can refer to."""

_ENTITY_TYPES: Final[dict[TargetKind, str]] = {
    "tool": "Tool",
    "prompt": "Prompt",
    "resource": "Resource",
    "template": "Template",
    "admin": "Admin",
}
_Caller: TypeAlias = tuple[str, str, str, frozenset[str]]
"""Tenant, user, client and scopes: everything about a caller that policies can refer to."""


class _Policy(NamedTuple):
    """One policy of the file."""

    rule: str
    statement: CedarStatement
    effect: Effect
    reason: str


class CedarPolicy:
    """A `PolicyEngine` and `ExplainedPolicy` that decides by a file of Cedar policies."""

    def __init__(self, text: str, tenants: Iterable[TenantSettings] = (), *, path: str = "policies.cedar") -> None:
        """Parse and validate the policies.

        Raises:
            SettingsError: cedarpy is not installed, or a policy is invalid; the message names its line.
        """
        self._cedar = _import_cedar()
        self._tenants = tuple(tenants)
        self.version = canonical_digest({"engine": "cedar", "text": text, "tenants": describe_tenants(self._tenants)})
        self._statements = split_statements(text)
        self._policy_set = _parse(self._cedar, text, self._statements, path)
        _validate(self._cedar, text, self._statements, path)
        self._policies = _read_policies(self._cedar, text, self._statements, path)
        self._access = TenantAccess(self._tenants, self.version)
        self._entities = GenerationCache(self._make_user, size=CACHED_ENTITIES, is_kept=_is_small_caller)
        self._decisions = GenerationCache(self._decide, size=CACHED_DECISIONS, is_kept=_is_small_request)

    def group(self, principal: Principal) -> Hashable:
        """Return what policies can distinguish of this caller."""
        return _describe_caller(principal)

    def decide(self, principal: Principal, action: Action, target: Target) -> PolicyDecision:
        """Decide about one action; Cedar is asked once for each caller, action and target."""
        return self._decisions[_describe_caller(principal), action, target]

    def explain(self, principal: Principal, action: Action, target: Target) -> list[RuleCheck]:
        """Evaluate each policy on its own; the decision is the last entry, because no order decides."""
        decision = self.decide(principal, action, target)
        checks: list[RuleCheck] = []
        if self._access.refuse(principal.tenant, principal.scopes, target) is None:
            use = USE_ACTIONS[target.kind]
            for each in (use,) if action == use else (use, action):
                checks += self._explain_action(principal, each, target)
        return [*checks, RuleCheck(action, decision.rule, decision.effect, True, decision.reason)]

    def list_rules(self) -> list[PolicyRow]:
        """The restrictions of tenants, the policies as written, and the default."""
        rows = [
            PolicyRow(p.rule, p.effect, _summarize(p.statement.text), p.reason, p.statement.line)
            for p in self._policies.values()
        ]
        return [*list_restrictions(self._tenants), *rows, PolicyRow(DEFAULT_RULE, "deny", "")]

    def _decide(self, key: tuple[_Caller, Action, Target]) -> PolicyDecision:
        caller, action, target = key
        tenant, _, _, scopes = caller
        refusal = self._access.refuse(tenant, scopes, target)
        if refusal is not None:
            return refusal
        use = USE_ACTIONS[target.kind]
        used, is_explicit = self._ask(caller, use, target)
        if not is_explicit and self._access.is_operator(tenant, scopes):
            used = self._access.operator
        if action == use or used.effect == "deny":
            return used
        other, is_explicit = self._ask(caller, action, target)
        if other.effect == "deny" and is_explicit:
            return other
        rule = used.rule if other.effect == "deny" else other.rule
        return PolicyDecision("allow", rule, "", self.version)

    def _ask(self, caller: _Caller, action: Action, target: Target) -> tuple[PolicyDecision, bool]:
        """Let Cedar decide; also return whether a policy decided, and not the default."""
        try:
            result = self._authorize(self._policy_set, caller, action, target)
        except ValueError as error:  # for example a name that is not valid Unicode
            return self._deny_because_of(str(error)), True
        if result.diagnostics.errors:
            return self._deny_because_of(result.diagnostics.errors[0]), True
        deciding = [policy for id, policy in self._policies.items() if id in result.diagnostics.reasons]
        if not result.allowed:
            if not deciding:
                return PolicyDecision("deny", DEFAULT_RULE, "No policy permits this", self.version), False
            return PolicyDecision("deny", deciding[0].rule, deciding[0].reason, self.version), True
        # One permit with @confirm is enough: a general permit besides it must not make it void.
        chosen = next((policy for policy in deciding if policy.effect == "confirm"), deciding[0])
        return PolicyDecision(chosen.effect, chosen.rule, chosen.reason, self.version), True

    def _deny_because_of(self, problem: str) -> PolicyDecision:
        # Callers read the reason; the problem is for the operator.
        logger.error("policy_failed", extra={"problem": problem})
        return PolicyDecision("deny", ERROR_RULE, "The policy failed to decide, so this is denied", self.version)

    def _authorize(
        self, policies: cedarpy.PolicySet, caller: _Caller, action: Action, target: Target
    ) -> cedarpy.AuthzResult:
        kind, target_id = _ENTITY_TYPES[target.kind], f"{target.server}/{target.name}"
        attributes: dict[str, Any] = {"server": target.server, "name": target.name}
        hints = read_hints(target)
        if hints is not None:
            attributes |= msgspec.structs.asdict(hints)
        entity = _encode_entity(kind, target_id, attributes, ("Server", target.server))
        request = {
            "principal": {"type": "User", "id": _user_id(caller)},
            "action": {"type": "Action", "id": action},
            "resource": {"type": kind, "id": target_id},
        }
        entities = self._entities[caller].with_added_json_str(entity)
        result: cedarpy.AuthzResult = self._cedar.is_authorized(request, policies, entities)
        return result

    def _make_user(self, caller: _Caller) -> cedarpy.Entities:
        tenant, user, client, scopes = caller
        attributes = {"tenant": tenant, "user": user, "client": client, "scopes": sorted(scopes)}
        entity = _encode_entity("User", _user_id(caller), attributes, ("Tenant", tenant))
        entities: cedarpy.Entities = self._cedar.Entities.from_json_str(entity)
        return entities

    def _explain_action(self, principal: Principal, action: Action, target: Target) -> list[RuleCheck]:
        checks = []
        for policy in self._policies.values():
            alone = self._cedar.PolicySet.from_str(policy.statement.text)
            diagnostics = self._authorize(alone, _describe_caller(principal), action, target).diagnostics
            is_match = bool(diagnostics.reasons)
            detail = diagnostics.errors[0] if diagnostics.errors else "" if is_match else "its conditions do not hold"
            checks.append(RuleCheck(action, policy.rule, policy.effect, is_match, detail))
        return checks


def _import_cedar() -> Any:
    try:
        import cedarpy
    except ImportError as error:
        raise SettingsError(
            "policy.engine is 'cedar', which needs the library cedarpy; install Hubbub with its extra 'cedar' "
            "(pip install 'hubbub[cedar]'; in a clone: pip install -e '.[cedar]')"
        ) from error
    return cedarpy


def _parse(cedar: Any, text: str, statements: list[CedarStatement], path: str) -> cedarpy.PolicySet:
    try:
        policies: cedarpy.PolicySet = cedar.PolicySet.from_str(text)
    except ValueError as error:
        for statement in statements:
            try:
                cedar.PolicySet.from_str(statement.text)
            except ValueError as own:
                raise SettingsError(f"{path} line {statement.line}: {own} in this policy") from error
        raise SettingsError(f"{path}: {error}") from error
    return policies


def _validate(cedar: Any, text: str, statements: list[CedarStatement], path: str) -> None:
    errors = cedar.validate_policies(text, SCHEMA).errors
    for error in errors:
        index = _policy_index(error.policy_id)
        if index is not None and index < len(statements):
            problem = error.error.removeprefix(f"for policy `{error.policy_id}`, ")
            raise SettingsError(f"{path} line {statements[index].line}: {problem}")
    if errors:
        raise SettingsError(f"{path}: {errors[0].error}")


def _read_policies(cedar: Any, text: str, statements: list[CedarStatement], path: str) -> dict[str, _Policy]:
    """Read effects and annotations, by the ids that Cedar gives to the policies: their positions."""
    parsed = msgspec.json.decode(cedar.policies_to_json_str(text))
    policies: dict[str, _Policy] = {}
    for index, statement in enumerate(statements):
        if f"policy{index}" in parsed["templates"]:  # It would never apply.
            raise SettingsError(f"{path} line {statement.line}: templates are not supported; write a policy instead")
        policy = parsed["staticPolicies"][f"policy{index}"]
        annotations: dict[str, str | None] = policy.get("annotations", {})
        is_permit, needs_person = policy["effect"] == "permit", "confirm" in annotations
        if needs_person and not is_permit:
            raise SettingsError(f"{path} line {statement.line}: @confirm has no effect on forbid; remove it")
        policies[f"policy{index}"] = _Policy(
            rule=f"cedar.{annotations.get('id') or f'policy{index}'}",
            statement=statement,
            effect="confirm" if needs_person else "allow" if is_permit else "deny",
            reason=annotations.get("confirm") or annotations.get("reason") or "",
        )
    return policies


def _policy_index(policy_id: str) -> int | None:
    digits = policy_id.removeprefix("policy")
    return int(digits) if digits.isdecimal() else None


def _describe_caller(principal: Principal) -> _Caller:
    return principal.tenant, principal.user, principal.client, principal.scopes


def _user_id(caller: _Caller) -> str:
    return f"{caller[0]}/{caller[1]}"


def _encode_entity(kind: str, id: str, attributes: dict[str, Any], parent: tuple[str, str]) -> str:
    entity = {
        "uid": {"type": kind, "id": id},
        "attrs": attributes,
        "parents": [{"type": parent[0], "id": parent[1]}],
    }
    return msgspec.json.encode([entity]).decode()


def _summarize(text: str) -> str:
    return " ".join(text.split())


def _is_small_caller(caller: _Caller) -> bool:
    return sum(map(len, (*caller[:3], *caller[3]))) <= MAX_CACHED_CHARACTERS


def _is_small_request(key: tuple[_Caller, Action, Target]) -> bool:
    return _is_small_caller(key[0]) and len(key[2].name) <= MAX_CACHED_CHARACTERS
