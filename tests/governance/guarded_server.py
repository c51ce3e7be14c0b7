"""A server whose calls all need an approval, asked for as a hub asks."""

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET

from hubbub import Call, CallNext, Context, Reply, Server
from hubbub.governance.approvals import ApprovalEvent, Approvals, MarkedCall
from hubbub.governance.approved_rounds import ApprovedRounds, find_request_state
from hubbub.governance.client_approval import approve_call, must_suspend
from hubbub.governance.decision import PolicyDecision
from hubbub.rounds import Rounds
from hubbub.settings.governance import ApprovalSettings


@dataclass
class Size:
    size: int


class GuardedServer:
    """Has tools with and without questions of their own; records what ran and what was reported."""

    def __init__(self, **settings: Any) -> None:
        self.server = Server("shop")
        self.ran: list[str] = []
        self.events: list[ApprovalEvent] = []
        self.policy_version = "v1"
        self.approvals = Approvals(msgspec.convert(settings, ApprovalSettings), on_event=self.events.append)
        self.rounds = Rounds(self.server.sealer)
        self.continued = ApprovedRounds()
        self.server.middleware(self.guard)

        @self.server.tool
        async def delete(name: str) -> str:
            self.ran.append(f"delete {name}")
            return f"deleted {name}"

        @self.server.tool
        async def order(item: str, context: Context) -> str:
            answer = await context.elicit("Which size?", Size)
            assert answer.content is not None
            self.ran.append(f"order {item} {answer.content.size}")
            return f"ordered {item} in {answer.content.size}"

    async def guard(self, call: Call, call_next: CallNext) -> Reply:
        if call.method != "tools/call":
            return await call_next(call)
        if self.rounds.can_resume(call):
            return await self.rounds.resume(call)
        params, caller = call.params, call.caller
        decision = PolicyDecision("confirm", "policy.rules[0]", "it cannot be undone", self.policy_version)
        marked = MarkedCall(caller.principal, "shop", params.name, params.arguments, decision)
        continued = None
        if params.request_state is not UNSET:
            continued = self.continued.take(params.request_state, marked)

        async def run(inner: Call) -> Reply:
            approval = continued
            if approval is None:
                approval = await approve_call(self.approvals, inner, marked, lambda: self.policy_version)
            reply = await call_next(inner)
            if (state := find_request_state(reply)) is not None:
                self.continued.remember(approval, state)
            return reply

        if continued is None and must_suspend(self.approvals.settings.via, caller):
            return await self.rounds.begin(call, run)
        return await run(call)

    def kinds(self) -> list[str]:
        return [event.kind.removeprefix("approval.") for event in self.events]
