"""A bare server on stdio, for clients under test: `python -m bench.floors.bare_stdio legacy|modern`."""

from __future__ import annotations

import os

from bench.floors.bare import answer


def main() -> None:
    """Answer until the input ends: all that has come whole, in one write."""
    rest = b""
    while data := os.read(0, 1 << 20):
        *lines, rest = (rest + data).split(b"\n")
        answers = b"".join(found + b"\n" for line in lines if (found := answer(line)))
        while answers:
            answers = answers[os.write(1, answers) :]


main()
