"""Approvals: calls that the policy marks with `confirm` are made only if a person approves exactly this call.

An approval is bound to the caller (`Principal.name`), the server and tool, a digest of the arguments and the version
of the policy. It expires, and allows one call. Nobody can approve a call of their own in the queue, whatever credential
they use, nor a call of another tenant. Whether a principal may approve at all is a scope, which the administration
checks.

Everything is in memory: after a restart no approval is left that could be used again, and calls have to be requested
anew. Nothing here waits, so a check and the change that follows it cannot be interrupted by another call.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Final, Literal, TypeAlias

import msgspec

from hubbub.governance.approval_errors import (
    ApprovalDenied,
    ApprovalInvalid,
    ApprovalNotFound,
    ApprovalRequired,
    ApprovalsFull,
    ApproverRefused,
)
from hubbub.governance.decision import PolicyDecision
from hubbub.governance.reviewed_arguments import Redact, review_arguments
from hubbub.protocol.calls import ANONYMOUS, Principal
from hubbub.security.redact import redact as redact_secrets
from hubbub.settings.governance import ApprovalSettings
from hubbub.shares import Shares

MAX_OPEN_PER_CALLER: Final = 32
"""Requests and unused approvals of one caller: a model that tries variations must not fill the approvers' list."""
MAX_ENDED: Final = 1000
"""Requests that have ended, kept to explain why they allow nothing, and to repeat a denial until it expires."""
REASON_CHARACTERS: Final = 500
"""The reason that an approver gives."""

DEFAULT_SETTINGS: Final = ApprovalSettings()

logger = logging.getLogger("hubbub.governance")

Via: TypeAlias = Literal["client", "queue"]
EventKind: TypeAlias = Literal[
    "approval.requested", "approval.approved", "approval.denied", "approval.used", "approval.expired"
]
_State: TypeAlias = Literal["pending", "approved", "denied", "used", "expired"]


class MarkedCall(msgspec.Struct, frozen=True):
    """A call that the policy marked with `confirm`."""

    principal: Principal
    server: str
    tool: str
    """Its name on the server."""
    arguments: msgspec.Raw | bytes
    """As the server will get them."""
    decision: PolicyDecision
    call: str = ""
    """Its id in the audit journal."""


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A call that needs a person: everything that its approval is bound to, and what the person reads."""

    id: str
    principal: str
    """`Principal.name` of the caller."""
    tenant: str
    user: str
    client: str
    server: str
    tool: str
    digest: str
    """Digest of the tool and its arguments."""
    policy_version: str
    reason: str
    """Of the rule that marked the call."""
    created: float
    """Seconds since 1970."""
    expires: float
    """Seconds since 1970; an approval has as much time as the request had."""
    preview: str
    """The arguments, with secrets masked, and shortened."""
    preview_is_complete: bool
    call: str = ""
    """The id of the call that requested it, in the audit journal."""
    args_sha256: str = ""
    """Of the arguments as they were sent with the request, as in the audit journal."""


class ApprovalEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One change, for the audit journal."""

    kind: EventKind
    request: ApprovalRequest
    via: Via
    approver: str = ""
    """`Principal.name` of who decided; with `via` client, it is the caller, whose client asked a person."""
    reason: str = ""
    call: str = ""
    """The call that requested the approval; of `approval.used`, the call that is made."""
    args_sha256: str = ""
    """Of the arguments as this call sent them."""


class _Entry:
    """A request and its state."""

    __slots__ = ("approver", "expires_at", "reason", "request", "state", "via")

    def __init__(self, request: ApprovalRequest, via: Via, expires_at: float) -> None:
        self.request = request
        self.via = via
        self.expires_at = expires_at
        """On the monotonic clock: changing the time of the system extends nothing."""
        self.state: _State = "pending"
        self.approver = ""
        self.reason = ""

    @property
    def binding(self) -> tuple[str, str, str, str, str]:
        request = self.request
        return request.principal, request.server, request.tool, request.digest, request.policy_version

    @property
    def owner(self) -> str:
        return self.request.tenant or self.request.principal


class Approvals:
    """The requests and approvals of one hub."""

    def __init__(
        self,
        settings: ApprovalSettings = DEFAULT_SETTINGS,
        *,
        on_event: Callable[[ApprovalEvent], None] = lambda event: None,
        redact: Redact = redact_secrets,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`on_event` is called before a change takes effect: if it raises, nothing is requested, approved or used."""
        self.settings = settings
        self._on_event = on_event
        self._redact = redact
        self._clock = clock
        self._wall_clock = wall_clock
        self._open: dict[str, _Entry] = {}
        """Pending requests and unused approvals by id; those that expire first come first."""
        self._queued: dict[tuple[str, str, str, str, str], str] = {}
        """Ids of the queue by what they are bound to: open ones, and denials."""
        self._ended: dict[str, _Entry] = {}
        """The oldest first."""
        self._ended_shares = Shares(MAX_ENDED)
        self._shares = Shares(settings.max_pending)
        self._open_by_caller: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def configure(self, settings: ApprovalSettings) -> None:
        """Use other settings; requests that are open keep their expiry."""
        self.settings = settings
        self._shares.limit = settings.max_pending

    # -- calls -----------------------------------------------------------------------------

    def require(self, call: MarkedCall) -> ApprovalRequest:
        """Use up the approval that the queue has for exactly this call, or add a request to the queue.

        Raises:
            ApprovalRequired: a person has to approve it first; the same error until then.
            ApprovalDenied: a person denied it; the same error until the denial expires.
            ApprovalsFull: too many requests are pending.
            ArgumentsInvalid: a person cannot review the arguments.
        """
        self._expire()
        request = self._make_request(call)
        new = _Entry(request, "queue", self._clock() + self.settings.expires_s)
        entry = self._find_queued(new)
        if entry is None:
            self._add(new)
            self._queued[new.binding] = request.id
            raise _make_required(request, self._explain(new))
        if entry.state == "approved":
            self._use(entry, request)
            return entry.request
        if entry.state == "denied":
            raise ApprovalDenied(entry.request.id, call.tool, entry.reason)
        raise _make_required(entry.request)

    def open_for_client(self, call: MarkedCall) -> ApprovalRequest:
        """Open a request that the caller's client will ask about, and which `close_for_client` must end.

        Raises: ApprovalsFull, ArgumentsInvalid.
        """
        self._expire()
        request = self._make_request(call)
        self._add(_Entry(request, "client", self._clock() + self.settings.expires_s))
        return request

    def close_for_client(self, request: ApprovalRequest, *, denied: str, policy_version: str) -> None:
        """End a request with the answer of the client; if `denied` is empty, the approval is used at once.

        Raises:
            ApprovalDenied: nobody approved it; `denied` says why.
            ApprovalInvalid: it has expired, or another policy is in force now.
        """
        self._expire()
        entry = self._open.get(request.id)
        if entry is None:
            raise ApprovalInvalid(request.id, "it has expired. The call was not made; repeat it to ask again")
        if denied:
            self._end(entry, "denied", approver=request.principal, reason=denied)
            raise ApprovalDenied(request.id, request.tool, denied)
        if policy_version != request.policy_version:
            problem = "the policy changed while the person was asked"
            self._end(entry, "expired", reason=problem)
            raise ApprovalInvalid(request.id, f"{problem}. The call was not made; repeat it to ask again")
        self._emit("approval.approved", entry, approver=request.principal)
        self._use(entry, request)

    # -- approvers -------------------------------------------------------------------------

    def list_pending(self, approver: Principal) -> list[ApprovalRequest]:
        """The requests in the queue that this principal may decide about, the oldest first."""
        self._expire()
        return [
            entry.request
            for entry in self._open.values()
            if entry.state == "pending" and entry.via == "queue" and _find_objection(entry.request, approver) is None
        ]

    def approve(self, id: str, approver: Principal) -> ApprovalRequest:
        """Allow one call of exactly this request, which has the usual time to be made.

        Raises:
            ApprovalNotFound: it does not exist, is not pending, or belongs to another tenant.
            ApproverRefused: the approver is its caller.
        """
        entry = self._find_pending(id, approver)
        self._emit("approval.approved", entry, approver=approver.name)
        lifetime_s = self.settings.expires_s
        entry.request = msgspec.structs.replace(entry.request, expires=self._wall_clock() + lifetime_s)
        entry.expires_at = self._clock() + lifetime_s
        entry.state = "approved"
        entry.approver = approver.name
        self._insert(self._open.pop(id))
        return entry.request

    def deny(self, id: str, approver: Principal, reason: str = "") -> ApprovalRequest:
        """Refuse a request; the same call is refused until the request would have expired.

        Raises: ApprovalNotFound, ApproverRefused; see `approve`.
        """
        entry = self._find_pending(id, approver)
        text = "".join(character if character.isprintable() else " " for character in reason[:REASON_CHARACTERS])
        self._end(entry, "denied", approver=approver.name, reason=text.strip() or "a person denied it")
        return entry.request

    def retain_version(self, policy_version: str) -> None:
        """End everything that was requested under another version of the policy, because it cannot be used any more."""
        self._expire()
        for entry in list(self._open.values()):
            # The request of a client ends when its person answers.
            if entry.via == "queue" and entry.request.policy_version != policy_version:
                self._end(entry, "expired", reason="the policy changed")

    # -- state -----------------------------------------------------------------------------

    def _make_request(self, call: MarkedCall) -> ApprovalRequest:
        principal = call.principal
        reviewed = review_arguments(call.tool, call.arguments, self._redact)
        now = self._wall_clock()
        return ApprovalRequest(
            id=f"apr_{os.urandom(8).hex()}",
            principal=principal.name,
            tenant=principal.tenant,
            user=principal.user,
            client=principal.client,
            server=call.server,
            tool=call.tool,
            digest=reviewed.digest,
            policy_version=call.decision.version,
            reason=call.decision.reason,
            created=now,
            expires=now + self.settings.expires_s,
            preview=reviewed.preview,
            preview_is_complete=reviewed.is_complete,
            call=call.call,
            args_sha256=sha256(call.arguments).hexdigest(),
        )

    def _find_queued(self, new: _Entry) -> _Entry | None:
        id = self._queued.get(new.binding, "")
        entry = self._open.get(id) or self._ended.get(id)
        return None if entry is None or entry.expires_at <= self._clock() else entry

    def _find_pending(self, id: str, approver: Principal) -> _Entry:
        self._expire()
        entry = self._open.get(id) or self._ended.get(id)
        if entry is None or entry.via != "queue" or not _shares_tenant(entry.request, approver):
            raise ApprovalNotFound(id)
        if (objection := _find_objection(entry.request, approver)) is not None:
            raise ApproverRefused(objection)
        if entry.state != "pending":
            by = f" by {entry.approver}" if entry.approver else ""
            raise ApprovalNotFound(id, f"Approval {id} is not pending any more: it is {entry.state}{by}")
        return entry

    def _add(self, entry: _Entry) -> None:
        """Raises: ApprovalsFull."""
        caller, owner = entry.request.principal, entry.owner
        by_caller = self._open_by_caller.get(caller, 0)
        if by_caller >= MAX_OPEN_PER_CALLER:
            raise self._make_full(lambda other: other.request.principal == caller, f"{by_caller} calls of this caller")
        if not self._shares.has_room(owner):
            raise self._make_full(lambda other: other.owner == owner, "too many calls")
        self._emit("approval.requested", entry, reason=entry.request.reason)
        self._insert(entry)
        self._shares.take(owner)
        self._open_by_caller[caller] = by_caller + 1

    def _insert(self, entry: _Entry) -> None:
        """Add an entry in the order of expiry: it comes last, unless `expires_s` has become shorter."""
        last = next(reversed(self._open.values()), entry)
        self._open[entry.request.id] = entry
        if last.expires_at > entry.expires_at:
            self._open = dict(sorted(self._open.items(), key=lambda item: item[1].expires_at))

    def _make_full(self, is_related: Callable[[_Entry], bool], subject: str) -> ApprovalsFull:
        related = [entry for entry in self._open.values() if is_related(entry)] or list(self._open.values())
        wait_s = max(1, round(min(entry.expires_at for entry in related) - self._clock() + 0.5))
        return ApprovalsFull(
            f"A person has to approve this call, and {subject} wait for an approval already. The call was not made; "
            f"repeat it when some were decided, or in {wait_s} s, when the first expires",
            wait_s,
        )

    def _use(self, entry: _Entry, made: ApprovalRequest) -> None:
        """`made`: the request of the call that is made now."""
        self._emit("approval.used", entry, approver=entry.approver, of=made)
        self._remove(entry, "used", entry.approver)

    def _end(self, entry: _Entry, state: _State, *, approver: str = "", reason: str = "") -> None:
        kind: EventKind = f"approval.{state}"  # type: ignore[assignment]
        self._emit(kind, entry, approver=approver, reason=reason)
        self._remove(entry, state, approver, reason)

    def _remove(self, entry: _Entry, state: _State, approver: str = "", reason: str = "") -> None:
        request = entry.request
        del self._open[request.id]
        self._shares.give_back(entry.owner)
        left = self._open_by_caller[request.principal] - 1
        if left:
            self._open_by_caller[request.principal] = left
        else:
            del self._open_by_caller[request.principal]
        entry.state, entry.approver, entry.reason = state, approver, reason
        if state != "denied":
            self._unqueue(entry)
        self._ended[request.id] = entry
        self._ended_shares.take(request.principal)
        if len(self._ended) > MAX_ENDED:
            self._forget_ended()

    def _forget_ended(self) -> None:
        """Forget the oldest request that ended, of the caller with the most in the tenant with the most."""
        caller = self._ended_shares.find_largest()
        entry = next(entry for entry in self._ended.values() if entry.request.principal == caller)
        del self._ended[entry.request.id]
        self._ended_shares.give_back(caller)
        self._unqueue(entry)

    def _unqueue(self, entry: _Entry) -> None:
        if self._queued.get(entry.binding) == entry.request.id:
            del self._queued[entry.binding]

    def _expire(self) -> None:
        """End what has expired. An event that cannot be recorded must not fail the call of another caller."""
        now = self._clock()
        while self._open:
            entry = next(iter(self._open.values()))
            if entry.expires_at > now:
                return
            self._remove(entry, "expired")
            try:
                self._emit("approval.expired", entry)
            except Exception:
                logger.exception("approval_expiry_not_recorded", extra={"approval": entry.request.id})

    def _explain(self, new: _Entry) -> str:
        """Say why an earlier approval of the same user for the same tool does not allow this call."""
        request = new.request
        subject = (request.tenant, request.user, request.server, request.tool)
        for entry in (*reversed(self._open.values()), *reversed(self._ended.values())):
            other = entry.request
            if entry.via != "queue" or (other.tenant, other.user, other.server, other.tool) != subject:
                continue
            if not request.user and other.principal != request.principal:
                continue
            if problem := _find_difference(entry, new):
                return f"Approval {other.id} does not allow this call: {problem}"
        return ""

    def _emit(
        self, kind: EventKind, entry: _Entry, *, approver: str = "", reason: str = "", of: ApprovalRequest | None = None
    ) -> None:
        source = of or entry.request
        self._on_event(
            ApprovalEvent(
                kind=kind,
                request=entry.request,
                via=entry.via,
                approver=approver,
                reason=reason,
                call=source.call,
                args_sha256=source.args_sha256,
            )
        )


def _make_required(request: ApprovalRequest, note: str = "") -> ApprovalRequired:
    return ApprovalRequired(request.id, request.server, request.tool, request.expires, reason=request.reason, note=note)


def _find_difference(entry: _Entry, new: _Entry) -> str:
    """Why an approval does not fit; empty for one that was never given."""
    approved, request = entry.request, new.request
    if entry.state == "used" and approved.digest == request.digest:
        return "it was used already, and allows one call"
    if entry.state == "expired" and approved.digest == request.digest:
        return entry.reason or "it has expired"
    if entry.state != "approved":
        return ""
    if approved.digest != request.digest:
        return "it is for other arguments; to use it, repeat that call exactly"
    if approved.policy_version != request.policy_version:
        return "the policy has changed since it was requested"
    return "it was given to another credential"


def _shares_tenant(request: ApprovalRequest, approver: Principal) -> bool:
    return approver.tenant in ("", request.tenant)


def _find_objection(request: ApprovalRequest, approver: Principal) -> str | None:
    """Why a principal may not decide about a request; None if it may. Operators have no tenant."""
    if not _shares_tenant(request, approver):
        return "Only its own tenant and the operators of the hub can decide about this call"
    if approver == ANONYMOUS:
        return "Callers without a key or token cannot approve calls"
    is_same_user = bool(approver.user) and (approver.tenant, approver.user) == (request.tenant, request.user)
    if approver.name == request.principal or is_same_user:
        return f"{approver.user or approver.name!r} made this call, so another person has to decide about it"
    return None
