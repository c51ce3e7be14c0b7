"""Elicitation forms in the terminal."""

import asyncio
import os
import pty
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hubbub import ElicitationRequest
from hubbub.cli.elicitation import Prompter


@contextmanager
def at_a_terminal() -> Iterator[int]:
    """Give this process a terminal for stdin and stderr; yields the other end."""
    ours, theirs = pty.openpty()
    try:
        with (
            os.fdopen(theirs, encoding="utf-8") as stdin,
            os.fdopen(os.dup(theirs), "w", encoding="utf-8") as stderr,
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(sys, "stdin", stdin)
            patch.setattr(sys, "stderr", stderr)
            yield ours
    finally:
        os.close(ours)


def test_one_form_is_asked_at_a_time_in_every_event_loop_of_the_process() -> None:
    schema = {"type": "object", "properties": {"given": {"type": "string"}, "family": {"type": "string"}}}

    async def both() -> list[str]:
        prompter = Prompter()
        forms = [ElicitationRequest(message=message, requested_schema=schema) for message in ("one", "two")]
        return [answer.action for answer in await asyncio.gather(*map(prompter.elicit, forms))]

    with at_a_terminal() as person:
        for _ in range(2):
            os.write(person, b"x\n" * 4)
            assert asyncio.run(both()) == ["accept", "accept"]
            shown = ""
            while shown.count("family") < 2:
                shown += os.read(person, 65536).decode()
            assert re.findall("one|two|given|family", shown) == ["one", "given", "family", "two", "given", "family"]
