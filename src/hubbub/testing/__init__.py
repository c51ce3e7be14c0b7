"""Test a server without a process or socket.

    from hubbub.testing import connect

    async def test_greets_by_name():
        async with connect(server, elicitation=[{"name": "Ada"}]) as client:
            assert (await client.call_tool("greet")).text == "Hello Ada"

With `pytest_plugins = ["hubbub.testing"]` in `conftest.py`, `connect` is also the fixture `mcp_connect`,
which fails a test that leaves a client open. pytest is imported only then.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from hubbub import (
    ChangeEvent,
    Client,
    ElicitationAnswer,
    ElicitationRequest,
    Hub,
    InMemoryServer,
    LogMessage,
    Root,
    SamplingAnswer,
    SamplingRequest,
    Server,
    ServerConfig,
    ToolEntry,
)
from hubbub.hub.front import Front
from hubbub.protocol.revisions import NEWEST_MODERN

__all__ = ["UPDATE_VARIABLE", "Connect", "ElicitationScript", "SamplingScript", "assert_schema", "connect"]

pytest_plugins = ["hubbub.testing.fixtures"]

UPDATE_VARIABLE: Final = "MCP_UPDATE_SCHEMAS"
"""The environment variable with which `assert_schema` writes snapshots instead of comparing with them."""

_ACTIONS: Final = ("accept", "decline", "cancel")
Request = TypeVar("Request", ElicitationRequest, SamplingRequest)
Answer = TypeVar("Answer")
PersonsAnswer: TypeAlias = ElicitationAnswer | Mapping[str, Any] | str
ModelsAnswer: TypeAlias = SamplingAnswer | str


class Connect(Protocol):
    """The type of the fixture `mcp_connect`, which is called as `connect` is."""

    def __call__(
        self,
        server: InMemoryServer | ServerConfig | Mapping[str, Any],
        *,
        protocol_version: str | None = None,
        elicitation: Sequence[PersonsAnswer] | ElicitationScript | None = None,
        sampling: Sequence[ModelsAnswer] | SamplingScript | None = None,
        roots: Sequence[Root | str] | None = None,
        on_log: Callable[[LogMessage], Any] | None = None,
        on_change: Callable[[ChangeEvent], Any] | None = None,
    ) -> AbstractAsyncContextManager[Client]: ...


class Script(Generic[Request, Answer]):
    """Scripted answers to the requests of a server, used in order; `requests` records those requests."""

    _kind: ClassVar[str]
    _answer_types: ClassVar[tuple[type, ...]]
    _usage: ClassVar[str]

    def __init__(self, *answers: Answer) -> None:
        for answer in answers:
            if not isinstance(answer, self._answer_types):
                raise TypeError(f"{answer!r} is not an answer to {self._kind}; use {self._usage}")
        self._answers = deque(answers)
        self._unanswered: list[str] = []
        self.requests: list[Request] = []

    def _next_answer(self, request: Request, text: str) -> Answer:
        self.requests.append(request)
        if not self._answers:
            self._unanswered.append(text)
            raise AssertionError(f"No scripted answer to {self._kind} is left for {text!r}")
        return self._answers.popleft()

    @property
    def problem(self) -> str | None:
        """Describes missing or unused answers; None if there are none."""
        sent = f"{self._kind}: requests from the server: {len(self.requests)}"
        if self._unanswered:
            answered = len(self.requests) - len(self._unanswered)
            return f"{sent}, scripted answers: {answered}; add answers to {', '.join(map(repr, self._unanswered))}"
        if self._answers:
            return f"{sent}; remove the answers that were not used: {', '.join(map(repr, self._answers))}"
        return None

    def assert_finished(self) -> None:
        """Check that every request was answered and every answer was used.

        Raises:
            AssertionError: an answer was missing, or was not used.
        """
        __tracebackhide__ = True
        if self.problem is not None:
            raise AssertionError(self.problem)


class ElicitationScript(Script[ElicitationRequest, PersonsAnswer]):
    """Answers of the user, for `Client(elicitation=...)`.

    A mapping is a form that was filled in and accepted; `"accept"`, `"decline"` and `"cancel"` have no content.

    Raises:
        ValueError: an answer is any other string.
        TypeError: an answer is something else.
    """

    _kind = "elicitation"
    _answer_types = (ElicitationAnswer, Mapping, str)
    _usage = f"{', '.join(_ACTIONS)}, a mapping with the form's fields, or an ElicitationAnswer"

    def __init__(self, *answers: PersonsAnswer) -> None:
        super().__init__(*answers)
        for answer in answers:
            if isinstance(answer, str) and answer not in _ACTIONS:
                raise ValueError(f"{answer!r} is not an answer to {self._kind}; use {self._usage}")

    def __call__(self, request: ElicitationRequest) -> ElicitationAnswer:
        """Answer one request."""
        answer = self._next_answer(request, request.message)
        if isinstance(answer, ElicitationAnswer):
            return answer
        return ElicitationAnswer(answer) if isinstance(answer, str) else ElicitationAnswer("accept", dict(answer))


class SamplingScript(Script[SamplingRequest, ModelsAnswer]):
    """Answers of the model, for `Client(sampling=...)`: strings, or complete answers.

    Raises:
        TypeError: an answer is something else.
    """

    _kind = "sampling"
    _answer_types = (SamplingAnswer, str)
    _usage = "a string or a SamplingAnswer"

    def __call__(self, request: SamplingRequest) -> SamplingAnswer:
        """Answer one request."""
        content: Any = request.messages[-1].get("content") if request.messages else None
        answer = self._next_answer(request, str(content.get("text", "")) if isinstance(content, dict) else "")
        return SamplingAnswer({"type": "text", "text": answer}, "scripted") if isinstance(answer, str) else answer


@asynccontextmanager
async def connect(
    server: InMemoryServer | ServerConfig | Mapping[str, Any],
    *,
    protocol_version: str | None = None,
    elicitation: Sequence[PersonsAnswer] | ElicitationScript | None = None,
    sampling: Sequence[ModelsAnswer] | SamplingScript | None = None,
    roots: Sequence[Root | str] | None = None,
    on_log: Callable[[LogMessage], Any] | None = None,
    on_change: Callable[[ChangeEvent], Any] | None = None,
) -> AsyncIterator[Client]:
    """Connect a client to a server; a server in this process runs while the client is open.

    Args:
        server: A `Server`, or the config of a server outside this process.
        protocol_version: One of `hubbub.SUPPORTED_PROTOCOL_VERSIONS`; default: the newest.
        elicitation: Answers of the user, in order, as in `ElicitationScript`; without it, elicitation is not supported.
        sampling: Answers of the model, in order, as in `SamplingScript`; without it, sampling is not supported.
        roots: Folders that the server may look at.
        on_log: Called with each log message of the server.
        on_change: Called with each change of a list or of a subscribed resource.

    Raises:
        AssertionError: at the end, if the server asked more or less often than there are answers.
    """
    for option, answers in (("elicitation", elicitation), ("sampling", sampling)):
        if isinstance(answers, str | Mapping):
            raise TypeError(f"`{option}` is a list of answers; write {option}=[{answers!r}]")
        if not isinstance(answers, Sequence | Script | None):
            raise TypeError(f"`{option}` is a list of answers; for a function, use Client(server, {option}=function)")
    elicitation_script = ElicitationScript(*elicitation) if isinstance(elicitation, Sequence) else elicitation
    sampling_script = SamplingScript(*sampling) if isinstance(sampling, Sequence) else sampling
    scripts = [script for script in (elicitation_script, sampling_script) if script is not None]
    client = Client(
        server,
        protocol_version=protocol_version,
        elicitation=elicitation_script,
        sampling=sampling_script,
        roots=roots,
        on_log=on_log,
        on_change=on_change,
    )
    try:
        async with client:
            yield client
    except BaseException as error:
        for script in scripts:
            if script.problem is not None:
                error.add_note(script.problem)  # it may be the cause
        raise
    __tracebackhide__ = True
    if problems := [script.problem for script in scripts if script.problem is not None]:
        raise AssertionError("\n".join(problems))


def assert_schema(tools: Server | Iterable[ToolEntry], path: str | Path, *, update: bool | None = None) -> None:
    """Compare the tools of a server with a snapshot: names, descriptions, schemas and annotations.

    Args:
        tools: A `Server`, which is not started; or the list that `Client.tools` returns.
        path: The snapshot, a JSON file. A relative path is resolved from the folder of the calling file.
        update: Write the snapshot instead of comparing; default: whether `MCP_UPDATE_SCHEMAS` is set. Fails in CI.

    Raises:
        AssertionError: the tools differ, or there is no snapshot; the message says how to update it.
    """
    __tracebackhide__ = True
    file = Path(sys._getframe(1).f_globals.get("__file__", "")).parent / path
    listed = _list_tools(tools)
    if bool(os.environ.get(UPDATE_VARIABLE)) if update is None else update:
        if os.environ.get("CI"):
            raise AssertionError(f"Snapshots are not written in CI: update {path} on your machine and commit it")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_dump(list(listed.values())) + "\n", encoding="utf-8")
        return
    advice = f"run the test once with {UPDATE_VARIABLE}=1 in the environment, review the file and commit it"
    try:
        stored = {entry["name"]: entry for entry in json.loads(file.read_text(encoding="utf-8"))}
    except FileNotFoundError:
        raise AssertionError(f"The snapshot {file} does not exist: {advice}") from None
    except (ValueError, TypeError, KeyError):
        raise AssertionError(f"{file} is not a snapshot of tools: {advice}") from None
    if differences := [line for name in sorted(stored | listed) for line in _diff(name, stored, listed)]:
        message = f"The tools differ from {path}. If the change is intended, {advice}."
        raise AssertionError("\n".join((message, *differences)))


def _list_tools(tools: Server | Iterable[ToolEntry]) -> dict[str, Any]:
    if isinstance(tools, Hub | Front):
        raise TypeError("The tools of a hub are known only while it runs: pass `await client.tools()` of a Client(hub)")
    if isinstance(tools, Server):
        tools = [tool.entry(NEWEST_MODERN) for tool in tools.tools.all() if tools.view.shows(tool)]
    if not isinstance(tools, Iterable):
        raise TypeError(f"Pass a Server, or the list that `await client.tools()` returns, instead of {tools!r}")
    entries = sorted(tools, key=lambda entry: entry.name)
    return {entry.name: msgspec.to_builtins(entry) for entry in entries}


def _diff(name: str, stored: Mapping[str, Any], listed: Mapping[str, Any]) -> Iterator[str]:
    """Describe how one tool differs, in lines; none if it does not."""
    if name not in listed:
        yield f"\nTool {name!r} was removed."
    elif name not in stored:
        yield f"\nTool {name!r} is new."
    elif (old := _dump(stored[name])) != (new := _dump(listed[name])):
        yield f"\nTool {name!r} changed:"
        lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "snapshot", "server", lineterm="", n=5)
        yield from lines


def _dump(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
