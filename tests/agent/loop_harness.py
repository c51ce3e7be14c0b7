"""A tool loop for tests: a scripted model, fake tools, and an event recorder."""

import json
from collections.abc import Sequence
from typing import Any

from tests.agent.fakes import EventRecorder, FakeTools, ScriptedModel, definitions

from hubbub import LoopOptions, ModelResponse, RunResult, ToolLoopRunner, ToolsBuilder
from hubbub.agent.envelope import error_envelope, make_problem

FAILED_ENVELOPE = error_envelope("now", make_problem("MINE", "no"))


class LoopHarness:
    """A runner with its fakes; keyword arguments are options of the runner or of the loop."""

    def __init__(
        self, *answers: ModelResponse | Exception, tools: Sequence[str] = ("now", "search"), **more: Any
    ) -> None:
        self.model = ScriptedModel(*answers)
        self.local_tools = more.pop("local_tools", None) or FakeTools()
        self.recorder = EventRecorder()
        runner_options = {name: more.pop(name) for name in ("system", "decide", "narrow", "sleep") if name in more}
        self.runner = ToolLoopRunner(
            ToolsBuilder.build(definitions(*tools)),
            self.local_tools,
            chat=self.model,
            options=LoopOptions(**more),
            **runner_options,
        )

    async def run(self, text: str = "hi", **options: Any) -> RunResult:
        return await self.runner.run(text, on_event=self.recorder, **options)

    def results(self, request: int = -1) -> list[dict[str, Any]]:
        """Return the results of tool calls in a request to the model."""
        messages = self.model.requests[request].messages
        return [json.loads(message["content"]) for message in messages if message["role"] == "tool"]

    def codes(self, request: int = -1) -> list[str]:
        return [error["code"] for result in self.results(request) for error in result["errors"]]
