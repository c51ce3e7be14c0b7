"""A run of the tool loop on a stage: a scripted model, an application's own tools, and somebody who watches."""

import json
from collections.abc import Sequence
from typing import Any

from tests.agent.scripted import ScriptedModel, Tools, Watcher, definitions

from hubbub import LoopOptions, ModelAnswer, RunResult, ToolLoopRunner, ToolsBuilder
from hubbub.agent.envelope import failed, problem

BROKEN = failed("now", problem("MINE", "no"))


class Play:
    """A runner with everything around it."""

    def __init__(
        self, *answers: ModelAnswer | Exception, tools: Sequence[str] = ("now", "search"), **more: Any
    ) -> None:
        self.model = ScriptedModel(*answers)
        self.own = more.pop("own", None) or Tools()
        self.seen = Watcher()
        runner_options = {name: more.pop(name) for name in ("system", "decide", "narrow", "sleep") if name in more}
        self.runner = ToolLoopRunner(
            ToolsBuilder.build(definitions(*tools)),
            self.own,
            chat=self.model,
            options=LoopOptions(**more),
            **runner_options,
        )

    async def run(self, text: str = "hi", **options: Any) -> RunResult:
        return await self.runner.run(text, on_event=self.seen, **options)

    def results(self, request: int = -1) -> list[dict[str, Any]]:
        """What the model was told of its calls."""
        messages = self.model.requests[request].messages
        return [json.loads(message["content"]) for message in messages if message["role"] == "tool"]

    def codes(self, request: int = -1) -> list[str]:
        return [error["code"] for result in self.results(request) for error in result["errors"]]
