"""Multi round-trip requests of the stateless era: a handler is suspended while it waits for input.

A server suspends its own handlers here, a hub the calls that it forwards to legacy servers.

When a running handler requests input, the open request is answered with `input_required`
and a sealed handle, and the handler is suspended. The repeated request carries the handle
and the responses, and the handler continues. A handle is bound to the caller, the method,
the parameters and the turn, so that it cannot be replayed or used for another request.
No handler runs twice: if its round no longer exists, the request fails with "start again".
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub import bounds
from hubbub.errors import DeadlineExceeded, InvalidParams, Overloaded
from hubbub.ports import Sealer
from hubbub.protocol.calls import Call, Notification, Principal, RawReply, Reply
from hubbub.protocol.jsonrpc import NULL
from hubbub.protocol.params import format_decode_error
from hubbub.protocol.results import InputRequired, ProgressParams
from hubbub.shares import Shares

_PURPOSE = "round"
_START_AGAIN = "The call of this `requestState` has ended or is unknown here; start again without `requestState`"
_VOLATILE_MEMBERS = ("inputResponses", "requestState", "_meta")

StartHandler = Callable[[Call], Coroutine[Any, Any, Reply]]


class _Handle(msgspec.Struct, array_like=True):
    round: str
    turn: int
    principal: str
    digest: bytes


class Rounds:
    """The suspended exchanges of one server."""

    def __init__(self, sealer: Sealer, *, limit: int | None = None, input_timeout_s: float | None = None) -> None:
        self._sealer = sealer
        self._shares = Shares(bounds.ROUNDS if limit is None else limit)
        self._input_timeout_s = bounds.INPUT_TIMEOUT_S if input_timeout_s is None else input_timeout_s
        self._rounds: dict[str, Round] = {}

    def __len__(self) -> int:
        return len(self._rounds)

    async def begin(self, call: Call, start: StartHandler) -> Reply:
        """Run a handler that may request input; return its result or its first input requests."""
        owner = call.caller.owner
        if not self._shares.has_room(owner) and not self.drop_oldest(lambda other: other == owner):
            raise Overloaded("calls that wait for input", self._shares.limit)
        round_ = Round(os.urandom(12).hex(), _digest(call), call, self._input_timeout_s, owner)
        self._rounds[round_.id] = round_
        self._shares.take(owner)
        round_.start(start, self._forget)
        return await self._run_turn(round_, call)

    def can_resume(self, call: Call) -> bool:
        """Whether a call continues an exchange that is suspended here."""
        if getattr(call.params, "request_state", UNSET) is UNSET:
            return False
        try:
            self._find(call)
        except InvalidParams:
            return False
        return True

    async def resume(self, call: Call) -> Reply:
        """Continue a suspended handler; return its result or its next input requests."""
        round_ = self._find(call)
        # Move to the end, so that the rounds unused for longest are at the front.
        self._rounds[round_.id] = self._rounds.pop(round_.id)
        round_.deliver(read_responses(call.params.input_responses))
        return await self._run_turn(round_, call)

    async def close(self) -> None:
        """End every suspended handler."""
        tasks = [round_.task for round_ in self._rounds.values() if round_.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=bounds.SHUTDOWN_TIMEOUT_S)

    def drop_oldest(self, matches: Callable[[str], bool], *, after_s: float = 0.0) -> bool:
        """End the exchange that has waited longest: callers that never return must not block others.

        Only of owners that match. Return whether one has waited for `after_s`.
        """
        latest = asyncio.get_running_loop().time() - after_s
        candidates = (round_ for round_ in self._rounds.values() if round_.is_suspended and matches(round_.owner))
        waiting = next(candidates, None)
        if waiting is None or waiting.requested_at > latest:
            return False
        self._drop(waiting)
        return True

    def end_revoked(self, is_revoked: Callable[[str], bool]) -> None:
        """End every exchange of an owner whose credential was revoked."""
        revoked = set(filter(is_revoked, {*self._shares.owners} - {""}))
        for round_ in [round_ for round_ in self._rounds.values() if round_.owner in revoked]:
            self._drop(round_)

    def end_callers(self, matches: Callable[[Principal], bool]) -> None:
        """End the suspended exchanges of these principals, because they were logged out."""
        found = [round_ for round_ in self._rounds.values() if round_.is_suspended and matches(round_.principal)]
        for round_ in found:
            self._drop(round_)

    def _drop(self, round_: Round) -> None:
        self._forget(round_)
        assert round_.task is not None
        round_.task.cancel()

    def _find(self, call: Call) -> Round:
        try:
            handle = msgspec.convert(self._sealer.open(_PURPOSE, call.params.request_state), _Handle)
        except (ValueError, msgspec.ValidationError):
            raise InvalidParams(
                "`requestState` is not from this server, or has expired; start again without it"
            ) from None
        round_ = self._rounds.get(handle.round)
        if not _matches(handle, call):
            raise InvalidParams("`requestState` belongs to another request or caller; start again without it")
        if round_ is None or round_.turn != handle.turn:
            raise InvalidParams(_START_AGAIN)
        return round_

    async def _run_turn(self, round_: Round, call: Call) -> Reply:
        reply = await round_.next_reply(call)
        # A reply that has a state ends this round: it is that of another call, to which the handler passed its own.
        if isinstance(reply, InputRequired) and reply.request_state is UNSET:
            handle = _Handle(round_.id, round_.turn, call.caller.principal.name, round_.digest)
            reply.request_state = self._sealer.seal(
                _PURPOSE, msgspec.to_builtins(handle), lifetime_s=self._input_timeout_s
            )
        return reply

    def _forget(self, round_: Round) -> None:
        if self._rounds.pop(round_.id, None) is not None:
            self._shares.give_back(round_.owner)


class _InputRequest(msgspec.Struct):
    call: Call
    answer: asyncio.Future[Raw]


class Round:
    """One running handler. It is the return path of its own call, so the handler's requests end here."""

    def __init__(self, identifier: str, digest: bytes, call: Call, input_timeout_s: float, owner: str) -> None:
        self.id = identifier
        self.owner = owner
        self.digest = digest
        self.turn = 0
        self.task: asyncio.Task[Reply] | None = None
        self._call = call
        """The open request, or the last one."""
        self._input_timeout_s = input_timeout_s
        self._input_requests: dict[str, _InputRequest] = {}
        self._request_count = 0
        self.requested_at = 0.0
        """When input was last requested from its caller, on the loop's clock."""
        self._pending_reply: asyncio.Future[Reply] | None = None

    @property
    def principal(self) -> Principal:
        """The principal of its caller."""
        return self._call.caller.principal

    @property
    def is_suspended(self) -> bool:
        """Whether no request is open: the handler waits for its caller to repeat the request."""
        return self._pending_reply is None or self._pending_reply.done()

    def start(self, start: StartHandler, forget: Callable[[Round], None]) -> None:
        """Start the handler."""
        call = msgspec.structs.replace(self._call, back=self)

        def finished(task: asyncio.Task[Reply]) -> None:
            forget(self)
            self._finish(task)

        self.task = asyncio.get_running_loop().create_task(start(call))
        self.task.add_done_callback(finished)

    async def next_reply(self, call: Call) -> Reply:
        """Wait until the handler is done or requests input."""
        assert self.task is not None
        self._call = call
        self.turn += 1
        self._pending_reply = asyncio.get_running_loop().create_future()
        if self.task.done():
            self._finish(self.task)
        elif self._input_requests:
            self._schedule_send()
        try:
            return await self._pending_reply
        except asyncio.CancelledError:
            # The caller disconnected, so the result cannot be delivered.
            self.task.cancel()
            raise

    def deliver(self, responses: dict[str, Raw]) -> None:
        """Pass responses to the input requests that they belong to; others are ignored."""
        for key in [key for key in self._input_requests if key in responses]:
            input_request = self._input_requests.pop(key)
            if not input_request.answer.done():
                input_request.answer.set_result(responses[key])

    async def request(self, call: Call) -> Reply:
        """Queue an input request of the handler and wait for the response."""
        self._request_count += 1
        if self._request_count > bounds.ROUNDS_PER_CALL:
            raise Overloaded("input requests in one call", bounds.ROUNDS_PER_CALL)
        key = self._free_key(
            f"input_{self._request_count}" if call.id is NULL else msgspec.json.decode(call.id, type=str)
        )
        answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._input_requests[key] = _InputRequest(call, answer)
        self._schedule_send()
        try:
            async with asyncio.timeout(self._input_timeout_s):
                return RawReply(body=await answer)
        except TimeoutError:
            raise DeadlineExceeded("the response to an input request", self._input_timeout_s) from None
        finally:
            self._input_requests.pop(key, None)

    async def notify(self, note: Notification) -> None:
        """Send progress and log messages on the request that is open now, with its own progress token."""
        if self._pending_reply is None or self._pending_reply.done():
            return
        if isinstance(note.params, ProgressParams):
            token = self._call.meta.progress_token
            if token is UNSET:
                return
            note = Notification(note.method, msgspec.structs.replace(note.params, progress_token=token))
        await self._call.back.notify(note)

    def send_nowait(self, note: Notification) -> bool:
        """False: which request is open may change before the notification is sent."""
        return False

    async def release(self) -> None:
        """Do nothing: callers of the stateless era do not reconnect to a stream."""

    def _free_key(self, preferred: str) -> str:
        """Return a unique key for an input request: a number is appended if the preferred key is in use."""
        key, number = preferred, 1
        while key in self._input_requests:
            number += 1
            key = f"{preferred}_{number}"
        return key

    def _schedule_send(self) -> None:
        """Send after two iterations of the event loop, so that concurrent input requests go out together."""
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, self._send_input_requests)

    def _send_input_requests(self) -> None:
        if not self._input_requests or self._pending_reply is None or self._pending_reply.done():
            return
        requests = {
            key: {"method": input_request.call.method, "params": input_request.call.raw}
            for key, input_request in self._input_requests.items()
        }
        self.requested_at = asyncio.get_running_loop().time()
        self._pending_reply.set_result(InputRequired(result_type="input_required", input_requests=requests))

    def _finish(self, task: asyncio.Task[Reply]) -> None:
        waiting = self._pending_reply
        if waiting is None or waiting.done():
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not log it
            return
        if task.cancelled():
            waiting.set_exception(InvalidParams(_START_AGAIN))
        elif (error := task.exception()) is not None:
            waiting.set_exception(error)
        else:
            waiting.set_result(task.result())


def read_responses(raw: Raw | UnsetType) -> dict[str, Raw]:
    """Parse the `inputResponses` of a repeated request.

    Raises:
        InvalidParams: they are not an object of objects.
    """
    if raw is UNSET:
        return {}
    try:
        responses = msgspec.json.decode(raw, type=dict[str, Raw])
    except msgspec.DecodeError:
        raise InvalidParams("`inputResponses` must be an object with one response for each input request") from None
    for key, value in responses.items():
        if memoryview(value)[0] != ord("{"):
            raise InvalidParams(f"The response {key!r} in `inputResponses` must be an object")
    return responses


def _matches(handle: _Handle, call: Call) -> bool:
    return handle.principal == call.caller.principal.name and handle.digest == _digest(call)


def _digest(call: Call) -> bytes:
    """Digest of a request, without the members that may change when it is repeated.

    Raises:
        InvalidParams: a number in it is too large to be parsed.
    """
    import hashlib  # Few servers need it, so not at startup.

    try:
        members = msgspec.json.decode(call.raw)
    except msgspec.DecodeError as error:
        raise InvalidParams(f"Invalid params for {call.method}: {format_decode_error(error)}") from None
    for name in _VOLATILE_MEMBERS:
        members.pop(name, None)
    content = msgspec.json.encode([call.method, members], order="sorted")
    return hashlib.sha256(content).digest()
