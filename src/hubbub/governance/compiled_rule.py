"""One rule of `[[policy.rules]]`, compiled and split into what it asks of the caller and of the target."""

from __future__ import annotations

from collections.abc import Iterable

from hubbub.governance.decision import Action, PolicyDecision, Target
from hubbub.governance.patterns import compile_item_patterns, compile_patterns
from hubbub.governance.tool_hints import HINTS, ToolHints, read_hints
from hubbub.protocol.calls import Principal
from hubbub.settings.governance import PolicyRule


class CompiledRule:
    """Compares one rule with callers and targets. It matches if both parts and the action do."""

    def __init__(self, index: int, rule: PolicyRule, version: str) -> None:
        self.id = f"policy.rules[{index}]"
        self.index = index
        self.rule = rule
        self.decision = PolicyDecision(rule.effect, self.id, rule.reason, version)
        self.visible = self.decision if rule.effect == "allow" else PolicyDecision("allow", self.id, "", version)
        """The decision about actions that follow from using a target, if the rule does not deny the use."""
        self.matches_everything = not (rule.servers or rule.tools or rule.annotations or rule.actions)
        """Whether it matches every target, so that no rule after it can decide."""
        self._matches_tenant = compile_patterns(rule.tenants)
        self._matches_user = compile_patterns(rule.users)
        self._matches_scope = compile_patterns(rule.scopes)
        self._matches_server = compile_patterns(rule.servers)
        self._matches_item = compile_item_patterns(rule.tools)
        self._actions = frozenset(rule.actions)
        self._hint_mask = sum({_HINT_BITS[name] for name in rule.annotations})

    def applies_to(self, tenant: str, user: str, scopes: Iterable[str]) -> bool:
        """Whether the part about the caller matches."""
        return (
            self._matches_tenant(tenant)
            and self._matches_user(user)
            and (not self.rule.scopes or any(map(self._matches_scope, scopes)))
        )

    def includes_server(self, server: str) -> bool:
        """Whether the part about the server matches."""
        return self._matches_server(server)

    def covers(self, action: Action, target: Target, hint_bits: int) -> bool:
        """Whether the parts about the action and the target, except its server, match; `hint_bits` are its hints."""
        return (
            (not self._actions or action in self._actions)
            and (not self._hint_mask or bool(self._hint_mask & hint_bits))
            and self._matches_item(target.server, target.name)
        )

    def names_action(self, action: Action) -> bool:
        """Whether the rule is explicitly about this action."""
        return action in self._actions

    def find_mismatch(self, principal: Principal, action: Action, target: Target) -> str:
        """Return the first reason why the rule does not match; empty if it does."""
        rule, hints = self.rule, read_hints(target)
        has_scope = not rule.scopes or any(map(self._matches_scope, principal.scopes))
        has_hint = not self._hint_mask or bool(self._hint_mask & encode_hints(hints))
        parts: tuple[tuple[bool, str, str, Iterable[str]], ...] = (
            (self._matches_tenant(principal.tenant), "tenant", principal.tenant, rule.tenants),
            (self._matches_user(principal.user), "user", principal.user, rule.users),
            (has_scope, "scopes", " ".join(sorted(principal.scopes)), rule.scopes),
            (not self._actions or action in self._actions, "action", action, rule.actions),
            (self._matches_server(target.server), "server", target.server, rule.servers),
            (self._matches_item(target.server, target.name), target.kind, target.name, rule.tools),
            (has_hint, "annotations", " ".join(_name_hints(hints)), rule.annotations),
        )
        for matches, part, value, patterns in parts:
            if not matches:
                wanted = ", ".join(patterns)
                return f"{part} {value!r} does not match {wanted}" if value else f"has no {part}; the rule has {wanted}"
        return ""


def encode_hints(hints: ToolHints | None) -> int:
    """Encode hints as bits, one for each annotation and its negation; 0 for targets without hints."""
    return sum(_HINT_BITS[name] for name in _name_hints(hints))


def _name_hints(hints: ToolHints | None) -> list[str]:
    return [] if hints is None else [name if getattr(hints, name) else f"!{name}" for name in HINTS]


_HINT_BITS = {name: 1 << index for index, name in enumerate([*HINTS, *(f"!{name}" for name in HINTS)])}
