"""The corpora that the scan of definitions is measured with.

`published_definitions.jsonl`: names, descriptions and parameters of tools and prompts that published servers list, each
with its package, version and license. `hostile_definitions.jsonl`: written for this test, after publicly known attacks.
Each has two halves: rules were written with a look at `tune`, and measured with `held_out`.
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("data")


def read_hostile() -> list[dict[str, Any]]:
    return _read("hostile_definitions.jsonl")


def read_published() -> list[dict[str, Any]]:
    return _read("published_definitions.jsonl")


def make_definition(row: dict[str, Any]) -> dict[str, Any]:
    """The definition in a row of the published corpus, which has only its texts."""
    properties = {name: {"description": text} for name, text in row["parameters"].items()}
    return {
        "name": row["name"],
        "title": row.get("title", ""),
        "description": row["description"],
        "inputSchema": {"type": "object", "properties": properties},
    }


def _read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]
