"""Decides whether `hubbub agent` may make a call: harmless tools may run, the person is asked about the rest.

A tool without annotations counts as destructive: the protocol defines a missing hint that way. Without a terminal
the person cannot be asked, so the call is denied.
"""

from __future__ import annotations

import time

from msgspec import UNSET

from hubbub import bounds
from hubbub.agent.run_state import PendingCall
from hubbub.cli.agent_report import Report, format_arguments
from hubbub.cli.terminal import ask, is_interactive, note
from hubbub.protocol.results import ToolAnnotations
from hubbub.security.policy import Allow, Confirm, Decision, Deny, PolicyRequest


class Permission:
    """The policy of one run of the command; asks the person."""

    def __init__(self, *, assume_yes: bool, report: Report) -> None:
        self._assume_yes = assume_yes
        self._report = report
        self._always_allowed: set[str] = set()

    def decide(self, request: PolicyRequest) -> Decision:
        """Allow harmless and approved tools; ask about others, or deny them if there is no terminal."""
        if self._assume_yes or request.tool in self._always_allowed or is_harmless(request.annotations):
            return Allow()
        if not is_interactive():
            note(f"hubbub: {request.tool} was denied: it needs confirmation in a terminal, or --yes")
            return Deny("This call needs the user's confirmation, and the user cannot be asked")
        return Confirm(request.digest, time.time() + bounds.CONFIRMATION_TTL_S)

    async def ask(self, pending: PendingCall) -> str:
        """Ask the person for `allow` or `deny`; the answer `a` allows this tool from now on."""
        self._report.interrupt()
        note(f"  ?  {pending.tool} {format_arguments(pending.arguments)}")
        if pending.tool in self._always_allowed:
            return "allow"
        answer = (await ask("     allow? [y]es, [a]lways this tool, [N]o ") or "").strip().lower()
        if answer in ("a", "always"):
            self._always_allowed.add(pending.tool)
        return "allow" if answer in ("y", "yes", "a", "always") else "deny"


def is_harmless(annotations: ToolAnnotations | None) -> bool:
    """Whether a tool is annotated as read-only or as not destructive."""
    if annotations is None:
        return False
    return annotations.read_only_hint is True or (
        annotations.destructive_hint is not UNSET and not annotations.destructive_hint
    )
