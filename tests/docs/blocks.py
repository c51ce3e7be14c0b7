"""The fenced blocks of a page, as data.

    ```python title="weather.py"      a file called weather.py
    ```console                        `$ command` lines, each with the output it shows
    ```console terminal               the same in a second terminal, where they keep running

Parses only fences of Markdown. `test_docs` runs the blocks.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
GOVERNANCE_PAGES = sorted((ROOT / "docs" / "governance").glob("*.md"))
PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *GOVERNANCE_PAGES,
]

_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')


class Block(NamedTuple):
    """One fenced block."""

    language: str
    title: str | None
    text: str
    line: int
    """Where its text begins in the page."""
    has_terminal: bool = False
    """Whether its commands have a terminal of their own."""


class Step(NamedTuple):
    """One command of a console block, and the output that is shown beneath it."""

    command: str
    expected: str


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read_blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        title = _TITLE.search(match[2])
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(match[1], title[1] if title else None, match[3], line, match[2].strip() == "terminal"))
    return found


def parse_steps(console: str) -> list[Step]:
    """Split a console block into steps; a backslash continues a command in the next line."""
    steps: list[Step] = []
    lines = iter(console.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command += "\n" + next(lines)
            steps.append(Step(command, ""))
        else:
            steps[-1] = Step(steps[-1].command, f"{steps[-1].expected}{line}\n")
    return steps


def output_matches(shown: str, output: str) -> bool:
    """Whether output matches; `...` matches anything within a line, and any lines if it is alone in a line."""
    pattern = ""
    for line in shown.strip().splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ \t]*\n"
    output = output.strip("\n")
    return re.fullmatch(pattern, output and output + "\n") is not None
