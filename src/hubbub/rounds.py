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
from hubbub.protocol.jsonrpc import NULL
from hubbub.protocol.model import Call, Note, RawReply, Reply
from hubbub.protocol.params import readable
from hubbub.protocol.wire import InputRequired, ProgressParams
from hubbub.shares import Shares

_PURPOSE = "round"
_START_AGAIN = "This exchange is over or unknown here; start again without `requestState`"
_CHANGING = ("inputResponses", "requestState", "_meta")

Start = Callable[[Call], Coroutine[Any, Any, Reply]]


class _Handle(msgspec.Struct, array_like=True):
    round: str
    turn: int
    principal: str
    digest: bytes


class Rounds:
    """The suspended exchanges of one server."""

    def __init__(self, sealer: Sealer, *, limit: int | None = None, answer_s: float | None = None) -> None:
        self._sealer = sealer
        self._shares = Shares(bounds.ROUNDS if limit is None else limit)
        self._answer_s = bounds.ANSWER_S if answer_s is None else answer_s
        self._rounds: dict[str, Round] = {}

    def __len__(self) -> int:
        return len(self._rounds)

    async def begin(self, call: Call, start: Start) -> Reply:
        """Run a handler that may request input; return its result or its first input requests."""
        owner = call.caller.owner
        if not self._shares.has_room(owner) and not self.give_one_up(owner=owner):
            raise Overloaded("exchanges", self._shares.limit)
        round_ = Round(os.urandom(12).hex(), _digest(call), call, self._answer_s, owner)
        self._rounds[round_.id] = round_
        self._shares.take(owner)
        round_.start(start, self._forget)
        return await self._turn(round_, call)

    def holds(self, call: Call) -> bool:
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
        round_.answer(read_responses(call.params.input_responses))
        return await self._turn(round_, call)

    async def close(self) -> None:
        """End every suspended handler."""
        tasks = [round_.task for round_ in self._rounds.values() if round_.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=bounds.STOP_S)

    def give_one_up(self, *, after_s: float = 0.0, owner: str | None = None) -> bool:
        """End the exchange that has waited longest: callers that never return must not block others.

        With an owner, only one of its own. Return whether one has waited for `after_s`.
        """
        latest = asyncio.get_running_loop().time() - after_s
        candidates = (round_ for round_ in self._rounds.values() if owner is None or round_.owner == owner)
        waiting = next((round_ for round_ in candidates if round_.is_suspended), None)
        if waiting is None or waiting.asked_at > latest:
            return False
        self._give_up(waiting)
        return True

    def end_revoked(self, is_revoked: Callable[[str], bool]) -> None:
        """End every exchange of an owner whose credential was revoked."""
        revoked = set(filter(is_revoked, {*self._shares.owners} - {""}))
        for round_ in [round_ for round_ in self._rounds.values() if round_.owner in revoked]:
            self._give_up(round_)

    def _give_up(self, round_: Round) -> None:
        self._forget(round_)
        assert round_.task is not None
        round_.task.cancel()

    def _find(self, call: Call) -> Round:
        try:
            handle = msgspec.convert(self._sealer.open(_PURPOSE, call.params.request_state), _Handle)
        except (ValueError, msgspec.ValidationError):
            raise InvalidParams("`requestState` was not issued here or was changed") from None
        round_ = self._rounds.get(handle.round)
        if not _is_same(handle, call):
            raise InvalidParams("`requestState` belongs to another request")
        if round_ is None or round_.turn != handle.turn:
            raise InvalidParams(_START_AGAIN)
        return round_

    async def _turn(self, round_: Round, call: Call) -> Reply:
        reply = await round_.next(call)
        if isinstance(reply, InputRequired):
            handle = _Handle(round_.id, round_.turn, call.caller.principal.name, round_.digest)
            reply.request_state = self._sealer.seal(_PURPOSE, msgspec.to_builtins(handle), lifetime_s=self._answer_s)
        return reply

    def _forget(self, round_: Round) -> None:
        if self._rounds.pop(round_.id, None) is not None:
            self._shares.give_back(round_.owner)


class _Question(msgspec.Struct):
    call: Call
    answer: asyncio.Future[Raw]


class Round:
    """One running handler. It is the return path of its own call, so the handler's requests end here."""

    def __init__(self, identifier: str, digest: bytes, call: Call, answer_s: float, owner: str) -> None:
        self.id = identifier
        self.owner = owner
        self.digest = digest
        self.turn = 0
        self.task: asyncio.Task[Reply] | None = None
        self._call = call
        """The open request, or the last one."""
        self._answer_s = answer_s
        self._questions: dict[str, _Question] = {}
        self._asked = 0
        self.asked_at = 0.0
        """When input was last requested from its caller, on the loop's clock."""
        self._next: asyncio.Future[Reply] | None = None

    @property
    def is_suspended(self) -> bool:
        """Whether no request is open: the handler waits for its caller to repeat the request."""
        return self._next is None or self._next.done()

    def start(self, start: Start, forget: Callable[[Round], None]) -> None:
        """Start the handler."""
        call = msgspec.structs.replace(self._call, back=self)

        def finished(task: asyncio.Task[Reply]) -> None:
            forget(self)
            self._finish(task)

        self.task = asyncio.get_running_loop().create_task(start(call))
        self.task.add_done_callback(finished)

    async def next(self, call: Call) -> Reply:
        """Wait until the handler is done or requests input."""
        assert self.task is not None
        self._call = call
        self.turn += 1
        self._next = asyncio.get_running_loop().create_future()
        if self.task.done():
            self._finish(self.task)
        elif self._questions:
            self._soon()
        try:
            return await self._next
        except asyncio.CancelledError:
            # The caller disconnected, so the result cannot be delivered.
            self.task.cancel()
            raise

    def answer(self, responses: dict[str, Raw]) -> None:
        """Pass responses to the input requests that they belong to; others are ignored."""
        for key in [key for key in self._questions if key in responses]:
            question = self._questions.pop(key)
            if not question.answer.done():
                question.answer.set_result(responses[key])

    async def request(self, call: Call) -> Reply:
        """Queue an input request of the handler and wait for the response."""
        self._asked += 1
        if self._asked > bounds.ROUNDS_OF_ONE_CALL:
            raise Overloaded("questions in one call", bounds.ROUNDS_OF_ONE_CALL)
        key = self._free_key(f"input_{self._asked}" if call.id is NULL else msgspec.json.decode(call.id, type=str))
        answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._questions[key] = _Question(call, answer)
        self._soon()
        try:
            async with asyncio.timeout(self._answer_s):
                return RawReply(body=await answer)
        except TimeoutError:
            raise DeadlineExceeded("The answer", self._answer_s) from None
        finally:
            self._questions.pop(key, None)

    async def notify(self, note: Note) -> None:
        """Send progress and log messages on the request that is open now, with its own progress token."""
        if self._next is None or self._next.done():
            return
        if isinstance(note.params, ProgressParams):
            token = self._call.meta.progress_token
            if token is UNSET:
                return
            note = Note(note.method, msgspec.structs.replace(note.params, progress_token=token))
        await self._call.back.notify(note)

    def send_nowait(self, note: Note) -> bool:
        """False: which request is open may change before the notification is sent."""
        return False

    async def release(self) -> None:
        """Do nothing: callers of the stateless era do not reconnect to a stream."""

    def _free_key(self, wanted: str) -> str:
        """A unique key for an input request: a number is appended if the wanted key is in use."""
        key, number = wanted, 1
        while key in self._questions:
            number += 1
            key = f"{wanted}_{number}"
        return key

    def _soon(self) -> None:
        """Send after two iterations of the event loop, so that concurrent input requests go out together."""
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, self._ask)

    def _ask(self) -> None:
        if not self._questions or self._next is None or self._next.done():
            return
        requests = {
            key: {"method": question.call.method, "params": question.call.raw}
            for key, question in self._questions.items()
        }
        self.asked_at = asyncio.get_running_loop().time()
        self._next.set_result(InputRequired(result_type="input_required", input_requests=requests))

    def _finish(self, task: asyncio.Task[Reply]) -> None:
        waiting = self._next
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
        raise InvalidParams("`inputResponses` must be an object with one answer for each question") from None
    for key, value in responses.items():
        if memoryview(value)[0] != ord("{"):
            raise InvalidParams(f"The answer {key!r} in `inputResponses` must be an object")
    return responses


def _is_same(handle: _Handle, call: Call) -> bool:
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
        raise InvalidParams(f"Invalid params for {call.method}: {readable(error)}") from None
    for name in _CHANGING:
        members.pop(name, None)
    asked = msgspec.json.encode([call.method, members], order="sorted")
    return hashlib.sha256(asked).digest()
