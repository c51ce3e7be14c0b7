"""Approvals with clocks that a test sets and the events that they report, and calls that need an approval."""

import msgspec
import pytest

from hubbub import Principal
from hubbub.governance.approval_errors import ApprovalRequired
from hubbub.governance.approvals import ApprovalEvent, Approvals, MarkedCall
from hubbub.governance.decision import PolicyDecision
from hubbub.settings.governance import ApprovalSettings

ALICE = Principal("acme/alice#1", tenant="acme", user="alice", client="laptop")
BOB = Principal("acme/bob#1", tenant="acme", user="bob")
EVE = Principal("globex/eve#1", tenant="globex", user="eve")
OPERATOR = Principal("operator")


class Clocks:
    """A monotonic clock, and the time of day."""

    def __init__(self) -> None:
        self.monotonic = 50.0
        self.wall = 1_800_000_000.0

    def pass_time(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds


class RecordedApprovals:
    """Approvals with clocks that a test sets, and the events that they reported."""

    def __init__(self, **settings: object) -> None:
        self.clocks = Clocks()
        self.events: list[ApprovalEvent] = []
        self.approvals = Approvals(
            msgspec.convert(settings, ApprovalSettings),
            on_event=self.events.append,
            clock=lambda: self.clocks.monotonic,
            wall_clock=lambda: self.clocks.wall,
        )

    def request(self, call: MarkedCall) -> ApprovalRequired:
        """Make a call that must wait for a person."""
        with pytest.raises(ApprovalRequired) as raised:
            self.approvals.require(call)
        return raised.value

    def kinds(self) -> list[str]:
        return [event.kind.removeprefix("approval.") for event in self.events]


def delete(name: str = "x", by: Principal = ALICE, version: str = "v1", tool: str = "delete") -> MarkedCall:
    arguments = msgspec.json.encode({"name": name})
    return MarkedCall(
        by, "files", tool, arguments, PolicyDecision("confirm", "policy.rules[0]", "destructive", version)
    )
