"""The queue of approvals: what an approval is bound to, who may give it, and what it is worth."""

import re
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.governance.recorded_approvals import ALICE, BOB, EVE, OPERATOR, RecordedApprovals, delete

from hubbub import Principal, ToolError, ToolFailure
from hubbub.governance import approvals as approvals_module
from hubbub.governance.approval_errors import (
    ApprovalDenied,
    ApprovalInvalid,
    ApprovalNotFound,
    ApprovalRequired,
    ApprovalsFull,
    ApproverRefused,
)
from hubbub.governance.approvals import ApprovalEvent, Approvals, MarkedCall
from hubbub.protocol.calls import ANONYMOUS
from hubbub.settings.governance import ApprovalSettings


@pytest.fixture
def recorded() -> RecordedApprovals:
    return RecordedApprovals()


# -- one approval, one call -----------------------------------------------------------------


def test_an_approved_call_runs_once(recorded: RecordedApprovals) -> None:
    error = recorded.request(delete())
    assert error.data == {"approvalId": error.id, "expiresAt": "2027-01-15T08:10:00Z"}
    assert error.message == (
        f"A person has to approve this call of 'delete' on 'files' (destructive): approval {error.id}, which expires "
        "at 2027-01-15T08:10:00Z. The call was not made. Tell the user that it waits for an approval; when it was "
        "approved, repeat exactly the same call with the same arguments"
    )
    (pending,) = recorded.approvals.list_pending(BOB)
    assert pending.id == error.id
    assert (pending.principal, pending.tenant, pending.user, pending.client) == (
        "acme/alice#1", "acme", "alice", "laptop",
    )  # fmt: skip
    assert (pending.server, pending.tool, pending.preview, pending.reason) == (
        "files", "delete", '"name": "x"', "destructive",
    )  # fmt: skip
    recorded.approvals.approve(error.id, BOB)
    assert recorded.approvals.list_pending(BOB) == []
    assert recorded.approvals.require(delete()).id == error.id
    again = recorded.request(delete())
    assert again.id != error.id
    assert f"Approval {error.id} does not allow this call: it was used already, and allows one call" in again.message
    assert recorded.kinds() == ["requested", "approved", "used", "requested"]
    assert [event.approver for event in recorded.events] == ["", BOB.name, BOB.name, ""]
    assert {event.request.digest for event in recorded.events} == {pending.digest}


def test_the_same_call_has_one_request_however_often_it_is_repeated(recorded: RecordedApprovals) -> None:
    first = recorded.request(delete())
    reordered = MarkedCall(ALICE, "files", "delete", b' {"name" : "x"} ', delete().decision)
    assert {recorded.request(delete()).id, recorded.request(reordered).id} == {first.id}
    assert len(recorded.approvals.list_pending(BOB)) == 1
    assert recorded.kinds() == ["requested"]


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (delete("y"), "it is for other arguments; to use it, repeat that call exactly"),
        (delete(version="v2"), "the policy has changed since it was requested"),
        (delete(by=msgspec.structs.replace(ALICE, name="acme/alice#2")), "it was given to another credential"),
        (delete(by=BOB), None),
        (delete(tool="delete_all"), None),
        (delete(by=msgspec.structs.replace(EVE, user="alice")), None),
        (msgspec.structs.replace(delete(), server="backup"), None),
    ],
    ids=["arguments", "policy", "credential", "user", "tool", "tenant", "server"],
)
def test_an_approval_allows_only_the_call_it_was_given_for(
    recorded: RecordedApprovals, other: MarkedCall, problem: str | None
) -> None:
    error = recorded.request(delete())
    recorded.approvals.approve(error.id, OPERATOR)
    refused = recorded.request(other)
    assert refused.id != error.id
    if problem is None:
        assert error.id not in refused.message, "other callers and calls learn nothing about it"
    else:
        assert f"Approval {error.id} does not allow this call: {problem}" in refused.message
    assert recorded.approvals.require(delete()).id == error.id, "it was not used up by the other call"


def test_a_request_and_an_approval_each_expire(recorded: RecordedApprovals) -> None:
    error = recorded.request(delete())
    recorded.clocks.pass_time(599)
    approved = recorded.approvals.approve(error.id, BOB)
    assert approved.expires == recorded.clocks.wall + 600
    recorded.clocks.pass_time(600)
    again = recorded.request(delete())
    assert f"Approval {error.id} does not allow this call: it has expired" in again.message
    recorded.clocks.pass_time(600)
    with pytest.raises(ApprovalNotFound, match="is not pending any more: it is expired"):
        recorded.approvals.approve(again.id, BOB)
    assert recorded.kinds() == ["requested", "approved", "expired", "requested", "expired"]


def test_an_approval_does_not_keep_later_requests_from_expiring(recorded: RecordedApprovals) -> None:
    first, second = recorded.request(delete("x")), recorded.request(delete("y"))
    recorded.clocks.pass_time(500)
    recorded.approvals.approve(first.id, BOB)
    recorded.clocks.pass_time(100)
    assert recorded.approvals.list_pending(BOB) == []
    assert (recorded.events[-1].kind, recorded.events[-1].request.id) == ("approval.expired", second.id)
    assert recorded.approvals.require(delete("x")).id == first.id


def test_changing_the_time_of_day_extends_no_approval(recorded: RecordedApprovals) -> None:
    error = recorded.request(delete())
    recorded.approvals.approve(error.id, BOB)
    recorded.clocks.wall -= 86_400
    recorded.clocks.monotonic += 600
    assert recorded.request(delete()).id != error.id


def test_a_denied_call_stays_denied_until_the_request_would_have_expired(recorded: RecordedApprovals) -> None:
    error = recorded.request(delete())
    recorded.approvals.deny(error.id, BOB, "not on\na Friday\u202e")
    with pytest.raises(ApprovalDenied):
        recorded.approvals.require(delete())
    with pytest.raises(ApprovalDenied) as raised:
        recorded.approvals.require(delete())
    assert raised.value.data == {"approvalId": error.id}
    assert raised.value.message == (
        "The call of 'delete' was not approved: not on a Friday. The call was not made; "
        "do not repeat it unless the user asks for it"
    )
    with pytest.raises(ApprovalNotFound, match=f"it is denied by {re.escape(BOB.name)}"):
        recorded.approvals.approve(error.id, BOB)
    recorded.clocks.pass_time(600)
    recorded.request(delete())
    assert recorded.kinds() == ["requested", "denied", "requested"]


def test_another_policy_ends_what_was_requested_under_the_old_one(recorded: RecordedApprovals) -> None:
    old, new = recorded.request(delete()), recorded.request(delete("y", version="v2"))
    recorded.approvals.retain_version("v2")
    assert [request.id for request in recorded.approvals.list_pending(BOB)] == [new.id]
    assert (recorded.events[-1].kind, recorded.events[-1].request.id) == ("approval.expired", old.id)


def test_a_restart_leaves_no_approval(recorded: RecordedApprovals) -> None:
    error = recorded.request(delete())
    recorded.approvals.approve(error.id, BOB)
    restarted = RecordedApprovals()
    assert restarted.request(delete()).id != error.id
    with pytest.raises(ApprovalNotFound):
        restarted.approvals.approve(error.id, BOB)


# -- who may approve ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "approver",
    [ALICE, msgspec.structs.replace(ALICE, name="acme/alice#2", credential="2"), Principal(ALICE.name)],
    ids=["the caller", "the caller with another key", "the caller's name as an operator"],
)
def test_nobody_decides_about_their_own_call(recorded: RecordedApprovals, approver: Principal) -> None:
    error = recorded.request(delete())
    assert recorded.approvals.list_pending(approver) == []
    for decide in (recorded.approvals.approve, recorded.approvals.deny):
        with pytest.raises(ApproverRefused, match="made this call, so another person has to decide about it"):
            decide(error.id, approver)
    assert recorded.kinds() == ["requested"]


def test_without_tenants_the_caller_is_known_by_name(recorded: RecordedApprovals) -> None:
    laptop, phone = Principal("laptop"), Principal("phone")
    error = recorded.request(delete(by=laptop))
    with pytest.raises(ApproverRefused):
        recorded.approvals.approve(error.id, laptop)
    recorded.approvals.approve(error.id, phone)
    assert recorded.approvals.require(delete(by=laptop)).id == error.id


def test_a_caller_without_identity_cannot_approve(recorded: RecordedApprovals) -> None:
    error = recorded.request(delete(by=Principal("laptop")))
    with pytest.raises(ApproverRefused, match="without a key or token"):
        recorded.approvals.approve(error.id, ANONYMOUS)


def test_other_tenants_neither_see_nor_decide(recorded: RecordedApprovals) -> None:
    error = recorded.request(delete())
    assert recorded.approvals.list_pending(EVE) == []
    with pytest.raises(ApprovalNotFound) as hidden:
        recorded.approvals.approve(error.id, EVE)
    with pytest.raises(ApprovalNotFound) as unknown:
        recorded.approvals.approve("apr_0", EVE)
    assert hidden.value.message.replace(error.id, "apr_0") == unknown.value.message
    assert isinstance(hidden.value, ToolError)
    assert [request.id for request in recorded.approvals.list_pending(OPERATOR)] == [error.id]
    recorded.approvals.approve(error.id, OPERATOR)


def test_two_approvers_cannot_both_decide(recorded: RecordedApprovals) -> None:
    error = recorded.request(delete())
    recorded.approvals.approve(error.id, BOB)
    with pytest.raises(ApprovalNotFound, match="it is approved by"):
        recorded.approvals.deny(error.id, OPERATOR)
    assert recorded.approvals.require(delete()).id == error.id


principals = st.builds(
    Principal, st.sampled_from("abc"), tenant=st.sampled_from(["", "t", "u"]), user=st.sampled_from(["", "x", "y"])
)


@given(principals, principals)
def test_no_pair_of_principals_gets_around_the_rules(caller: Principal, approver: Principal) -> None:
    recorded = RecordedApprovals()
    error = recorded.request(delete(by=caller))
    is_listed = bool(recorded.approvals.list_pending(approver))
    try:
        recorded.approvals.approve(error.id, approver)
    except ToolFailure:
        assert not is_listed
        recorded.request(delete(by=caller))
        return
    assert is_listed
    assert approver.name != caller.name
    assert not approver.user or (approver.tenant, approver.user) != (caller.tenant, caller.user)
    assert approver.tenant in ("", caller.tenant)
    recorded.approvals.require(delete(by=caller))


# -- bounds ---------------------------------------------------------------------------------


def member(number: int, tenant: str = "acme") -> Principal:
    return Principal(f"{tenant}/user-{number}#1", tenant=tenant, user=f"user-{number}")


def test_a_tenant_that_floods_leaves_room_for_others(recorded: RecordedApprovals) -> None:
    recorded = RecordedApprovals(max_pending=16)
    for number in range(14):
        recorded.request(delete(by=member(number)))
    recorded.clocks.pass_time(100)
    with pytest.raises(ApprovalsFull) as raised:
        recorded.approvals.require(delete(by=member(15)))
    assert raised.value.data == {"retryAfterMs": 500_000}
    assert "repeat it when some were decided, or in 500 s, when the first expires" in raised.value.message
    error = recorded.request(delete(by=EVE))
    assert recorded.approvals.approve(error.id, OPERATOR).principal == EVE.name
    recorded.clocks.pass_time(500)
    recorded.request(delete(by=member(15)))
    assert len(recorded.approvals) == 2, "those that expired have left room"


def test_one_caller_cannot_fill_the_list_of_its_tenant(recorded: RecordedApprovals) -> None:
    requests = [recorded.request(delete(str(number))) for number in range(approvals_module.MAX_OPEN_PER_CALLER)]
    with pytest.raises(ApprovalsFull, match="32 calls of this caller wait for an approval already"):
        recorded.approvals.require(delete("more"))
    assert recorded.request(delete("0")).id == requests[0].id
    recorded.request(delete(by=member(1)))
    recorded.approvals.deny(requests[0].id, BOB)
    recorded.request(delete("more"))


def test_what_ended_is_remembered_up_to_a_bound(recorded: RecordedApprovals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals_module, "MAX_ENDED", 2)
    errors = [recorded.request(delete(name)) for name in "abc"]
    for error in errors:
        recorded.approvals.deny(error.id, BOB)
    assert recorded.request(delete("a")).id != errors[0].id
    for name in "bc":
        with pytest.raises(ApprovalDenied):
            recorded.approvals.require(delete(name))


def test_a_tenant_that_floods_ends_no_denial_of_another(
    recorded: RecordedApprovals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals_module, "MAX_ENDED", 4)
    denied = recorded.request(delete("a", by=member(0, "beta")))
    recorded.approvals.deny(denied.id, OPERATOR)
    for number in range(9):
        recorded.approvals.deny(recorded.request(delete(by=member(number))).id, OPERATOR)
    with pytest.raises(ApprovalDenied):
        recorded.approvals.require(delete("a", by=member(0, "beta")))
    remembered = []
    for number in range(9):
        try:
            recorded.approvals.require(delete(by=member(number)))
        except ApprovalDenied:
            remembered.append(number)
        except ApprovalRequired:
            pass
    assert remembered == [6, 7, 8]


def test_other_settings_apply_to_new_requests(recorded: RecordedApprovals) -> None:
    error = recorded.request(delete())
    recorded.approvals.configure(ApprovalSettings(expires_s=10, max_pending=1))
    with pytest.raises(ApprovalsFull):
        recorded.approvals.require(delete(by=EVE))
    recorded.clocks.pass_time(20)
    assert recorded.request(delete()).id == error.id
    recorded.approvals.approve(error.id, BOB)
    recorded.clocks.pass_time(10)
    recorded.request(delete(by=EVE))


def test_a_request_that_expires_before_older_ones_cannot_be_approved_after_that(recorded: RecordedApprovals) -> None:
    older = recorded.request(delete(by=EVE))
    recorded.approvals.configure(ApprovalSettings(expires_s=10))
    newer = recorded.request(delete())
    recorded.clocks.pass_time(10)
    assert [request.id for request in recorded.approvals.list_pending(OPERATOR)] == [older.id]
    with pytest.raises(ApprovalNotFound, match="it is expired"):
        recorded.approvals.approve(newer.id, OPERATOR)
    recorded.approvals.approve(older.id, OPERATOR)  # it has the shorter time from now on
    assert recorded.request(delete()).id != newer.id


# -- the journal ------------------------------------------------------------------------------


def failing_approvals(fails_at: str) -> tuple[Approvals, list[str]]:
    seen: list[str] = []

    def record(event: ApprovalEvent) -> None:
        if event.kind == fails_at:
            raise OSError("disk full")
        seen.append(event.kind)

    return Approvals(on_event=record), seen


def test_nothing_is_approved_that_cannot_be_recorded() -> None:
    approvals, seen = failing_approvals("approval.approved")
    with pytest.raises(ApprovalRequired) as raised:
        approvals.require(delete())
    with pytest.raises(OSError, match="disk full"):
        approvals.approve(raised.value.id, BOB)
    with pytest.raises(ApprovalRequired):
        approvals.require(delete())
    assert seen == ["approval.requested"]


def test_nothing_is_used_that_cannot_be_recorded() -> None:
    approvals, _ = failing_approvals("approval.used")
    with pytest.raises(ApprovalRequired) as raised:
        approvals.require(delete())
    approvals.approve(raised.value.id, BOB)
    with pytest.raises(OSError, match="disk full"):
        approvals.require(delete())


def test_an_expiry_that_cannot_be_recorded_fails_no_other_call(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0

    def record(event: ApprovalEvent) -> None:
        if event.kind == "approval.expired":
            raise OSError("disk full")

    approvals = Approvals(on_event=record, clock=lambda: now)
    with pytest.raises(ApprovalRequired):
        approvals.require(delete())
    now = 600.0
    with pytest.raises(ApprovalRequired):
        approvals.require(delete(by=EVE))
    assert "approval_expiry_not_recorded" in caplog.text
    assert len(approvals) == 1


# -- requests of clients ----------------------------------------------------------------------


def test_requests_of_clients_are_not_in_the_queue(recorded: RecordedApprovals) -> None:
    request = recorded.approvals.open_for_client(delete())
    assert recorded.approvals.list_pending(BOB) == []
    with pytest.raises(ApprovalNotFound):
        recorded.approvals.approve(request.id, BOB)
    recorded.approvals.close_for_client(request, denied="", policy_version="v1")
    recorded.request(delete())
    assert recorded.kinds() == ["requested", "approved", "used", "requested"]
    assert [event.via for event in recorded.events] == ["client", "client", "client", "queue"]


@pytest.mark.parametrize(
    ("end", "problem"),
    [
        (lambda recorded: recorded.clocks.pass_time(600), "it has expired"),
        (lambda recorded: None, "the policy changed while the person was asked"),
    ],
    ids=["expired", "policy"],
)
def test_an_answer_that_comes_too_late_allows_nothing(
    recorded: RecordedApprovals, end: Callable[[RecordedApprovals], None], problem: str
) -> None:
    request = recorded.approvals.open_for_client(delete())
    end(recorded)
    with pytest.raises(ApprovalInvalid, match=f"{problem}. The call was not made; repeat it to ask again"):
        recorded.approvals.close_for_client(request, denied="", policy_version="v2")
    assert recorded.kinds() == ["requested", "expired"]
    assert len(recorded.approvals) == 0


def test_the_hub_can_mask_its_own_secrets_in_the_preview() -> None:
    approvals = Approvals(redact=lambda text: text.replace("opensesame", "***"))
    with pytest.raises(ApprovalRequired):
        approvals.require(delete("opensesame"))
    assert approvals.list_pending(BOB)[0].preview == '"name": "***"'
