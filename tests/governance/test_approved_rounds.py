"""An approved call continues with the input that its server asked for, and nothing else continues it."""

import msgspec
import pytest
from tests.governance.recorded_approvals import BOB, EVE, OPERATOR, RecordedApprovals, delete

from hubbub import InvalidParams, RawReply
from hubbub.governance.approvals import ApprovalRequest, MarkedCall
from hubbub.governance.approved_rounds import ApprovedRounds, find_request_state
from hubbub.protocol.results import EmptyReply, InputRequired


@pytest.fixture
def recorded() -> RecordedApprovals:
    return RecordedApprovals()


def approve(recorded: RecordedApprovals, call: MarkedCall) -> ApprovalRequest:
    recorded.approvals.approve(recorded.request(call).id, OPERATOR)
    return recorded.approvals.require(call)


def assert_refused(rounds: ApprovedRounds, state: str, call: MarkedCall) -> None:
    with pytest.raises(InvalidParams, match="start again without `requestState`"):
        rounds.take(state, call)


@pytest.mark.parametrize(
    "other",
    [
        delete("y"), delete(by=BOB), delete(version="v2"), delete(tool="delete_all"),
        msgspec.structs.replace(delete(), server="backup"),
    ],
    ids=["arguments", "caller", "policy", "tool", "server"],
)  # fmt: skip
def test_a_state_continues_only_the_approved_call_and_once(recorded: RecordedApprovals, other: MarkedCall) -> None:
    rounds = ApprovedRounds()
    approval = approve(recorded, delete())
    rounds.remember(approval, "state")
    assert_refused(rounds, "another state", delete())
    assert_refused(rounds, "state", other)
    assert rounds.take("state", delete()) == approval
    assert_refused(rounds, "state", delete())
    assert len(rounds) == 0


def test_a_state_that_is_not_used_is_forgotten(recorded: RecordedApprovals) -> None:
    rounds = ApprovedRounds(clock=lambda: recorded.clocks.monotonic)
    rounds.remember(approve(recorded, delete()), "state")
    recorded.clocks.pass_time(86_400)
    assert_refused(rounds, "state", delete())
    assert len(rounds) == 0


def test_states_of_one_tenant_leave_room_for_others(recorded: RecordedApprovals) -> None:
    rounds = ApprovedRounds()
    approval, other = approve(recorded, delete()), approve(recorded, delete(by=EVE))
    for number in range(2000):
        rounds.remember(approval, f"state {number}")
    assert len(rounds) == 896
    rounds.remember(other, "other")
    assert rounds.take("other", delete(by=EVE)) == other


@pytest.mark.parametrize(
    ("reply", "state"),
    [
        (InputRequired(input_requests={}, request_state="abc"), "abc"),
        (InputRequired(input_requests={}), None),
        (RawReply(body=msgspec.Raw(b'{"resultType":"input_required","requestState":"abc"}')), "abc"),
        (RawReply(body=msgspec.Raw(b'{"content":[],"requestState":"abc","text":"input_required"}')), None),
        (RawReply(body=msgspec.Raw(b'{"resultType":"input_required","requestState":7}')), None),
        (RawReply(body=msgspec.Raw(b'{"resultType":"complete"}')), None),
        (EmptyReply(), None),
    ],
)
def test_the_state_of_a_reply_is_found(reply: RawReply, state: str | None) -> None:
    assert find_request_state(reply) == state
