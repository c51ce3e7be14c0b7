"""A second implementation of the rules that reads like their documentation, for comparison."""

from fnmatch import fnmatchcase

from hubbub import Principal
from hubbub.governance.decision import USE_ACTIONS, Action, Target
from hubbub.settings.governance import PolicyRule, PolicySettings, TenantSettings


def decide_slowly(
    settings: PolicySettings, tenants: tuple[TenantSettings, ...], principal: Principal, action: Action, target: Target
) -> tuple[str, str]:
    """Return the effect and the rule."""
    is_operator = bool(tenants) and not principal.tenant and "hub:admin" in principal.scopes and target.kind == "admin"
    if tenants and not is_operator:
        own = [tenant for tenant in tenants if tenant.name == principal.tenant]
        if not own:
            return "deny", "tenants"
        if own[0].servers is not None and target.server != "hub" and target.server not in own[0].servers:
            return "deny", f"tenants.{principal.tenant}.servers"
    use = USE_ACTIONS[target.kind]
    effect, rule, _ = first_match(settings, principal, use, target)
    if is_operator and rule == "default":
        effect, rule = "allow", "operators"
    if action == use or effect == "deny":
        return effect, rule
    other_effect, other_rule, is_named = first_match(settings, principal, action, target)
    if not is_named:
        return "allow", rule
    return ("deny" if other_effect == "deny" else "allow"), other_rule


def first_match(
    settings: PolicySettings, principal: Principal, action: Action, target: Target
) -> tuple[str, str, bool]:
    for index, rule in enumerate(settings.rules):
        if is_match(rule, principal, action, target):
            return rule.effect, f"policy.rules[{index}]", action in rule.actions
    return settings.default, "default", False


def is_match(rule: PolicyRule, principal: Principal, action: Action, target: Target) -> bool:
    def has(patterns: tuple[str, ...], *texts: str) -> bool:
        return not patterns or any(fnmatchcase(text, pattern) for text in texts for pattern in patterns)

    return (
        has(rule.tenants, principal.tenant)
        and has(rule.users, principal.user)
        and has(rule.scopes, *principal.scopes)
        and has(rule.servers, target.server)
        and (not rule.actions or action in rule.actions)
        and (not rule.tools or any(names_item(pattern, target) for pattern in rule.tools))
        and (not rule.annotations or any(has_hint(name, target) for name in rule.annotations))
    )


def names_item(pattern: str, target: Target) -> bool:
    if "/" not in pattern:
        return fnmatchcase(target.name, pattern)
    is_uri = ":" in pattern[: pattern.index("/")]
    return fnmatchcase(f"{target.server}/{target.name}", pattern) or (is_uri and fnmatchcase(target.name, pattern))


def has_hint(name: str, target: Target) -> bool:
    if target.kind not in ("tool", "admin"):
        return False
    if name.startswith("!"):
        return not has_hint(name[1:], target)
    hints = target.annotations
    read_only = hints is not None and hints.read_only_hint is True
    declared = getattr(hints, f"{name}_hint", None)
    if name == "destructive":
        return declared if isinstance(declared, bool) else not read_only
    if name == "open_world":
        return declared is not False
    if name == "idempotent":
        return read_only or declared is True
    return read_only
