"""An agent: a model that uses the tools of examples/weather.py to answer a question.

The model is behind any OpenAI-compatible endpoint, here one on the same machine:

    MODEL_URL=http://localhost:11434/v1 MODEL=qwen3 python examples/agent.py "What shall I pack for Bergen?"

MODEL_API_KEY is the key of the endpoint, if it needs one.
"""

import asyncio
import os
import sys
from pathlib import Path

from hubbub import ExecutorBuilder, OpenAIChat, ServerConfig, ToolLoopRunner, ToolRegistryBuilder, ToolsBuilder

WEATHER = ServerConfig(id="weather", command=sys.executable, args=[str(Path(__file__).with_name("weather.py"))])


async def answer(question: str) -> str:
    """Run the model until it needs no more tools, and return its answer."""
    chat = OpenAIChat(os.environ["MODEL_URL"], model=os.environ["MODEL"], api_key=os.environ.get("MODEL_API_KEY"))
    async with chat, await ToolRegistryBuilder([WEATHER]).build() as snapshot:
        for server, problem in snapshot.errors.items():
            print(f"without {server}: {problem}", file=sys.stderr)
        registry = ToolsBuilder.build(mcp_definitions=snapshot.definitions)
        executor = ExecutorBuilder.build(registry=registry, mcp_snapshot=snapshot)
        result = await ToolLoopRunner(registry, executor, chat=chat).run(question, max_turns=8)
        return result.assistant_text


if __name__ == "__main__":
    print(asyncio.run(answer(" ".join(sys.argv[1:]) or "What shall I pack for Bergen?")))
