"""Combines policy, quotas, approvals and audit on the path of a call through a hub.

    count -> decide -> ask a person -> record the decision -> call -> record the outcome

A call runs only after its decision is in the journal. Each part is optional, except the policy.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import count
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw

from hubbub.errors import (
    AuditUnavailable,
    HubbubError,
    NotFound,
    PromptNotFound,
    QuotaExceeded,
    ResourceNotFound,
    ToolFailure,
    ToolNotFound,
)
from hubbub.governance.approvals import MarkedCall
from hubbub.governance.approved_rounds import ApprovedRounds, find_request_state
from hubbub.governance.audit_events import MAX_TEXT_CHARACTERS, AuditEvent
from hubbub.governance.call_records import (
    add_facts,
    find_code,
    find_outcome,
    make_approval_event,
    make_end_event,
    redact_facts,
)
from hubbub.governance.client_approval import approve_call, must_suspend
from hubbub.governance.decision import Action, PolicyDecision, PolicyEngine, Target
from hubbub.governance.recording_intervals import RecordingIntervals
from hubbub.governance.repeated_denials import RepeatedDenials
from hubbub.governance.tenant_access import OPERATOR_RULE
from hubbub.protocol.calls import Call, Principal, RawReply, Reply
from hubbub.protocol.results import is_failed_tool
from hubbub.security.redact import redact

if TYPE_CHECKING:
    from hubbub.governance.approvals import ApprovalEvent, ApprovalRequest, Approvals
    from hubbub.governance.call_quotas import CallQuotas, TenantCalls
    from hubbub.governance.journal import Journal

Request = Callable[[Call], Coroutine[Any, Any, Reply]]
OWNER_RULE: Final = "owner"
"""What decides about administration by the user who runs the hub."""
_APPROVED_ACTIONS: Final = ("call", "get", "read")
_COUNTED_EVENTS: Final = ("egress.refused", "secret.denied")
"""Refusals that each call of a caller can cause."""
_URI_KINDS: Final = ("resource", "template")
"""Targets whose name may hold a password or a token."""


class Governor:
    """Decides, limits, confirms and records what callers do in one hub."""

    def __init__(
        self,
        engine: PolicyEngine,
        *,
        quotas: CallQuotas | None = None,
        tenant_calls: TenantCalls | None = None,
        approvals: Approvals | None = None,
        journal: Journal | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._engine = engine
        self._quotas = quotas
        self._tenant_calls = tenant_calls
        self.approvals = approvals
        self._journal = journal
        self._call_prefix = os.urandom(4).hex()
        self._call_numbers = count(1)
        self._refusals = RecordingIntervals(clock)
        self._denials = RepeatedDenials(self._record_later)
        self._approved_rounds = ApprovedRounds(clock=clock)
        self.has_output_schema: Callable[[Target], bool] = lambda target: False
        """Whether a tool is listed with an output schema, which decides the form of its errors."""

    # -- policy --------------------------------------------------------------------------

    @property
    def engine(self) -> PolicyEngine:
        """The policy in effect."""
        return self._engine

    def use_policy(self, engine: PolicyEngine) -> None:
        """Decide by another policy from now on; approvals under the old one are void."""
        self._engine = engine
        if self.approvals is not None:
            self.approvals.retain_version(engine.version)

    def group(self, principal: Principal) -> Hashable:
        """Return a key that principals share who may see the same."""
        return self._engine.group(principal)

    def shows(self, principal: Principal, target: Target, action: Action = "list") -> bool:
        """Whether a principal may know of a target, and find it in this way."""
        return self._engine.decide(principal, action, target).effect != "deny"

    # -- calls ---------------------------------------------------------------------------

    async def run(self, call: Call, action: Action, target: Target, request: Request, shown_as: str = "") -> Reply:
        """Send a call to its target, if policy, quotas and a person allow it.

        `shown_as`: the name that the caller used.

        Raises: as `admit`, and what `request` raises.
        """
        event: AuditEvent | None = None
        approval: ApprovalRequest | None = None
        principal, quotas, tenant_calls, journal = (
            call.caller.principal,
            self._quotas,
            self._tenant_calls,
            self._journal,
        )
        tenant = principal.tenant
        if quotas is not None and (exceeded := quotas.check(principal, target.server, target.name)) is not None:
            raise await self._refuse(call, action, target, exceeded)
        decision = self._engine.decide(principal, action, target)
        if decision.effect != "allow":
            if decision.effect == "confirm" and tenant_calls is not None and (busy := tenant_calls.check(tenant)):
                # Nothing is awaited between this and `acquire` if the queue has an approval, so none is lost.
                raise await self._refuse(call, action, target, busy)
            event, approval = await self._confirm(call, action, target, shown_as)
        elif journal is not None:
            event = self._make_event("decision", call, action, target, decision, shown_as)
        if tenant_calls is not None and (busy := tenant_calls.acquire(tenant)) is not None:
            self._record_skipped_call(event, approval, busy)
            raise await self._refuse(call, action, target, busy)
        started = 0.0
        try:
            if journal is not None and event is not None:
                await journal.record(event)
            started = perf_counter()
            reply = await request(call)
        except BaseException as failure:
            if started:
                self._record_failure(event, started, failure)
            else:
                self._record_skipped_call(event, approval, failure)
            raise
        finally:
            if tenant_calls is not None:
                tenant_calls.release(tenant)
        self._record_reply(event, approval, started, reply)
        return reply

    async def admit(self, call: Call, action: Action, target: Target) -> None:
        """Check something that is not a call, such as a subscription, and record the decision.

        Raises:
            NotFound: the policy denies it; for its caller the target does not exist.
            QuotaExceeded: the caller has used up a quota.
            ToolFailure: a person has to approve it, or has not approved it.
            AuditUnavailable: the decision cannot be recorded.
        """
        error = self._count(call, target)
        if error is not None:
            raise await self._refuse(call, action, target, error)
        event, _ = await self._confirm(call, action, target)
        if self._journal is not None and event is not None:
            await self._journal.record(event)

    async def administer(
        self, call: Call, target: Target, request: Request, *, is_owner: bool = False, is_hidden: bool = False
    ) -> Reply:
        """Run a function of administration, if the policy allows it, and record it like a call.

        Quotas do not apply: whoever ends a flood of calls must not be kept out by it. `is_owner`: the caller is the
        user who runs the hub and could change the policy, so that the policy does not decide. `is_hidden`: the function
        is for operators, and the caller is none.

        Raises: as `admit`, and what `request` raises.
        """
        version = self._engine.version
        if is_owner:
            decision = PolicyDecision("allow", OWNER_RULE, "The caller runs the hub", version)
        elif is_hidden:
            decision = PolicyDecision("deny", OPERATOR_RULE, "Only operators of the hub can use this", version)
        else:
            decision = self._engine.decide(call.caller.principal, "admin", target)
        if decision.effect == "deny":
            raise await self._deny(call, "admin", target, decision)
        try:
            event = await self._record_decision(call, "admin", target, decision)
        except AuditUnavailable:
            if not _is_read_only(target):
                raise
            event = None  # administrators must be able to find out why the journal cannot be written
        started = perf_counter()
        try:
            reply = await request(call)
        except BaseException as error:
            self._record_failure(event, started, error)
            raise
        self._record_reply(event, None, started, reply)
        return reply

    async def _confirm(
        self, call: Call, action: Action, target: Target, shown_as: str = ""
    ) -> tuple[AuditEvent | None, ApprovalRequest | None]:
        """Return the decision to record for a call that may be made, after a person has approved it if required."""
        id = ""
        while True:
            decision = self._engine.decide(call.caller.principal, action, target)
            if decision.effect == "deny":
                raise await self._deny(call, action, target, decision)
            event: AuditEvent | None = None
            if self._journal is not None:
                event = self._make_event("decision", call, action, target, decision, shown_as, id=id)
                id = event.call
            if decision.effect != "confirm" or action not in _APPROVED_ACTIONS or self.approvals is None:
                return event, None
            approval = await self._require_approval(call, target, decision, event)
            if decision.version == self._engine.version:
                return event and add_facts(event, approval=approval.id, approved=True), approval
            # The policy changed while a person was asked, so it decides again.

    def _record_reply(
        self, event: AuditEvent | None, approval: ApprovalRequest | None, started: float, reply: Reply
    ) -> None:
        """Record the end of a call, and let its caller continue it if it was approved and asks for input."""
        if approval is not None and (state := find_request_state(reply)) is not None:
            self._approved_rounds.remember(approval, state)
        if self._journal is not None and event is not None:
            size = len(reply.body) if isinstance(reply, RawReply) else None
            outcome = "tool_error" if is_failed_tool(reply) else "ok"
            self._journal.record_later(make_end_event(event, started, outcome, size=size))

    def _record_failure(self, event: AuditEvent | None, started: float, error: BaseException) -> None:
        """Record the end of a call that raised an error."""
        if self._journal is not None and event is not None:
            self._journal.record_later(make_end_event(event, started, find_outcome(error), error=error))

    def _record_skipped_call(
        self, event: AuditEvent | None, approval: ApprovalRequest | None, error: BaseException
    ) -> None:
        """Record the end of a call that was not made after its decision was recorded or its approval was used."""
        if event is not None and (approval is not None or isinstance(error, asyncio.CancelledError)):
            outcome = "refused" if isinstance(error, HubbubError) else find_outcome(error)
            self.record_event(make_end_event(event, perf_counter(), outcome, error=error))

    async def _record_decision(
        self, call: Call, action: Action, target: Target, decision: PolicyDecision
    ) -> AuditEvent | None:
        if self._journal is None:
            return None
        event = self._make_event("decision", call, action, target, decision)
        await self._journal.record(event)
        return event

    def _count(self, call: Call, target: Target) -> QuotaExceeded | None:
        """Count a call; return the error if a quota is exceeded."""
        if self._quotas is None:
            return None
        return self._quotas.check(call.caller.principal, target.server, target.name)

    async def record_missing(self, call: Call, action: Action, requested: Target, hidden: Target | None) -> None:
        """Count a request for something that its caller does not see, and record it if it exists.

        `requested` has no server. It is counted alike whether there is a hidden target or none, and the record is not
        waited for: neither quotas nor times may tell a caller which names exist.

        Raises: QuotaExceeded.
        """
        error = self._count(call, requested)
        if error is not None:
            raise await self._refuse(call, action, requested, error)
        if hidden is None or self._journal is None:
            return
        decision = self._engine.decide(call.caller.principal, action, hidden)
        if decision.effect == "deny" and (event := self._begin_denial(call, action, hidden, decision, requested.name)):
            self.record_event(event)

    async def _deny(self, call: Call, action: Action, target: Target, decision: PolicyDecision) -> NotFound:
        if self._journal is not None and (event := self._begin_denial(call, action, target, decision)):
            try:
                await self._journal.record(event)
            except BaseException:
                self._denials.cancel(*_denial_keys(call, action, target, decision))
                raise
        return _not_found(target)

    def _begin_denial(
        self, call: Call, action: Action, target: Target, decision: PolicyDecision, shown_as: str = ""
    ) -> AuditEvent | None:
        """Return the record of a denial; None if it was counted, because it repeats one that was recorded."""
        key, group = _denial_keys(call, action, target, decision)
        if self._denials.count(key, group):
            return None
        event = self._make_event("decision", call, action, target, decision, shown_as)
        # A long name would use memory that can count many denials of shorter names.
        self._denials.begin(key, group, event, is_remembered=len(target.name) <= MAX_TEXT_CHARACTERS)
        return event

    # -- approvals -----------------------------------------------------------------------

    def suspends(self, call: Call, action: Action, target: Target) -> bool:
        """Whether `run` asks the caller's client for an approval that a stateless client gives in another request."""
        caller = call.caller
        if self.approvals is None or action not in _APPROVED_ACTIONS or not caller.revision.rounds:
            return False
        if not caller.capabilities:  # it cannot be asked
            return False
        if self._engine.decide(caller.principal, action, target).effect != "confirm":  # most calls
            return False
        return must_suspend(self.approvals.settings.via, caller)

    async def _require_approval(
        self, call: Call, target: Target, decision: PolicyDecision, event: AuditEvent | None
    ) -> ApprovalRequest:
        """Return the approval of a call. The decision is recorded before a person is asked, and before an error."""
        assert self.approvals is not None
        id = "" if event is None else event.call
        marked = MarkedCall(call.caller.principal, target.server, target.name, _arguments(call), decision, id)
        started, is_recorded = perf_counter(), False

        async def record_decision(request: ApprovalRequest) -> None:
            nonlocal is_recorded
            if self._journal is not None and event is not None:
                await self._journal.record(add_facts(event, approval=request.id))
                is_recorded = True

        try:
            state = getattr(call.params, "request_state", UNSET)
            if state is not UNSET:  # a later round of a call that was approved
                return self._approved_rounds.take(state, marked)
            return await approve_call(self.approvals, call, marked, lambda: self._engine.version, record_decision)
        except BaseException as error:
            if isinstance(error, ToolFailure):
                error.has_schema = self.has_output_schema(target)
            if event is not None and (is_recorded or await self._record_unapproved(call, event, error)):
                outcome = "refused" if isinstance(error, HubbubError) else find_outcome(error)
                self.record_event(make_end_event(event, started, outcome, error=error))
            raise

    async def _record_unapproved(self, call: Call, event: AuditEvent, error: BaseException) -> bool:
        """Record the decision about a call without approval; of calls that wait for the same one, once in a while."""
        if self._journal is None or not isinstance(error, HubbubError) or isinstance(error, AuditUnavailable):
            return False
        approval: str = getattr(error, "id", "")
        if not self._refusals.is_due((approval or call.caller.principal.name, find_code(error))):
            return False
        await self._journal.record(add_facts(event, approval=approval) if approval else event)
        return True

    # -- audit ---------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the journal open while the block runs."""
        if self._journal is None:
            yield
            return
        await self._journal.open()
        try:
            yield
        finally:
            self._denials.end_all()
            await self._journal.close()

    def record_approval(self, event: ApprovalEvent) -> None:
        """Record a change of an approval; for `Approvals(on_event=...)`."""
        self.record_event(make_approval_event(event))

    def record_event(self, event: AuditEvent) -> None:
        """Record what is not a call, such as a session that was opened or a secret that was denied."""
        if self._journal is None:
            return
        if event.event in _COUNTED_EVENTS:
            group = event.event, event.tenant, event.user, event.credential, event.server
            key = *group, *(event.facts or {}).items()
            if self._denials.count(key, group):
                return
            self._denials.begin(key, group, event)
        self._record_later(event)

    def _record_later(self, event: AuditEvent) -> None:
        if self._journal is not None:
            self._journal.record_later(redact_facts(event))

    async def _refuse(self, call: Call, action: Action, target: Target, error: QuotaExceeded) -> QuotaExceeded:
        """Record a call that a quota refused: the first of its caller, and one in a while after that."""
        error.has_schema = self.has_output_schema(target)
        if self._journal is None or not self._refusals.is_due(call.caller.principal.name):
            return error
        event = self._make_event("quota.exceeded", call, action, target, None)
        refusal = msgspec.structs.replace(event, outcome="refused", facts={"reason": error.message})
        await self._journal.record(redact_facts(refusal))
        return error

    def _make_event(
        self,
        kind: str,
        call: Call,
        action: Action,
        target: Target,
        decision: PolicyDecision | None,
        shown_as: str = "",
        *,
        id: str = "",
    ) -> AuditEvent:
        principal, meta = call.caller.principal, call.meta
        if shown_as:
            shown_as = "" if shown_as == target.name else redact(shown_as) if target.kind in _URI_KINDS else shown_as
        return AuditEvent(
            event=kind,
            call=id or f"{self._call_prefix}-{next(self._call_numbers)}",
            tenant=principal.tenant,
            user=principal.user or principal.name,
            client=principal.client,
            credential=principal.credential,
            trace="" if meta.traceparent is UNSET else meta.traceparent,
            server=target.server,
            tool=redact(target.name) if target.kind in _URI_KINDS else target.name,
            shown_as=shown_as,
            kind=target.kind,
            action=action,
            args_sha256=sha256(_arguments(call)).hexdigest(),
            decision=decision,
        )


def _arguments(call: Call) -> Raw | bytes:
    """The arguments of a call as they were sent; of a method without arguments, its params."""
    arguments = getattr(call.params, "arguments", None)
    if isinstance(arguments, Raw):
        return arguments
    return call.raw if arguments is None else msgspec.json.encode(arguments)


def _denial_keys(call: Call, action: Action, target: Target, decision: PolicyDecision) -> tuple[Hashable, Hashable]:
    """What a denial has in common with its repetitions, and with denials of other targets by the same rule."""
    group = call.caller.principal.name, action, target.kind, target.server, decision
    return (group, target.name), group


def _not_found(target: Target) -> NotFound:
    if target.kind == "prompt":
        return PromptNotFound(target.name)
    return ResourceNotFound(target.name) if target.kind in ("resource", "template") else ToolNotFound(target.name, [])


def _is_read_only(target: Target) -> bool:
    return target.annotations is not None and target.annotations.read_only_hint is True
