"""Denials are counted with bounded memory, and so are refusals that are not calls."""

from pathlib import Path

import pytest
from tests.clock import advance_and_settle, wait_until
from tests.governance.journals import DENY, all_records, facts

from hubbub.governance.audit_events import AuditEvent, Fact
from hubbub.governance.governor import Governor
from hubbub.governance.journal import Journal
from hubbub.governance.repeated_denials import MAX_COUNTED_DENIALS, MAX_RECORDED_TARGETS, RepeatedDenials
from hubbub.governance.rule_policy import RulePolicy
from hubbub.settings.governance import PolicySettings

pytestmark = pytest.mark.requirement("A1")


def denial(user: str, tool: str) -> AuditEvent:
    return AuditEvent(event="decision", user=user, tool=tool, decision=DENY)


async def test_a_bounded_number_of_denials_is_counted_and_the_oldest_is_recorded_early() -> None:
    found: list[AuditEvent] = []
    denials = RepeatedDenials(found.append)
    for number in range(MAX_COUNTED_DENIALS + 1):
        user = f"user {number}"
        assert not denials.count((user, "a"), user)
        denials.begin((user, "a"), user, denial(user, "a"))
        assert denials.count((user, "a"), user)
    assert [(event.user, event.facts) for event in found] == [("user 0", {"repeated": 1})]
    assert not denials.count(("user 0", "a"), "user 0")
    denials.end_all()
    assert len(found) == MAX_COUNTED_DENIALS + 1


async def test_a_denial_that_could_not_be_recorded_counts_no_others() -> None:
    denials = RepeatedDenials(lambda event: None)
    for number in range(MAX_RECORDED_TARGETS + 1):
        assert not denials.count(number, "group")
        denials.begin(number, "group", denial("ada", str(number)))
        denials.cancel(number, "group")
    denials.end_all()


@pytest.mark.parametrize(
    ("event", "details"),
    [("secret.denied", {"secret": "key", "source": "env"}), ("egress.refused", {"host": "169.254.169.254"})],
)
async def test_a_flood_of_refused_secrets_or_connections_is_two_records(
    tmp_path: Path, event: str, details: dict[str, Fact]
) -> None:
    governor = Governor(RulePolicy(PolicySettings(), ()), journal=Journal(tmp_path))
    async with governor.running():
        for number in range(500):
            user = "bob" if number == 300 else "ada"
            governor.record_event(AuditEvent(event=event, tenant="acme", user=user, server="s", facts=details))
        await advance_and_settle(1.1)
        await wait_until(lambda: len(facts(tmp_path, event)) == 3)
        governor.record_event(AuditEvent(event=event, tenant="acme", user="ada", server="s", facts=details))
    found = [(record.user, record.facts) for record in all_records(tmp_path) if record.event == event]
    assert found == [("ada", details), ("bob", details), ("ada", {**details, "repeated": 498}), ("ada", details)]
