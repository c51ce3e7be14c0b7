"""Decides whether `hubbub agent` may make a call: harmless tools may run, the person is asked about the rest.

A tool without annotations counts as destructive: the protocol defines a missing hint that way. Without a terminal
the person cannot be asked, so the call is denied.
"""

from __future__ import annotations

import time

from msgspec import UNSET

from hubbub import bounds
from hubbub.agent.run_state import PendingCall
from hubbub.cli.agent_report import Report, shortened
from hubbub.cli.terminal import ask, has_person, note
from hubbub.protocol.wire import ToolAnnotations
from hubbub.security.policy import Allow, Confirm, Decision, Deny, Question


class Permission:
    """The policy of one run of the command; asks the person."""

    def __init__(self, *, says_yes: bool, report: Report) -> None:
        self._says_yes = says_yes
        self._report = report
        self._always: set[str] = set()

    def decide(self, question: Question) -> Decision:
        """Allow harmless and approved tools; ask about others, or deny them if there is no terminal."""
        if self._says_yes or question.tool in self._always or is_harmless(question.annotations):
            return Allow()
        if not has_person():
            note(f"hubbub: {question.tool} may change things, and nobody is here to allow it; see --yes")
            return Deny("The user is not there to allow this call")
        return Confirm(question.digest, time.time() + bounds.CONFIRMATION_S)

    async def ask(self, pending: PendingCall) -> str:
        """Ask the person for `allow` or `deny`; the answer `a` allows this tool from now on."""
        self._report.interrupt()
        note(f"  ?  {pending.tool} {shortened(pending.arguments)}")
        if pending.tool in self._always:
            return "allow"
        typed = (await ask("     allow? [y]es, [a]lways this tool, [N]o ") or "").strip().lower()
        if typed in ("a", "always"):
            self._always.add(pending.tool)
        return "allow" if typed in ("y", "yes", "a", "always") else "deny"


def is_harmless(annotations: ToolAnnotations | None) -> bool:
    """Whether a tool is annotated as read-only or as not destructive."""
    if annotations is None:
        return False
    return annotations.read_only_hint is True or (
        annotations.destructive_hint is not UNSET and not annotations.destructive_hint
    )
